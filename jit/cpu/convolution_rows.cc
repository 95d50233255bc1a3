#include "jit/cpu/convolution_rows.h"

namespace lamina::jit {
namespace {

// Fewer rows than this leave most of a tile's registers empty.
constexpr int64_t kLeastRows = 4;
// Of so few positions in a line images make the longer rows.
constexpr int64_t kFewPositions = 8;
// Shorter runs cost more to begin than they save.
constexpr int64_t kLeastRun = 8;
constexpr double kLeastWork = 1 << 18;
// Lines that are read over and over lie in the second-level cache...
constexpr int64_t kLinesBytes = 192 << 10;
// ... or, if they must, beyond it.
constexpr int64_t kMostLinesBytes = 2 << 20;
constexpr int64_t kMostSumsBytes = 4 << 20;
constexpr int64_t kChunkBytes = 256 << 10;
// A panel of filters is read from farther away once for this many tiles.
constexpr int64_t kTilesPerPanel = 8;
constexpr int64_t kLongestLine = 1 << 20;

}  // namespace

std::optional<RowPlan> plan_rows(const hlo::ConvShape& s, int64_t lanes, int64_t tile_rows,
                                 int64_t tile_columns, int64_t element_bytes, int64_t threads) {
  const size_t rank = s.spatial.size();
  if (rank < 1 || rank > 2) return std::nullopt;
  RowPlan p{};
  if (rank == 2) p.y = s.spatial[0];
  p.x = s.spatial[rank - 1];
  const hlo::ConvDim &y = p.y, &x = p.x;
  const int64_t batch = s.output_batch();
  p.features = s.filter_input;
  p.columns = s.output_features / s.groups();
  p.k = s.window() * p.features;
  if (p.k == 0 || batch == 0 || s.positions() == 0 || p.columns < lanes) return std::nullopt;
  const double work = static_cast<double>(batch) * static_cast<double>(s.positions()) *
                      static_cast<double>(s.output_features) * static_cast<double>(p.k);
  if (work < kLeastWork) return std::nullopt;
  p.across = x.output < kFewPositions && batch > x.output;
  p.turned = TurnedFilters::of(s);
  p.pack = RowPlan::Pack::kOnce;
  if ((p.across ? batch : x.output) < kLeastRows) return std::nullopt;
  if (std::min((x.filter_dilation == 1 ? x.filter : 1) * p.features, p.k) < kLeastRun) return std::nullopt;

  p.nr = tile_columns;
  p.ld = ceil_div(p.columns, lanes) * lanes;
  p.width = (x.output - 1) * x.stride + (x.filter - 1) * x.filter_dilation + 1;
  // No size below can overflow: it is a product of three numbers no larger than this.
  if (std::max({p.width, p.features, batch, y.output, y.stride, y.filter_dilation, y.filter}) > kLongestLine)
    return std::nullopt;
  const double work_tasks = std::clamp(work / kWorkPerThread, 1.0, static_cast<double>(threads));
  p.images = 1;
  p.chunk = p.k;
  const auto line_bytes = [&] { return p.slots * p.line_elements() * element_bytes; };
  if (!p.across) {
    const auto with_lines = [&](int64_t lines) {
      p.lines = lines;
      p.slots = (lines - 1) * y.stride + (y.filter - 1) * y.filter_dilation + 1;
    };
    const int64_t tiles = ceil_div(x.output, tile_rows);
    const auto items = [&] { return s.groups() * batch * ceil_div(y.output, p.lines); };
    with_lines(1);
    if (line_bytes() > kMostLinesBytes) return std::nullopt;
    p.tasks = std::min(static_cast<int64_t>(work_tasks), items());
    while (p.lines < y.output && p.lines * tiles < kTilesPerPanel) {
      with_lines(p.lines + 1);
      if (line_bytes() <= kLinesBytes && (p.tasks == 1 || items() >= 4 * p.tasks)) continue;
      with_lines(p.lines - 1);
      break;
    }
    return p;
  }
  p.lines = y.output;
  const int64_t block_bytes = hlo::kDotBlock * ceil_div(p.columns, p.nr) * p.nr * element_bytes;
  p.chunk = std::min(p.k, std::max<int64_t>(kChunkBytes / block_bytes, 1) * hlo::kDotBlock);
  const int64_t window_lines = std::min(y.filter, p.chunk / (p.features * x.filter) + 2);
  p.slots = (y.output - 1) * y.stride + (window_lines - 1) * y.filter_dilation + 1;
  p.tasks = std::max<int64_t>(1, static_cast<int64_t>(work_tasks));
  // Whole tiles of images for every task; of fewer images tasks share the columns.
  const int64_t wanted = ceil_div(p.tasks, s.groups()),
                parts = std::min(wanted, std::max<int64_t>(batch / tile_rows, 1));
  p.cuts = std::min(ceil_div(wanted, parts), p.panels());
  p.images = ceil_div(batch, std::min(batch, ceil_div(wanted, p.cuts)));
  while (p.images > 2 * tile_rows && line_bytes() > kLinesBytes * 2) p.images = ceil_div(p.images, 2);
  if (line_bytes() > kMostLinesBytes || p.sum_elements() * element_bytes > kMostSumsBytes)
    return std::nullopt;
  // Of a long window a chunk of terms is itself long runs of memory.
  if (!p.turned || x.filter > p.features) {
    p.pack = RowPlan::Pack::kChunk;
  } else if (p.images == batch) {
    const int64_t some = p.slots;
    p.slots = (y.output - 1) * y.stride + (y.filter - 1) * y.filter_dilation + 1;
    p.pack = RowPlan::Pack::kPanel;
    if (line_bytes() > kMostLinesBytes) {
      p.slots = some;
      p.pack = RowPlan::Pack::kOnce;
    }
  }
  p.tasks = std::min(p.tasks, s.groups() * p.cuts * ceil_div(batch, p.images));
  return p;
}

}  // namespace lamina::jit
