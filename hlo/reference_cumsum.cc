#include "hlo/reference_cumsum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/op.h"

namespace lamina::hlo {
namespace {

// Sums of lines of one type, in place.
class LineSums {
 public:
  explicit LineSums(DType type)
      : add_(scalar_program(Op::add, std::vector<DType>{type, type}, type, *intern_attrs({}))),
        width_(byte_size(type)) {}

  void run(std::byte* x, int64_t length) {
    const int64_t groups = (length + kCumsumGroup - 1) / kCumsumGroup;
    if (groups == 0) return;
    for (int64_t g = 0; g < groups; ++g) double_up(at(x, g * kCumsumGroup), in_group(g, length));
    if (groups == 1) return;
    std::vector<std::byte> totals(static_cast<size_t>((groups - 1) * width_));
    for (int64_t g = 0; g + 1 < groups; ++g)
      std::memcpy(at(totals.data(), g), at(x, (g + 1) * kCumsumGroup - 1), static_cast<size_t>(width_));
    run(totals.data(), groups - 1);
    for (int64_t g = 1; g < groups; ++g)
      for (int64_t j = 0; j < in_group(g, length); ++j) {
        std::byte* const sum = at(x, g * kCumsumGroup + j);
        add(at(totals.data(), g - 1), sum, sum, 1);
      }
  }

 private:
  static int64_t in_group(int64_t g, int64_t length) {
    return std::min(kCumsumGroup, length - g * kCumsumGroup);
  }
  std::byte* at(std::byte* x, int64_t i) const { return x + i * width_; }
  void double_up(std::byte* x, int64_t count) {
    std::vector<std::byte> before(static_cast<size_t>(count * width_));
    for (int64_t d = 1; d < count; d *= 2) {
      std::memcpy(before.data(), x, before.size());
      add(before.data(), at(before.data(), d), at(x, d), count - d);
    }
  }
  void add(const std::byte* a, const std::byte* b, std::byte* to, int64_t count) {
    const void* in[] = {a, b};
    void* out[] = {to};
    add_.run(in, out, count, scratch_);
  }

  const PreparedProgram add_;
  PreparedProgram::Scratch scratch_;
  const int64_t width_;
};

}  // namespace

CumsumLines cumsum_lines(const Node& n) {
  const std::span<const int64_t> dims = n.type()->dims;
  const auto d = static_cast<size_t>(n.attrs().integer(Attr::dimension));
  return {product(dims.first(d)), dims[d], product(dims.subspan(d + 1)), n.attrs().flag(Attr::reverse)};
}

void reference_cumsum(DType type, const CumsumLines& lines, const void* in, void* sums) {
  const auto [outer, length, inner, reverse] = lines;
  // The parts of complex numbers are summed by themselves.
  const int64_t lanes = inner * num_parts(type), width = byte_size(part_type(type));
  LineSums of_line(part_type(type));
  std::vector<std::byte> line(static_cast<size_t>(length * width));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto place = [&, length = length, reverse = reverse](int64_t i) {
        return ((o * length + (reverse ? length - 1 - i : i)) * lanes + lane) * width;
      };
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(&line[static_cast<size_t>(i * width)], static_cast<const std::byte*>(in) + place(i),
                    static_cast<size_t>(width));
      of_line.run(line.data(), length);
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(static_cast<std::byte*>(sums) + place(i), &line[static_cast<size_t>(i * width)],
                    static_cast<size_t>(width));
    }
}

}  // namespace lamina::hlo
