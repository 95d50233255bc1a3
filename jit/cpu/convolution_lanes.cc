#include "jit/cpu/convolution_lanes.h"

namespace lamina::jit {
namespace {

constexpr double kLeastLaneWork = 1 << 14;
// Wider groups fill vectors with their own features, and so do others where lanes stay without a group.
constexpr int64_t kMostProducts = 64;
// What is read again and again lies in the second-level cache...
constexpr int64_t kPartBytes = 512 << 10;
// ... or, where a line is too long for that, not far beyond it.
constexpr int64_t kMostPartBytes = 8 << 20;
constexpr int64_t kLongestLaneLine = 1 << 20;

}  // namespace

std::optional<LanePlan> plan_lanes(const hlo::ConvShape& s, int64_t lanes, int64_t element_bytes,
                                   int64_t threads) {
  LanePlan p{};
  p.lanes = lanes;
  p.dims = s.spatial;
  if (p.dims.empty()) p.dims.emplace_back();
  p.features = s.filter_input;
  p.columns = s.output_features / s.groups();
  p.images = s.output_batch();
  p.blocks = ceil_div(s.groups(), lanes);
  if (2 * s.groups() < lanes || p.columns >= lanes || p.features == 0 || p.columns == 0 || p.images == 0 ||
      p.features * p.columns * p.blocks * lanes > kMostProducts * s.groups())
    return std::nullopt;
  // A product of few such numbers, none of which can overflow a double.
  double positions = 1, outputs = 1, terms = static_cast<double>(p.features);
  for (const hlo::ConvDim& d : p.dims) {
    if (d.filter == 0 || d.output == 0) return std::nullopt;
    if (std::max({d.output, d.stride, d.filter, d.filter_dilation, d.input_dilation}) > kLongestLaneLine)
      return std::nullopt;
    p.width.push_back((d.output - 1) * d.stride + (d.filter - 1) * d.filter_dilation + 1);
    positions *= static_cast<double>(&d == p.dims.data() ? 1 : p.width.back());
    outputs *= static_cast<double>(d.output);
    terms *= static_cast<double>(d.filter);
  }
  const double work =
      static_cast<double>(s.output_features) * static_cast<double>(p.images) * outputs * terms;
  if (work < kLeastLaneWork || positions > kLongestLaneLine) return std::nullopt;
  p.line_terms = p.features;
  for (size_t d = 1; d < p.dims.size(); ++d) {
    p.line_positions *= p.width[d];
    p.line_outputs *= p.dims[d].output;
    p.line_terms *= p.dims[d].filter;
  }
  const hlo::ConvDim& y = p.dims[0];
  p.lines = y.output;
  p.taps = y.filter;
  const auto bytes = [&] { return p.elements() * element_bytes; };
  while (bytes() > kPartBytes && (p.lines > 1 || p.taps > 1)) {
    const bool window = p.lines == 1 || (p.taps > 1 && p.taps * y.filter_dilation > p.lines * y.stride);
    int64_t& longer = window ? p.taps : p.lines;
    longer = ceil_div(longer, 2);
  }
  if (bytes() > kMostPartBytes) return std::nullopt;
  const double tasks = std::clamp(work / kWorkPerThread, 1.0, static_cast<double>(threads));
  p.tasks = std::min(static_cast<int64_t>(tasks), p.blocks * p.images * p.strips());
  return p;
}

}  // namespace lamina::jit
