// Machine code without a linker: relocatable objects of the code generator become images, images run.
//
// Contract: an image holds code and constants of one kernel and needs nothing from outside; `link_object`
// refuses, in words, objects of which that is not so. Any bytes give an image or an error, never a crash;
// what an image does when it runs is what its bytes say.
#ifndef LAMINA_JIT_CPU_OBJECT_CODE_H_
#define LAMINA_JIT_CPU_OBJECT_CODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit {

inline constexpr size_t kMaxImageBytes = size_t{64} << 20;

struct Image {
  std::string bytes;
  uint64_t entry = 0;
};

// The sections of an ELF object in one piece, its relocations done. Unimplemented for other machines than
// x86-64 and for relocations that depend on where the code lies.
absl::StatusOr<Image> link_object(std::string_view object);

// An image in executable memory of its own, from its making to its end.
class MappedCode {
 public:
  static absl::StatusOr<std::unique_ptr<const MappedCode>> map(std::string_view image, uint64_t entry);
  ~MappedCode();
  MappedCode(const MappedCode&) = delete;
  MappedCode& operator=(const MappedCode&) = delete;

  KernelEntry entry() const;
  size_t size() const { return bytes_; }

 private:
  MappedCode(void* memory, size_t bytes, uint64_t entry) : memory_(memory), bytes_(bytes), entry_(entry) {}
  void* memory_;
  size_t bytes_;
  uint64_t entry_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_OBJECT_CODE_H_
