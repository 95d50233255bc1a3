#include "lazy/ranges.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "hlo/attributes.h"
#include "lazy/lazy.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using hlo::Attr;
using hlo::Builder;
using hlo::Values;

Values starts_of(const Value& x, std::span<const Range> ranges) {
  const Dims& dims = x.dims();
  const bool wide = std::any_of(dims.begin(), dims.end(),
                                [](int64_t n) { return n > std::numeric_limits<int32_t>::max(); });
  Values out;
  for (const Range& r : ranges) {
    const int32_t narrow = static_cast<int32_t>(r.start);
    out.push_back(wide ? number(DType::kS64, &r.start) : number(DType::kS32, &narrow));
  }
  return out;
}

Dims sizes_of(std::span<const Range> ranges) {
  Dims out;
  for (const Range& r : ranges) out.push_back(r.size);
  return out;
}

bool is_whole(const Value& x, std::span<const Range> ranges) {
  for (size_t d = 0; d < ranges.size(); ++d)
    if (ranges[d].start != 0 || ranges[d].step != 1 || ranges[d].size != x.dims()[d]) return false;
  return true;
}

Value with_fixed_starts(Builder& b, const Value& x, std::span<const Range> ranges) {
  Dims starts, limits, strides, turned;
  bool whole = true;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const auto [start, step, n] = ranges[d];
    const int64_t end = start + (n - 1) * step;
    starts.push_back(n == 0 ? 0 : std::min(start, end));
    limits.push_back(n == 0 ? 0 : std::max(start, end) + 1);
    strides.push_back(n > 1 ? std::abs(step) : 1);
    if (step < 0 && n > 1) turned.push_back(static_cast<int64_t>(d));
    whole &= starts[d] == 0 && limits[d] == x.dims()[d] && strides[d] == 1;
  }
  const Value out = whole ? x : b.slice(x, starts, limits, strides);
  return turned.empty() ? out : b.reverse(out, turned);
}

}  // namespace

Value take_ranges(Builder& b, const Value& x, std::span<const Range> ranges) {
  if (is_whole(x, ranges)) return x;
  const bool runs = std::all_of(ranges.begin(), ranges.end(),
                                [](const Range& r) { return r.size == 1 || (r.size > 1 && r.step == 1); });
  if (!runs || innermost_stamp() != 0) return with_fixed_starts(b, x, ranges);
  Values operands{x};
  for (Value& start : starts_of(x, ranges)) operands.push_back(std::move(start));
  return b.make(hlo::Op::dynamic_slice, operands, hlo::intern_attrs({{Attr::slice_sizes, sizes_of(ranges)}}));
}

Value put_ranges(Builder& b, const Value& x, std::span<const Range> ranges, const Value& part) {
  return is_whole(x, ranges) ? part : b.dynamic_update_slice(x, part, starts_of(x, ranges));
}

}  // namespace lamina::lazy
