// Comparing our declarations of NVIDIA's libraries with the toolkit's, when they are compiled.
#ifndef LAMINA_TESTS_JIT_TOOLKIT_HEADERS_H_
#define LAMINA_TESTS_JIT_TOOLKIT_HEADERS_H_

#include <cstddef>
#include <type_traits>

namespace lamina::testing {

template <typename T>
constexpr int as_int(T value) {
  return static_cast<int>(value);
}

// Pairs of ours and the toolkit's.
template <size_t N>
constexpr bool all_same(const int (&values)[N][2]) {
  for (const auto& [ours, theirs] : values)
    if (ours != theirs) return false;
  return true;
}

// Types of ours and the toolkit's that are the same to a call: numbers and enumerations of one size,
// pointers.
template <typename A, typename B>
constexpr bool kAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                        (std::is_integral_v<A> || std::is_enum_v<A>) ==
                            (std::is_integral_v<B> || std::is_enum_v<B>);
template <>
inline constexpr bool kAlike<void, void> = true;

template <typename Ours, typename... OurParts, typename Theirs, typename... TheirParts>
constexpr bool alike(Ours (*)(OurParts...), Theirs (*)(TheirParts...)) {
  if constexpr (sizeof...(OurParts) == sizeof...(TheirParts))
    return kAlike<Ours, Theirs> && (kAlike<OurParts, TheirParts> && ...);
  else
    return false;
}
template <auto Theirs, typename Ours>
constexpr bool kSameCall = alike(static_cast<Ours>(nullptr), static_cast<decltype(Theirs)>(nullptr));

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_TOOLKIT_HEADERS_H_
