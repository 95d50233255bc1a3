// Copies of an array in another order of its dimensions, shared out on threads.
//
// Contract: the result is dense and row-major. Where the elements lie side by side along another dimension
// than its last, both sides are walked in tiles, by whole cache lines.
#ifndef LAMINA_JIT_CPU_STRIDED_COPY_H_
#define LAMINA_JIT_CPU_STRIDED_COPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

class StridedCopy {
 public:
  // Dimensions of the result, outermost first, and how far neighbours along each are apart in the source, in
  // elements of `width` bytes.
  StridedCopy(const std::vector<int64_t>& extents, const std::vector<int64_t>& from, int64_t width);

  absl::Status run(const void* source, void* target, const KernelContext& context) const;
  bool uses_tiles() const { return tiles_; }
  // Of the tiles: how many matrices, and their sides.
  int64_t matrices() const { return count_; }
  int64_t rows() const { return row_.extent; }
  int64_t columns() const { return column_.extent; }

 private:
  void run_tiles(const void* source, void* target, int64_t from, int64_t to, int64_t first,
                 bool streamed) const;
  void copy_rows(const std::byte* from, std::byte* to, int64_t rows) const;
  int64_t band_rows() const;

  int64_t width_;
  bool tiles_ = false;
  std::vector<BoxDim> outer_;  // all but the two below
  int64_t count_ = 1;          // of their elements
  // With tiles the dimension that is contiguous in the source, else the last but one; and the last one of the
  // result.
  BoxDim row_{1, 1, 1}, column_{1, 1, 1};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_STRIDED_COPY_H_
