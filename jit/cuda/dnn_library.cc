#include "jit/cuda/dnn_library.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "hlo/strings.h"
#include "jit/cuda/workspace.h"

namespace lamina::jit::cuda {
namespace {

constexpr int64_t kMostDnnWorkspace = 256 << 20;

constexpr DnnHeuristic kHeuristics[] = {DnnHeuristic::kB, DnnHeuristic::kA, DnnHeuristic::kFallback};

// What is not wanted of an engine, and from when on.
enum class Unwanted { kAlways, kInSame, kOfF32InSame };
constexpr std::pair<DnnNumericalNote, Unwanted> kUnwanted[] = {
    {DnnNumericalNote::kNondeterministic, Unwanted::kAlways},
    {DnnNumericalNote::kDownConvertsInputs, Unwanted::kAlways},
    {DnnNumericalNote::kTensorCore, Unwanted::kOfF32InSame},
    {DnnNumericalNote::kReducesInLessPrecision, Unwanted::kInSame},
    {DnnNumericalNote::kFft, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd4, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd6, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd13, Unwanted::kInSame},
};

// What it does, as the library says.
struct Notes {
  std::array<DnnNumericalNote, kMostNumericalNotes> numerical{};
  std::array<DnnBehaviorNote, kMostBehaviorNotes> behavior{};
  size_t num_numerical = 0, num_behavior = 0;

  bool has(DnnNumericalNote n) const {
    const auto end = numerical.begin() + static_cast<std::ptrdiff_t>(num_numerical);
    return std::find(numerical.begin(), end, n) != end;
  }
  bool is_allowed(const DnnEngineRules& rules) const {
    const auto end = behavior.begin() + static_cast<std::ptrdiff_t>(num_behavior);
    if (!rules.may_be_compiled &&
        std::find(behavior.begin(), end, DnnBehaviorNote::kCompiledAtRunTime) != end)
      return false;
    return std::none_of(std::begin(kUnwanted), std::end(kUnwanted), [&](const auto& row) {
      return has(row.first) && (row.second == Unwanted::kAlways ||
                                (!rules.is_fast && (row.second == Unwanted::kInSame || rules.is_f32)));
    });
  }
};

// An engine, and what is set of it.
std::string name_of(const Dnn& dnn, DnnEngine& engine) {
  std::vector<DnnObject> knobs;
  std::vector<DnnDescriptor> handles;
  for (int64_t i = 0; i < kMostKnobs; ++i) {
    knobs.emplace_back(dnn, DnnKind::kKnobChoice);
    handles.push_back(knobs.back().handle());
  }
  const int64_t count = engine.config.get(DnnAttribute::kConfigKnobs, std::span<DnnDescriptor>(handles));
  std::vector<std::pair<int, int64_t>> set;
  for (DnnObject& k : std::span(knobs).first(static_cast<size_t>(std::min(count, kMostKnobs))))
    set.emplace_back(static_cast<int>(k.get<DnnKnob>(DnnAttribute::kKnobType)),
                     k.get<int64_t>(DnnAttribute::kKnobValue));
  std::ranges::sort(set);
  std::string out = str_cat(engine.number);
  for (const auto& [knob, value] : set) str_append(&out, " ", knob, "=", value);
  return out;
}

}  // namespace

std::string DnnRow::start(const Dnn& library, Device& device) {
  const DnnStatus status = library.create(&device.handle);
  return status == DnnStatus::kSuccess ? "" : library.words(status);
}

absl::Status find_engine(const Dnn& dnn, std::span<const DnnDescriptor> operations, const DnnTarget& target,
                         const DnnEngineRules& rules,
                         absl::FunctionRef<bool(DnnEngine engine, std::string& why)> take) {
  using enum DnnAttribute;
  auto graph = std::make_shared<DnnObject>(dnn, DnnKind::kGraph);
  if (target.handle) graph->set(kGraphHandle, target.handle);
  graph->set(kGraphOperations, operations).finalize();
  if (!graph->ok())
    return absl::UnimplementedError(str_cat("it refuses the graph: ", dnn.words(graph->status())));
  std::string why = "it has no engine";
  for (const DnnHeuristic mode : kHeuristics) {
    DnnObject heuristic(dnn, DnnKind::kHeuristic);
    heuristic.set(kHeuristicGraph, *graph).set(kHeuristicMode, mode);
    if (!target.handle) heuristic.set(kHeuristicDevice, *target.properties);
    heuristic.finalize();
    const int64_t most = heuristic.get(kHeuristicResults, std::span<DnnDescriptor>());
    std::vector<DnnObject> configs;
    std::vector<DnnDescriptor> handles;
    for (int64_t i = 0; i < most; ++i) {
      configs.emplace_back(dnn, DnnKind::kEngineConfig);
      handles.push_back(configs.back().handle());
    }
    const int64_t count = most == 0 ? 0 : heuristic.get(kHeuristicResults, std::span<DnnDescriptor>(handles));
    if (!heuristic.ok()) why = str_cat("it has no engine: ", dnn.words(heuristic.status()));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      DnnObject engine(dnn, DnnKind::kEngine);
      DnnDescriptor handle = engine.handle();
      configs[i].get(kConfigEngine, std::span<DnnDescriptor>(&handle, 1));
      Notes notes;
      notes.num_numerical = static_cast<size_t>(
          engine.get(kEngineNumericalNotes, std::span<DnnNumericalNote>(notes.numerical)));
      notes.num_behavior =
          static_cast<size_t>(engine.get(kEngineBehaviorNotes, std::span<DnnBehaviorNote>(notes.behavior)));
      const auto number = engine.get<int64_t>(kEngineNumber);
      if (!configs[i].ok() || !engine.ok()) continue;
      if (!notes.is_allowed(rules))
        why = "its engines for it are less exact, or in no certain order, or compiled for seconds";
      else if (take({graph, std::move(configs[i]), number, notes.has(DnnNumericalNote::kTensorCore)}, why))
        return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(why);
}

absl::StatusOr<std::vector<std::shared_ptr<const DnnPlan>>> plans_serving(
    const Dnn& dnn, std::span<const DnnDescriptor> operations, const DnnTarget& target,
    const DnnEngineRules& rules, size_t most) {
  using enum DnnAttribute;
  std::vector<std::shared_ptr<const DnnPlan>> out;
  const absl::Status found =
      find_engine(dnn, operations, target, rules, [&](DnnEngine engine, std::string& why) {
        DnnObject plan(dnn, DnnKind::kPlan);
        if (target.handle)
          plan.set(kPlanHandle, target.handle);
        else
          plan.set(kPlanDevice, *target.properties);
        plan.set(kPlanConfig, engine.config).finalize();
        const auto bytes = plan.get<int64_t>(kPlanWorkspace);
        if (!plan.ok()) {
          why = str_cat("its engines refuse: ", dnn.words(plan.status()));
          return false;
        }
        if (bytes > kMostDnnWorkspace) {
          why = str_cat("its engines want ", bytes, " bytes of work space");
          return false;
        }
        std::string name = most > 1 ? name_of(dnn, engine) : "";
        // Each of the heuristics may name it.
        if (std::ranges::find(out, name, [](const auto& p) { return p->name; }) == out.end())
          out.push_back(std::make_shared<const DnnPlan>(
              DnnPlan{std::move(engine), std::move(plan), bytes, std::move(name)}));
        return out.size() == most;
      });
  if (out.empty()) return found;
  return out;
}

absl::StatusOr<std::shared_ptr<const DnnPlan>> choose_plan(const Dnn& dnn,
                                                           std::span<const DnnDescriptor> operations,
                                                           const DnnTarget& target,
                                                           const DnnEngineRules& rules) {
  const auto plans = plans_serving(dnn, operations, target, rules, 1);
  if (!plans.ok()) return plans.status();
  return plans->front();
}

const DnnChoice* choice_for(std::span<const DnnChoice> choices, const Gpu& gpu) {
  const auto it = std::ranges::find(choices, &gpu, [](const DnnChoice& c) { return c.device->gpu; });
  return it == choices.end() ? nullptr : &*it;
}

int64_t workspace_for(std::span<const DnnChoice> choices) {
  int64_t bytes = 0;
  for (const DnnChoice& c : choices) bytes = std::max(bytes, c.plan->workspace_bytes);
  return workspace_memory(static_cast<size_t>(bytes), kDnnWorkspaceAlignment);
}

std::string describe_choices(const Dnn& dnn, std::span<const DnnChoice> choices,
                             absl::FunctionRef<std::string(const DnnPlan&)> how) {
  std::string out = str_cat("cuDNN ", dnn.version_text());
  for (const DnnChoice& c : choices) {
    const DnnPlan &plan = *c.plan, &first = *choices[0].plan;
    // Devices of one kind have one choice.
    if (&plan != &first && plan.engine.number == first.engine.number &&
        plan.workspace_bytes == first.workspace_bytes)
      continue;
    if (&plan != &first) str_append(&out, "; on ", c.device->gpu->name());
    str_append(&out, how(plan), ", engine ", plan.engine.number);
    if (c.timed > 1) str_append(&out, ", the quickest of ", c.timed);
    if (plan.workspace_bytes > 0) str_append(&out, ", ", plan.workspace_bytes, " bytes beside");
  }
  return out;
}

DnnStatus execute_plan(const Dnn& dnn, DnnDevice& device, const DnnPlan& plan, std::span<const int64_t> ids,
                       std::span<void* const> arrays, Address workspace, StreamHandle stream) {
  using enum DnnAttribute;
  std::lock_guard lock(device.mutex);
  DnnObject pack(dnn, DnnKind::kArrays);
  pack.set(kArraysIds, ids).set(kArraysPointers, arrays);
  if (plan.workspace_bytes > 0) pack.set(kArraysWorkspace, workspace_in(workspace, kDnnWorkspaceAlignment));
  DnnStatus status = pack.finalize().status();
  if (status == DnnStatus::kSuccess) status = dnn.set_stream(device.handle, stream);
  if (status == DnnStatus::kSuccess) status = dnn.execute(device.handle, plan.plan.handle(), pack.handle());
  return status;
}

absl::Status enqueue_plan(CudaQueue& queue, const Dnn& dnn, DnnDevice& device, const DnnPlan& plan,
                          std::span<const int64_t> ids, std::span<void* const> arrays, Address workspace,
                          const char* doing) {
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    const DnnStatus status = execute_plan(dnn, device, plan, ids, arrays, workspace, stream);
    if (status == DnnStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed ", doing, ": ", dnn.words(status));
    return status == DnnStatus::kHostAllocFailed || status == DnnStatus::kDeviceAllocFailed
               ? absl::ResourceExhaustedError(why)
               : absl::InternalError(why);
  });
}

}  // namespace lamina::jit::cuda
