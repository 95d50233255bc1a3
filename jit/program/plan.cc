#include "jit/program/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hlo/strings.h"

namespace lamina::jit {
namespace {

// Who last wrote the bytes of one stretch of memory, and who has read them since.
class Stretch {
 public:
  void read(int64_t begin, int64_t end, int step, std::vector<int>& after) {
    for (auto it = cut(begin, end); it != pieces_.end() && it->first < end; ++it) {
      if (it->second.writer >= 0) after.push_back(it->second.writer);
      if (it->second.readers.empty() || it->second.readers.back() != step) it->second.readers.push_back(step);
    }
  }
  void write(int64_t begin, int64_t end, int step, std::vector<int>& after) {
    auto it = cut(begin, end);
    while (it != pieces_.end() && it->first < end) {
      if (it->second.readers.empty() && it->second.writer >= 0) after.push_back(it->second.writer);
      after.insert(after.end(), it->second.readers.begin(), it->second.readers.end());
      it = pieces_.erase(it);
    }
    pieces_[begin] = {end, step, {}};
  }

 private:
  struct Piece {
    int64_t end;
    int writer;
    std::vector<int> readers;
  };
  using Pieces = std::map<int64_t, Piece>;

  // Pieces begin and end at these places, and there is one everywhere between; the first of them.
  Pieces::iterator cut(int64_t begin, int64_t end) {
    split(begin);
    split(end);
    int64_t at = begin;
    for (auto it = pieces_.lower_bound(begin); at < end; ++it) {
      const int64_t next = it == pieces_.end() ? end : std::min(end, it->first);
      if (next > at) it = pieces_.emplace(at, Piece{next, -1, {}}).first;
      at = it->second.end;
    }
    return pieces_.lower_bound(begin);
  }
  void split(int64_t at) {
    auto it = pieces_.upper_bound(at);
    if (it == pieces_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Piece rest = it->second;
    it->second.end = at;
    pieces_.emplace(at, std::move(rest));
  }

  Pieces pieces_;
};

// Stretches of memory that may be one and the same in some run are one: a result and the arguments that it
// may be written over.
class Memories {
 public:
  explicit Memories(const MemoryPlan& plan) : plan_(plan) {}

  Stretch& of(const MemoryPlan::Place& place, int64_t* offset) {
    *offset = place.offset;
    if (place.storage == Storage::kArena) {
      const MemoryPlan::Part& part = plan_.parts[static_cast<size_t>(place.number)];
      if (part.over >= 0) {
        *offset = 0;
        return arguments_[part.over];
      }
      *offset = part.offset;
      return arenas_[part.space];
    }
    if (place.storage == Storage::kArgument) return arguments_[place.number];
    return results_[place.number];
  }
  // The arguments that the place may lie in, besides its own memory.
  std::vector<int> also(const MemoryPlan::Place& place) const {
    if (place.storage != Storage::kResult) return {};
    const MemoryPlan::Result& result = plan_.results[static_cast<size_t>(place.number)];
    std::vector<int> out = result.after;
    if (result.over >= 0) out.push_back(result.over);
    return out;
  }
  Stretch& argument(int number) { return arguments_[number]; }

 private:
  const MemoryPlan& plan_;
  std::map<int, Stretch> arguments_, results_, arenas_;
};

void add_order_in(const MemoryPlan& memory, const std::vector<StepPlan>& steps,
                  std::vector<std::vector<int>>& order) {
  Memories memories(memory);
  for (size_t s = 0; s < steps.size(); ++s) {
    const StepPlan& step = steps[s];
    std::vector<int>& after = order[s];
    const auto touch = [&](const Use& use, bool writes) {
      const MemoryPlan::Place& place = memory.places[static_cast<size_t>(use.place)];
      if (use.bytes == 0 || place.storage == Storage::kConstant) return;
      const auto in = [&](Stretch& stretch, int64_t at) {
        if (writes)
          stretch.write(at, at + use.bytes, static_cast<int>(s), after);
        else
          stretch.read(at, at + use.bytes, static_cast<int>(s), after);
      };
      int64_t offset = 0;
      Stretch& own = memories.of(place, &offset);
      in(own, offset);
      for (int argument : memories.also(place)) in(memories.argument(argument), offset);
    };
    for (const Use& use : step.in) touch(use, false);
    for (const Use& use : step.scratch) touch(use, true);
    for (const Use& use : step.out) touch(use, true);
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (!after.empty() && after.back() == static_cast<int>(s)) after.pop_back();
  }
}

std::string where(const MemoryPlan& plan, const MemoryPlan::Place& place) {
  switch (place.storage) {
    case Storage::kArgument:
      return str_cat("argument ", place.number);
    case Storage::kConstant:
      return str_cat("constant ", place.number);
    case Storage::kResult:
      return place.offset == 0 ? str_cat("result memory ", place.number)
                               : str_cat("result memory ", place.number, " at ", place.offset);
    case Storage::kArena: {
      const MemoryPlan::Part& part = plan.parts[static_cast<size_t>(place.number)];
      return str_cat("arena ", part.space, " at ", part.offset);
    }
  }
  return "";
}

void append_uses(std::string* out, std::string_view verb, const std::vector<Use>& uses) {
  if (uses.empty()) return;
  str_append(out, ", ", verb);
  for (const Use& u : uses) str_append(out, " p", u.place);
}

}  // namespace

std::vector<std::vector<int>> order_of(const ProgramPlan& plan) {
  std::vector<std::vector<int>> order(plan.steps.size());
  add_order_in(*plan.keeping, plan.steps, order);
  add_order_in(*plan.giving_up, plan.steps, order);
  return order;
}

std::string to_string(const ProgramPlan& plan) {
  std::string out;
  for (size_t p = 0; p < plan.place_bytes.size(); ++p)
    str_append(&out, "place p", p, ": ", plan.place_bytes[p], " bytes, ",
               where(*plan.keeping, plan.keeping->places[p]), "\n");
  const std::vector<std::vector<int>> order = order_of(plan);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const StepPlan& step = plan.steps[s];
    str_append(&out, "step ", s, ": ", step.what);
    append_uses(&out, "reads", step.in);
    append_uses(&out, "writes", step.out);
    append_uses(&out, "works in", step.scratch);
    if (!order[s].empty()) str_append(&out, ", after");
    for (int a : order[s]) str_append(&out, " ", a);
    str_append(&out, "\n");
  }
  for (const TogetherPlan& t : plan.together)
    str_append(&out, "steps ", t.first, " to ", t.last, " together: ", t.block, " of ", t.rows,
               " rows at a time\n");
  return out;
}

}  // namespace lamina::jit
