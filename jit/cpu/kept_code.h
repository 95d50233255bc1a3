// What the disk holds of a kernel: an image, which no other library is needed to run, or, where none can be
// made, the generator's object.
#ifndef LAMINA_JIT_CPU_KEPT_CODE_H_
#define LAMINA_JIT_CPU_KEPT_CODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lamina::jit {

struct KeptCode {
  std::string_view bytes;         // of what was unpacked
  std::optional<uint64_t> entry;  // where in the image; none: the bytes are an object
};

std::string pack_code(std::string_view object);
// None if `packed` is too short to be that; bytes and entry are as they are found.
std::optional<KeptCode> unpack_code(std::string_view packed);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_KEPT_CODE_H_
