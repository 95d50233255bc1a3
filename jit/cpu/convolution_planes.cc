#include "jit/cpu/convolution_planes.h"

namespace lamina::jit {
namespace {

constexpr double kLeastPlaneWork = 1 << 16;
// Planes, and sums, that are read over and over lie in the second-level cache...
constexpr int64_t kPlanesBytes = 192 << 10;
// ... or, if they must, beyond it.
constexpr int64_t kMostPlanesBytes = 2 << 20;
constexpr int64_t kLongestExtent = 1 << 20;
// Of the positions that are gone over, at least so large a share is of the output.
constexpr double kLeastShare = 0.5;

}  // namespace

template <typename T>
std::optional<PlanePlan> plan_planes(const hlo::ConvShape& s, const GemmKernels<T>& kernels,
                                     int64_t threads) {
  const size_t rank = s.spatial.size();
  if (rank < 1 || rank > 2) return std::nullopt;
  PlanePlan p{};
  if (rank == 2) p.y = s.spatial[0];
  p.x = s.spatial[rank - 1];
  const hlo::ConvDim &y = p.y, &x = p.x;
  const int64_t batch = s.output_batch(), lanes = kernels.lanes;
  p.features = s.filter_input;
  p.columns = s.output_features / s.groups();
  p.k = s.window() * p.features;
  // A window of one position is a product of matrices that lie in memory.
  if (p.k == 0 || batch == 0 || s.positions() == 0 || p.columns >= lanes || s.window() == 1 ||
      x.stride != 1 || y.stride != 1)
    return std::nullopt;
  const double work = static_cast<double>(batch) * static_cast<double>(s.positions()) *
                      static_cast<double>(s.output_features) * static_cast<double>(p.k);
  if (work < kLeastPlaneWork) return std::nullopt;
  p.width = x.output + (x.filter - 1) * x.filter_dilation;
  const int64_t reach = (y.filter - 1) * y.filter_dilation;
  // No size below can overflow: it is a product of three numbers no larger than this.
  if (std::max({p.width, p.features, y.output, reach}) > kLongestExtent) return std::nullopt;

  p.tasks = static_cast<int64_t>(std::clamp(work / kWorkPerThread, 1.0, static_cast<double>(threads)));
  p.vecs = kMaxTileVecs;
  p.tile_rows = kernels.wide_rows;
  const auto with_lines = [&](int64_t lines) {
    p.lines = lines;
    p.held_lines = lines + reach;
    // Planes an odd number of cache lines apart do not all begin in one set of a cache.
    constexpr int64_t kLine = 64 / sizeof(T);
    p.plane = (ceil_div(p.held_lines * p.width, kLine) | 1) * kLine;
    p.sums = ceil_div((lines - 1) * p.width + x.output, lanes) * lanes;
    return std::max(p.plane_elements(lanes), p.columns * p.sums) * static_cast<int64_t>(sizeof(T));
  };
  if (with_lines(1) > kMostPlanesBytes) return std::nullopt;
  // Every task has its share, where images are too few for that.
  const int64_t most = ceil_div(y.output, ceil_div(p.tasks, s.groups() * batch));
  while (p.lines < most)
    if (with_lines(p.lines + 1) > kPlanesBytes) {
      with_lines(p.lines - 1);
      break;
    }
  with_lines(ceil_div(y.output, p.cuts()));
  p.tasks = std::min(p.tasks, s.groups() * batch * p.cuts());
  const double share = static_cast<double>(p.lines * x.output) / static_cast<double>(p.sums);
  return share < kLeastShare ? std::nullopt : std::optional(p);
}

template std::optional<PlanePlan> plan_planes(const hlo::ConvShape&, const GemmKernels<float>&, int64_t);
template std::optional<PlanePlan> plan_planes(const hlo::ConvShape&, const GemmKernels<double>&, int64_t);

}  // namespace lamina::jit
