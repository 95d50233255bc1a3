#include "tests/jit/cuda_standin/kernel_twin.h"

#include <algorithm>
#include <set>
#include <utility>

#include "hlo/strings.h"
#include "jit/kernel/grid_sort.h"
#include "jit/kernel/in_place.h"

using namespace lamina;
using namespace lamina::jit;
using How = FakeQueues::Access;

bool LoopTwin::has_entry(std::string_view entry) const {
  if (schedule_.form == GridForm::kMerges && entry == kGridSplits) return true;
  return has_chunks() ? entry == kGridChunks || entry == kGridPartials || entry == kGridFinish
                      : entry == kGridEntry;
}

size_t LoopTwin::parameters() const {
  return buffers() + kernel_.num_args + (holds_question(kernel_) ? 1 : 0) + (has_chunks() ? 3 : 0);
}

LoopTwin::Launch LoopTwin::launch_of(std::span<const uint64_t> values) const {
  Launch out;
  for (uint64_t v : values.subspan(buffers(), kernel_.num_args)) out.args.push_back(static_cast<int64_t>(v));
  if (has_chunks() && values.size() == parameters()) {
    const auto last = values.last(3);
    out.from = last[0];
    out.to = last[1];
    out.count = static_cast<int64_t>(last[2]);
  }
  return out;
}

bool LoopTwin::reaches_memory(uint32_t access) const {
  return std::none_of(held_.begin(), held_.end(),
                      [&](const HeldAccess& h) { return h.access == access && !h.memory; });
}

bool LoopTwin::is_held(uint32_t buffer) const {
  if (held_.empty()) return false;
  for (uint32_t a = 0; a < kernel_.accesses.size(); ++a)
    if (kernel_.accesses[a].buffer == buffer && reaches_memory(a)) return false;
  return true;
}

bool LoopTwin::writes(uint32_t buffer) const { return kernel_.buffers[buffer].written; }

int64_t LoopTwin::outputs(const std::vector<int64_t>& args) const {
  int64_t n = 1;
  for (int d = 0; d < kernel_.parallel_rank; ++d) n *= args[static_cast<size_t>(d)];
  return n;
}

std::string LoopTwin::refusal(std::string_view entry, std::span<const uint64_t> values,
                              unsigned blocks) const {
  const Launch launch = launch_of(values);
  const absl::StatusOr<GridPlan> plan = grid_plan(kernel_, schedule_, launch.args);
  if (!plan.ok()) return std::string(plan.status().message());
  for (const GridLaunch& l : plan->launches)
    if (l.entry == entry && l.blocks == blocks && l.count == launch.count) return "";
  return str_cat("no plan launches ", blocks, " blocks of ", entry, " with ", launch.count, " results");
}

std::optional<std::pair<int64_t, int64_t>> LoopTwin::reach(const jit::Access& access,
                                                           const std::vector<int64_t>& args) const {
  const std::vector<int64_t> steps = resolved(access, args);
  const int nest = kernel_.parallel_rank + kernel_.reduce_rank;
  int64_t low = steps[kMaxLoopRank], high = low + 1;
  for (const AccessTerm& t : access.terms) {
    if (t.dim >= nest && !kernel_.repeats[t.dim - nest].counted) return std::nullopt;
    const int64_t extent = args[t.dim];
    if (extent == 0) return std::nullopt;
  }
  for (int d = 0; d < kMaxLoopRank; ++d)
    if (steps[d] != 0) (steps[d] < 0 ? low : high) += steps[d] * (args[static_cast<size_t>(d)] - 1);
  return std::pair(low, high);
}

std::vector<LoopTwin::Touch> LoopTwin::touches(std::string_view entry,
                                               std::span<const uint64_t> values) const {
  const Launch launch = launch_of(values);
  std::vector<Touch> out;
  const auto elements = [&](uint32_t buffer, int64_t begin, int64_t end, How how) {
    const int64_t size = hlo::byte_size(kernel_.buffers[buffer].type);
    out.push_back({Address(values[buffer]) + begin * size, (end - begin) * size, how});
  };
  const auto touch = [&](uint32_t number, How how) {
    const jit::Access& access = kernel_.accesses[number];
    if (!reaches_memory(number)) return;
    if (const auto range = reach(access, launch.args))
      elements(access.buffer, range->first, range->second, how);
  };
  const bool writes = entry == kGridEntry || entry == kGridFinish;
  if (outputs(launch.args) == 0) return out;
  if (entry != kGridPartials && entry != kGridSplits) {
    for_each_section(kernel_, [&](const std::vector<KernelInstr>& section) {
      for (const KernelInstr& i : section) {
        // Where the positions are computed, the first element stands for all.
        if (i.op == KernelOp::kLoadAt) elements(static_cast<uint32_t>(i.imm), 0, 1, How::kRead);
        if (i.op != KernelOp::kLoad) continue;
        const jit::Access& access = kernel_.accesses[i.imm];
        if (i.predicated)
          elements(access.buffer, 0, 1, How::kRead);
        else
          touch(static_cast<uint32_t>(i.imm), How::kRead);
      }
    });
  }
  if (writes) {
    for (uint32_t init : kernel_.reduction.init) touch(init, How::kRead);
    for (const Store& s : kernel_.stores) touch(s.access, How::kWrite);
    for (const Repeat& r : kernel_.repeats)
      for (const Store& s : r.stores) touch(s.access, How::kWrite);
  }
  if (schedule_.form == GridForm::kMerges) {
    const int64_t half = sort_half_bytes(kernel_, schedule_, launch.args);
    if (entry != kGridChunks) out.push_back({Address(launch.from), half, How::kRead});
    if (entry == kGridSplits) out.push_back({Address(launch.from), half, How::kWrite});
    if (entry == kGridChunks || entry == kGridPartials)
      out.push_back({Address(launch.to), half, How::kWrite});
    return out;
  }
  const int64_t record = kPartialBytes * static_cast<int64_t>(kernel_.reduction.inputs.size());
  const int64_t rows = outputs(launch.args);
  const auto chunks = [](int64_t n) { return (n + kReduceChunk - 1) / kReduceChunk; };
  if (entry == kGridChunks) {
    int64_t reduced = 1;
    for (int d = 0; d < kernel_.reduce_rank; ++d)
      reduced *= launch.args[static_cast<size_t>(kernel_.parallel_rank + d)];
    out.push_back({Address(launch.to), rows * chunks(reduced) * record, How::kWrite});
  }
  if (entry == kGridPartials || entry == kGridFinish)
    out.push_back({Address(launch.from), rows * launch.count * record, How::kRead});
  if (entry == kGridPartials)
    out.push_back({Address(launch.to), rows * chunks(launch.count) * record, How::kWrite});
  return out;
}

int64_t LoopTwin::units(std::span<const uint64_t> values, int64_t rows) const {
  return chain_units(kernel_, launch_of(values).args, rows);
}

int64_t LoopTwin::bytes_of(uint32_t buffer, std::span<const uint64_t> values) const {
  const std::vector<int64_t> args = launch_of(values).args;
  bool computed = false;
  for_each_section(kernel_, [&](const std::vector<KernelInstr>& section) {
    for (const KernelInstr& i : section) {
      computed |= i.op == KernelOp::kLoadAt && i.imm == buffer;
      computed |= i.op == KernelOp::kLoad && i.predicated && kernel_.accesses[i.imm].buffer == buffer;
    }
  });
  if (computed) return -1;
  int64_t end = 0;
  for (const jit::Access& a : kernel_.accesses)
    if (a.buffer == buffer)
      if (const auto range = reach(a, args)) end = std::max(end, range->second);
  return end * hlo::byte_size(kernel_.buffers[buffer].type);
}

void LoopTwin::run(std::string_view entry, std::span<const uint64_t> values) const {
  if (!does_all(entry)) return;
  const Launch launch = launch_of(values);
  std::vector<void*> pointers;
  for (size_t i = 0; i < buffers(); ++i) pointers.push_back(reinterpret_cast<void*>(values[i]));
  const int64_t inner =
      kernel_.parallel_rank > 0 ? launch.args[static_cast<size_t>(kernel_.parallel_rank) - 1] : 1;
  const int64_t all = outputs(launch.args);
  if (all == 0) return;
  CancelQuestion never;
  never.ask = [](CancelQuestion*) -> int32_t { return 0; };
  interpreter_.run(pointers.data(), launch.args.data(), 0, all / inner, 0, inner, &never.flag);
}

std::shared_ptr<const KernelTwin> KernelTwin::of_image(std::string_view image) {
  constexpr std::string_view kComment = "// ";
  std::string text;
  while (image.starts_with(kComment)) {
    const size_t end = image.find('\n');
    if (end == image.npos) break;
    str_append(&text, image.substr(kComment.size(), end - kComment.size()), "\n");
    image.remove_prefix(end + 1);
  }
  const size_t schedule = text.find("schedule grid ");
  if (schedule == text.npos) return nullptr;
  const std::string_view all = text;
  absl::StatusOr<std::vector<GridPart>> parts =
      parse_grid_parts(all.substr(0, schedule), all.substr(schedule));
  if (!parts.ok()) return nullptr;
  return std::shared_ptr<const KernelTwin>(new KernelTwin(*std::move(parts)));
}

KernelTwin::KernelTwin(std::vector<GridPart> parts)
    : kernel_text_(kernel_texts(parts)), schedule_text_(schedule_texts(parts)) {
  for (GridPart& part : parts) loops_.push_back(std::make_unique<const LoopTwin>(std::move(part)));
}

template <typename F>
void KernelTwin::each(F f) const {
  size_t first = 0;
  for (const auto& loop : loops_) {
    f(*loop, first);
    first += loop->buffers() + loop->args() + 1;  // of a chain
  }
}

bool KernelTwin::has_entry(std::string_view entry) const {
  return is_chain() ? entry == kGridChain : loops_[0]->has_entry(entry);
}

size_t KernelTwin::parameters() const {
  if (!is_chain()) return loops_[0]->parameters();
  size_t count = 2;
  for (const auto& loop : loops_) count += loop->buffers() + loop->args() + 1;
  return count;
}

std::vector<size_t> KernelTwin::addresses() const {
  std::vector<size_t> out;
  each([&](const LoopTwin& loop, size_t first) {
    for (size_t i = 0; i < loop.buffers(); ++i) out.push_back(first + i);
  });
  return out;
}

std::vector<int64_t> KernelTwin::bytes(Values values) const {
  std::vector<int64_t> out;
  each([&](const LoopTwin& loop, size_t first) {
    for (uint32_t i = 0; i < loop.buffers(); ++i) out.push_back(loop.bytes_of(i, values.subspan(first)));
  });
  return out;
}

std::vector<bool> KernelTwin::are_made_held(Values values) const {
  const std::vector<size_t> at = addresses();
  std::vector<bool> out;
  std::set<uint64_t> made;
  for (const auto& loop : loops_)
    for (uint32_t i = 0; i < loop->buffers(); ++i) {
      const uint64_t address = values[at[out.size()]];
      if (loop->is_held(i) && loop->writes(i)) made.insert(address);
      out.push_back(loop->is_held(i) && made.contains(address));
    }
  return out;
}

std::vector<bool> KernelTwin::are_held() const {
  std::vector<bool> out;
  for (const auto& loop : loops_)
    for (uint32_t i = 0; i < loop->buffers(); ++i) out.push_back(loop->is_held(i));
  return out;
}

std::pair<int64_t, int64_t> KernelTwin::rows(Values values) const {
  if (!is_chain()) return {0, 0};
  return {static_cast<int64_t>(values[values.size() - 2]), static_cast<int64_t>(values.back())};
}

std::string KernelTwin::refusal(std::string_view entry, Values values, unsigned blocks,
                                unsigned threads) const {
  if (threads != kGridThreads) return str_cat("a kernel is launched with ", threads, " threads");
  if (!is_chain()) return loops_[0]->refusal(entry, values, blocks);
  const auto [rows, block_rows] = this->rows(values);
  std::string why;
  each([&](const LoopTwin& loop, size_t first) {
    const Values own = values.subspan(first);
    const auto units = static_cast<int64_t>(own[loop.buffers() + loop.args()]);
    if (units != loop.units(own, rows)) why = str_cat("a row of a chain is no ", units, " units");
  });
  if (block_rows < 1 || (rows + block_rows - 1) / block_rows != blocks)
    why = str_cat(blocks, " blocks of ", block_rows, " rows are not ", rows);
  return why;
}

std::vector<KernelTwin::Touch> KernelTwin::touches(std::string_view entry, Values values) const {
  if (!is_chain()) return loops_[0]->touches(entry, values);
  std::vector<Touch> out;
  each([&](const LoopTwin& loop, size_t first) {
    // What a kernel before has written is no read from before the launch.
    const std::vector<Touch> before = out;
    for (const Touch& t : loop.touches(kGridEntry, values.subspan(first)))
      if (t.access == How::kWrite || std::none_of(before.begin(), before.end(), [&](const Touch& w) {
            return w.access == How::kWrite && w.at.bits() <= t.at.bits() &&
                   t.at.bits() + static_cast<uint64_t>(t.bytes) <=
                       w.at.bits() + static_cast<uint64_t>(w.bytes);
          }))
        out.push_back(t);
  });
  return out;
}

void KernelTwin::run(std::string_view entry, Values values) const {
  if (!is_chain()) return loops_[0]->run(entry, values);
  each([&](const LoopTwin& loop, size_t first) { loop.run(kGridEntry, values.subspan(first)); });
}

std::vector<int64_t> KernelTwin::args(Values values) const {
  std::vector<int64_t> out;
  each([&](const LoopTwin& loop, size_t first) {
    for (uint64_t v : values.subspan(first + loop.buffers(), loop.args()))
      out.push_back(static_cast<int64_t>(v));
  });
  return out;
}
