#include "lazy/profiled_lines.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "hlo/location.h"
#include "hlo/strings.h"
#include "jit/cpu/client.h"
#include "jit/program/executable.h"

namespace lamina::lazy {

using hlo::LocationId;
using hlo::Node;
using jit::Activity;
using jit::Doing;
using jit::Tally;

uint32_t lines_of_run(const jit::Specialization& entry, std::span<const hlo::Value> roots) {
  const auto is_leaf = [](const Node& n) { return n.data() != nullptr || n.op() == hlo::Op::parameter; };
  std::vector<LocationId> made, now;
  for (const Node* n : entry.recorded->nodes())
    if (n->op() != hlo::Op::parameter) made.push_back(n->location());
  for (const Node* n : hlo::postorder(roots, [](const Node&n, void*) { return n.data() != nullptr; }))
    if (!is_leaf(*n)) now.push_back(n->location());
  if (made == now || made.size() != now.size()) return 0;
  std::map<LocationId, std::vector<LocationId>> to;
  for (size_t i = 0; i < made.size(); ++i) to[made[i]].push_back(now[i]);
  return jit::Profiler::get().add_lines({to.begin(), to.end()});
}

namespace {

// What a turn of a program costs by the lines of one recording.
struct Step {
  jit::StepCost cost;
  bool has_limit;  // its device is this machine's processor
};

bool is_here(std::string_view device) { return device.starts_with("cpu") || device.starts_with("fake"); }

class Steps {
 public:
  const Step* find(const Activity& step) {
    Activity key = step;
    key.doing = Doing::kStep;
    const auto [it, is_new] = known_.try_emplace(key);
    if (is_new) it->second = make(key);
    return it->second.get();
  }

 private:
  std::unique_ptr<const Step> make(const Activity& step) {
    const std::vector<jit::StepCost>& costs = costs_of(jit::program_of(step.subject));
    if (jit::turn_of(step.subject) >= costs.size()) return nullptr;
    auto made = std::make_unique<Step>();
    made->cost = costs[jit::turn_of(step.subject)];
    made->has_limit = is_here(made->cost.device);
    const jit::LineMap map = jit::Profiler::get().lines(step.line);
    if (!map.empty()) made->cost.parts = mapped(made->cost.parts, map);
    return made;
  }

  // Where one line stands for several, a part of it for each, as often as it stands for it.
  static std::vector<jit::StepCost::Part> mapped(const std::vector<jit::StepCost::Part>& parts,
                                                 const jit::LineMap& map) {
    std::vector<jit::StepCost::Part> out;
    for (const jit::StepCost::Part& p : parts) {
      const auto at = std::lower_bound(map.begin(), map.end(), p.line,
                                       [](const auto& entry, LocationId line) { return entry.first < line; });
      if (at == map.end() || at->first != p.line) {
        out.push_back(p);
        continue;
      }
      const auto n = static_cast<int64_t>(at->second.size());
      jit::Cost left = p.cost;
      for (int64_t i = 0; i < n; ++i) {
        const auto part_of = [&](int64_t& rest) {
          const int64_t part = rest / (n - i);
          rest -= part;
          return part;
        };
        const jit::Cost cost{part_of(left.bytes), part_of(left.flops), part_of(left.double_flops)};
        out.push_back({at->second[static_cast<size_t>(i)], cost, p.share / static_cast<double>(n)});
      }
    }
    return out;
  }

  const std::vector<jit::StepCost>& costs_of(uint32_t program) {
    const auto [it, is_new] = costs_.try_emplace(program);
    if (is_new) {
      const std::shared_ptr<const void> known = jit::Profiler::get().program(program);
      if (known) it->second = jit::step_costs(*static_cast<const jit::Executable*>(known.get()));
    }
    return it->second;
  }

  HashMap<Activity, std::unique_ptr<const Step>> known_;
  std::map<uint32_t, std::vector<jit::StepCost>> costs_;
};

std::vector<std::pair<Activity, Tally>> since(const std::vector<std::pair<Activity, Tally>>& before,
                                              const std::vector<std::pair<Activity, Tally>>& after) {
  HashMap<Activity, Tally> known;
  for (const auto& [activity, tally] : before) known[activity] = tally;
  std::vector<std::pair<Activity, Tally>> out;
  for (const auto& [activity, tally] : after) {
    const auto at = known.find(activity);
    const Tally was = at == known.end() ? Tally{} : at->second;
    if (tally.ns != was.ns || tally.times != was.times)
      out.push_back({activity, {tally.ns - was.ns, tally.times - was.times}});
  }
  return out;
}

// What the cost takes where nothing but memory, or arithmetic, holds it up.
double limit_ns(const jit::Cost& cost, const jit::MachineLimits& limits) {
  const double memory = static_cast<double>(cost.bytes) / limits.bytes_per_s;
  const double arithmetic = static_cast<double>(cost.flops - cost.double_flops) / limits.flops_per_s +
                            static_cast<double>(cost.double_flops) / limits.double_flops_per_s;
  return std::max(memory, arithmetic) * 1e9;
}

void add_times(jit::Cost& to, const jit::Cost& cost, int64_t n) {
  to += {cost.bytes * n, cost.flops * n, cost.double_flops * n};
}

class Reporter {
 public:
  explicit Reporter(ProfileReport& report) : report_(report) {}

  void add(const Activity& activity, const Tally& tally, bool here) {
    if (activity.doing == Doing::kOutside) {
      if (here) report_.outside_ns += static_cast<double>(tally.ns);
    } else if (jit::is_step(activity.doing)) {
      add_step(activity, tally, here);
    } else {
      ProfiledLine& line = line_of(activity.line);
      if (here)
        line.ns[static_cast<size_t>(activity.doing)] += static_cast<double>(tally.ns);
      else
        line.elsewhere_ns += static_cast<double>(tally.ns);
      if (activity.doing == Doing::kCall) line.calls += tally.times;
    }
  }

  void finish() {
    for (auto& [place, line] : lines_) report_.lines.push_back(std::move(line));
    const auto total = [](const ProfiledLine& line) {
      double ns = line.elsewhere_ns;
      for (double part : line.ns) ns += part;
      return ns;
    };
    std::stable_sort(report_.lines.begin(), report_.lines.end(),
                     [&](const ProfiledLine& a, const ProfiledLine& b) { return total(a) > total(b); });
    std::vector<size_t> order(report_.steps.size()), place(order.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return report_.steps[a].ns > report_.steps[b].ns; });
    std::vector<ProfiledStep> sorted;
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      sorted.push_back(std::move(report_.steps[order[i]]));
    }
    report_.steps = std::move(sorted);
    for (auto& [activity, at] : report_.step_of) at = place[at];
  }

 private:
  ProfiledLine& line_of(LocationId id) {
    const hlo::Location at = hlo::location(id);
    ProfiledLine& line = lines_[{at.file, at.line}];
    line.file = at.file;
    line.line = at.line;
    return line;
  }

  void add_step(const Activity& activity, const Tally& tally, bool here) {
    const Step* step = steps_.find(activity);
    if (!step) {
      (here ? line_of(0).ns[static_cast<size_t>(activity.doing)] : line_of(0).elsewhere_ns) +=
          static_cast<double>(tally.ns);
      return;
    }
    const auto ns = static_cast<double>(tally.ns);
    // What a device does later was counted where it was launched.
    const int64_t runs = activity.doing == Doing::kDeviceStep ? 0 : tally.times;
    const double limit =
        step->has_limit ? limit_ns(step->cost.cost, report_.limits) * static_cast<double>(runs) : 0;
    HashMap<std::pair<std::string, int>, bool> counted;
    for (const jit::StepCost::Part& p : step->cost.parts) {
      ProfiledLine& line = line_of(p.line);
      (here ? line.ns[static_cast<size_t>(activity.doing)] : line.elsewhere_ns) += ns * p.share;
      if (counted.try_emplace({line.file, line.line}, true).second) line.runs += runs;
      add_times(line.cost, p.cost, runs);
      line.limit_ns += limit * p.share;
    }
    ProfiledStep& row = row_of(activity, *step);
    row.runs += runs;
    // Launching is not the step.
    if (activity.doing != Doing::kLaunch) row.ns += ns;
    add_times(row.cost, step->cost.cost, runs);
    row.limit_ns += limit;
  }

  ProfiledStep& row_of(Activity activity, const Step& step) {
    activity.doing = Doing::kStep;
    const auto [it, is_new] = report_.step_of.try_emplace(activity, report_.steps.size());
    if (!is_new) return report_.steps[it->second];
    ProfiledStep row;
    row.what = step.cost.what;
    row.device = step.cost.device;
    std::vector<jit::StepCost::Part> parts = step.cost.parts;
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    for (const jit::StepCost::Part& p : parts) {
      const hlo::Location at = hlo::location(p.line);
      const std::pair<std::string, int> place(at.file, at.line);
      if (std::find(row.lines.begin(), row.lines.end(), place) == row.lines.end()) row.lines.push_back(place);
    }
    report_.steps.push_back(std::move(row));
    return report_.steps.back();
  }

  ProfileReport& report_;
  Steps steps_;
  std::map<std::pair<std::string, int>, ProfiledLine> lines_;
};

}  // namespace

Profile::Profile(jit::Profiler::Locate locate) : began_(jit::Profiler::get().start(locate)) {}

Profile::~Profile() {
  if (!ended_) jit::Profiler::get().finish();
}

ProfileReport Profile::end() {
  jit::Profiler& profiler = jit::Profiler::get();
  const jit::Profiler::Snapshot last = profiler.snapshot();
  ProfileReport report;
  report.limits = jit::CpuClient::get().limits();
  report.wall_ns = static_cast<double>(last.at - began_.at);
  report.began = began_.at;
  report.ended = last.at;
  report.thread = last.thread;
  report.spans = profiler.spans(began_.spans, last.spans);
  report.spans_dropped = last.dropped - began_.dropped;
  Reporter reporter(report);
  for (const auto& [activity, tally] : since(began_.here, last.here)) reporter.add(activity, tally, true);
  for (const auto& [activity, tally] : since(began_.elsewhere, last.elsewhere))
    reporter.add(activity, tally, false);
  reporter.finish();
  ended_ = true;
  profiler.finish();
  return report;
}

namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += absl::StrFormat("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

std::string place_name(const std::string& file, int line) {
  return file.empty() ? "unknown line" : str_cat(file.substr(file.rfind('/') + 1), ":", line);
}

// The name of a span and its arguments, as JSON.
std::pair<std::string, std::string> told(const ProfileReport& report, const Activity& activity) {
  static constexpr const char* kNames[jit::kNumDoings] = {
      "Python", "call", "free", "trace", "plan", "compile", "run", "step", "launch", "step", "wait"};
  const std::string kind = kNames[static_cast<size_t>(activity.doing)];
  if (activity.doing == Doing::kOutside) return {json_text(kind), "{}"};
  if (!jit::is_step(activity.doing)) {
    const hlo::Location at = hlo::location(activity.line);
    const std::string place = place_name(at.file, at.line);
    return {json_text(activity.doing == Doing::kCall ? place : str_cat(kind, " ", place)),
            str_cat("{\"file\":", json_text(at.file), ",\"line\":", at.line, "}")};
  }
  Activity key = activity;
  key.doing = Doing::kStep;
  const auto known = report.step_of.find(key);
  if (known == report.step_of.end()) return {json_text(kind), "{}"};
  const ProfiledStep& step = report.steps[known->second];
  std::string lines;
  for (const auto& [file, line] : step.lines)
    str_append(&lines, lines.empty() ? "" : ",", json_text(place_name(file, line)));
  const int64_t runs = std::max<int64_t>(step.runs, 1);
  return {json_text(activity.doing == Doing::kLaunch ? str_cat("launch ", step.what) : step.what),
          str_cat("{\"lines\":[", lines, "],\"device\":", json_text(step.device),
                  ",\"bytes\":", step.cost.bytes / runs, ",\"flops\":", step.cost.flops / runs, "}")};
}

}  // namespace

std::string trace_json(const ProfileReport& report) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const auto micros = [&](int64_t ns) { return absl::StrFormat("%.3f", static_cast<double>(ns) / 1e3); };
  str_append(&out, "{\"ph\":\"M\",\"pid\":1,\"tid\":", report.thread,
             ",\"name\":\"thread_name\",\"args\":{\"name\":\"profiled thread\"}},\n");
  str_append(&out, "{\"ph\":\"X\",\"pid\":1,\"tid\":", report.thread,
             ",\"ts\":0,\"dur\":", micros(report.ended - report.began),
             ",\"name\":\"profile\",\"cat\":\"profile\",\"args\":{}}");
  HashMap<Activity, std::pair<std::string, std::string>> known;
  for (const jit::Profiler::Span& s : report.spans) {
    const int64_t begin = std::max(s.begin, report.began), end = std::min(s.end, report.ended);
    if (end < begin) continue;
    const auto [it, is_new] = known.try_emplace(s.activity);
    if (is_new) it->second = told(report, s.activity);
    str_append(&out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":", s.thread,
               ",\"ts\":", micros(begin - report.began), ",\"dur\":", micros(end - begin),
               ",\"name\":", it->second.first, ",\"cat\":\"lamina\",\"args\":", it->second.second, "}");
  }
  return out + "\n]}\n";
}

}  // namespace lamina::lazy
