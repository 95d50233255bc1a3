#include "hlo/cumsum_window.h"

#include <algorithm>
#include <utility>

#include "hlo/attributes.h"
#include "hlo/match.h"
#include "hlo/op.h"
#include "hlo/regions.h"

namespace lamina::hlo {

absl::StatusOr<ComputationPtr> window_of_cumsum(const Node& n) {
  const Type* const type = n.type();
  const Type* const element = scalar_type(type->dtype);
  const auto d = static_cast<size_t>(n.attrs().integer(Attr::dimension));
  absl::StatusOr<ComputationPtr> sum = record_region(
      {{element, element}}, [](Builder& b, std::span<const Value> p) { return Values{b.add(p[0], p[1])}; });
  if (!sum.ok()) return sum.status();
  return record_region({{type}}, [&](Builder& b, std::span<const Value> p) {
    // -0 + x is x, of either zero too.
    const Value zero = is_float(type->dtype) ? b.scalar(type->dtype, -0.0) : b.scalar(type->dtype, 0);
    WindowDims w;
    w.dimensions.assign(type->dims.size(), 1);
    w.padding.assign(2 * type->dims.size(), 0);
    const int64_t length = type->dims[d];
    if (length == 0) return Values{p[0]};
    w.dimensions[d] = length;
    w.padding[2 * d + (n.attrs().flag(Attr::reverse) ? 1 : 0)] = length - 1;
    return b.reduce_window(p, {{zero}}, *std::move(sum), w);
  });
}

Value cumsum_of_window(Builder& b, std::span<const Value> arrays, std::span<const Value> inits,
                       const Computation& body, const WindowDims& w) {
  if (arrays.size() != 1 || inits.size() != 1 || !arrays[0] || !inits[0]) return {};
  const Dims& dims = arrays[0].dims();
  if (region_op(body) != Op::add || arrays[0].dtype() == DType::kBool) return {};
  if (!match::is_uniform(inits[0], 0.0) && !match::is_uniform(inits[0], -0.0)) return {};
  for (const Dims* ones : {&w.strides, &w.base_dilations, &w.window_dilations})
    if (!std::all_of(ones->begin(), ones->end(), [](int64_t v) { return v == 1; })) return {};
  if (w.dimensions.size() != dims.size() || w.padding.size() != 2 * dims.size()) return {};
  int64_t along = -1;
  bool reverse = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t before = w.padding[2 * d], behind = w.padding[2 * d + 1];
    if (w.dimensions[d] == 1 && before == 0 && behind == 0) continue;
    if (along >= 0 || w.dimensions[d] != dims[d] || before + behind != dims[d] - 1 ||
        (before > 0 && behind > 0))
      return {};
    along = static_cast<int64_t>(d);
    reverse = behind > 0;
  }
  return along < 0 ? Value() : b.cumsum(arrays[0], along, reverse);
}

}  // namespace lamina::hlo
