#include "hlo/reference_dot.h"

#include <string>

#include "hlo/reference_chain.h"
#include "hlo/type_error.h"

namespace lamina::hlo {

absl::Status check_dot_types(DType in, DType out) {
  if (is_narrow(in) || is_narrow(out))
    return type_error("a product of two ", info(in).name, " arrays is that of the arrays converted to ",
                      is_float(in) ? "f32" : info(storage_type(in)).name);
  const bool same = in == out && !is_bool(in);
  const bool wider_float = is_storage_float(in) && out == DType::kF32;
  const bool wider_integer = is_integer(in) && is_integer(out) && byte_size(out) > byte_size(in);
  if (same || wider_float || wider_integer) return absl::OkStatus();
  return type_error("a product of two ", info(in).name, " arrays cannot have element type ", info(out).name);
}

absl::Status reference_dot(DType in, DType out, const DotShape& s, const void* a, const void* b, void* c) {
  if (absl::Status types = check_dot_types(in, out); !types.ok()) return types;
  with_dot_accumulator(out, [&]<typename T>() {
    for (int64_t i = 0; i < s.batch; ++i)
      for (int64_t m = 0; m < s.m; ++m)
        for (int64_t n = 0; n < s.n; ++n) {
          const T element = reference_chain<T>(
              s.k, [&](int64_t k) { return load_as<T>(in, a, i * s.lhs_batch + m * s.lhs_m + k * s.lhs_k); },
              [&](int64_t k) { return load_as<T>(in, b, i * s.rhs_batch + k * s.rhs_k + n * s.rhs_n); });
          store_as<T>(out, c, (i * s.m + m) * s.n + n, element);
        }
  });
  return absl::OkStatus();
}

}  // namespace lamina::hlo
