#include "jit/cpu/convolution_features.h"

#include "hlo/reference_dot.h"

namespace lamina::jit {
namespace {

constexpr double kLeastFeatureWork = 1 << 14;
// Tables for more terms than this take longer to make and to read than they save.
constexpr int64_t kMostTableTerms = 1 << 16;

}  // namespace

std::optional<FeaturePlan> plan_features(const hlo::ConvShape& s, int64_t lanes, int64_t threads) {
  const size_t rank = s.spatial.size();
  if (rank < 1 || rank > 2) return std::nullopt;
  FeaturePlan p{};
  if (rank == 2) p.y = s.spatial[0];
  p.x = s.spatial[rank - 1];
  p.features = s.groups();
  const int64_t group_stride =
      s.batch_groups > 1 ? s.output_batch() * s.input_batch_stride : s.input_feature_stride;
  if (s.filter_input != 1 || s.output_features != s.groups() || group_stride != 1 ||
      s.output_feature_stride != 1 || p.features < 2 * lanes)
    return std::nullopt;
  // Sizes whose products cannot overflow below.
  for (const hlo::ConvDim* d : {&p.y, &p.x})
    if (std::max({d->filter, d->filter_dilation, d->output, d->stride}) > kMostTableTerms)
      return std::nullopt;
  p.held = (p.y.filter - 1) * p.y.filter_dilation + 1;
  if (p.terms() == 0 || p.terms() > hlo::kDotBlock || p.line_terms() * p.held > kMostTableTerms)
    return std::nullopt;
  const double work = static_cast<double>(p.features) * static_cast<double>(s.output_batch()) *
                      static_cast<double>(s.positions()) * static_cast<double>(p.terms());
  if (work < kLeastFeatureWork) return std::nullopt;
  p.tiles = ceil_div(p.x.output, kMaxFeatureChains);
  const double tasks = std::clamp(work / kWorkPerThread, 1.0, static_cast<double>(threads));
  p.tasks = std::min(static_cast<int64_t>(tasks), s.output_batch() * p.y.output);
  return p;
}

}  // namespace lamina::jit
