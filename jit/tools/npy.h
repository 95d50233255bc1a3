// Arrays in NumPy's file format, versions 1 to 3.
//
// bf16 has no descr of its own in NumPy: it is written as <u2 (its bits), and <u2 or |V2 is read as bf16
// where bf16 is asked for. Big-endian and Fortran-order files are read; files are written little-endian and
// in C order.
#ifndef LAMINA_JIT_TOOLS_NPY_H_
#define LAMINA_JIT_TOOLS_NPY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/literal.h"

namespace lamina::jit {

// `want` (may be null) settles what 16-bit data mean; it is not otherwise checked.
absl::StatusOr<hlo::LiteralPtr> parse_npy(std::string_view bytes, const hlo::Type* want = nullptr);
std::string format_npy(const hlo::Literal& literal);

absl::StatusOr<hlo::LiteralPtr> read_npy(const std::string& path, const hlo::Type* want = nullptr);
absl::Status write_npy(const std::string& path, const hlo::Literal& literal);

// Whole files, for the tools.
absl::StatusOr<std::string> read_file(const std::string& path);
absl::Status write_file(const std::string& path, std::string_view bytes);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_TOOLS_NPY_H_
