// What both sides of llvm_api.h must agree on: the interface's version, and the primitives, whose numbers
// cross it. A library of another build than its caller is refused in words and not misunderstood.
#ifndef LAMINA_JIT_CODEGEN_VERSION_H_
#define LAMINA_JIT_CODEGEN_VERSION_H_

#include <cstdint>
#include <string_view>

#include "jit/codegen/api.h"

namespace lamina::jit {

inline constexpr std::string_view kPrimitivesInOrder =
#define PRIM(name, arity, meaning) #name ":" #arity ";"
#include "hlo/scalar/primitives.def"
#undef PRIM
    ;

// FNV-1a over the primitives, begun with the version.
constexpr uint32_t llvm_interface(uint32_t version, std::string_view primitives) {
  uint32_t hash = 2166136261u ^ version;
  for (const char c : primitives) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}
inline constexpr uint32_t kLlvmInterface = llvm_interface(LAMINA_LLVM_API_VERSION, kPrimitivesInOrder);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CODEGEN_VERSION_H_
