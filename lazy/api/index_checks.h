// Whether checkify looks at indices, and how.
#ifndef LAMINA_LAZY_API_INDEX_CHECKS_H_
#define LAMINA_LAZY_API_INDEX_CHECKS_H_

#include <source_location>

#include "lamina/tensor.h"

namespace lamina::detail {

// On this thread; part of what a trace depends on.
bool& checking_indices();
// Records that all of these integers are within -size..size-1.
void check_index(const Tensor& at, int64_t size, int64_t axis, const std::source_location& where);

}  // namespace lamina::detail

#endif  // LAMINA_LAZY_API_INDEX_CHECKS_H_
