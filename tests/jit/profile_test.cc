// What threads tell of themselves: sums without gaps, and costs of steps counted from the plan.
#include "jit/client/profile.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "jit/client/cancel.h"
#include "jit/cpu/client.h"
#include "jit/program/executable.h"
#include "jit/program/step_costs.h"

using namespace lamina;
using namespace lamina::jit;

namespace {

Tally tally_of(const std::vector<std::pair<Activity, Tally>>& all, const Activity& activity) {
  for (const auto& [known, tally] : all)
    if (known == activity) return tally;
  return {};
}

int64_t sum_of(const Profiler::Snapshot& s) {
  int64_t ns = 0;
  for (const auto& [activity, tally] : s.here) ns += tally.ns;
  return ns;
}

hlo::Value parameter(std::initializer_list<int64_t> dims, hlo::DType dtype = hlo::DType::kF32) {
  return hlo::make_parameter(*hlo::array_type(dtype, hlo::Dims(dims)));
}

std::vector<StepCost> costs(const hlo::ComputationPtr& program) {
  return step_costs(**Executable::compile(host_device(), program));
}

}  // namespace

TEST_CASE("sums of a thread are the time that passed, spans or not") {
  Profiler& profiler = Profiler::get();
  REQUIRE(!Profiler::on());
  const Profiler::Snapshot before = profiler.start(nullptr);
  REQUIRE(Profiler::on());
  {
    const ProfiledCall call([] { return hlo::intern_location("a.py", 3); });
    const ProfiledCall not_counted([] { return hlo::intern_location("a.py", 4); });
    const ProfiledSpan plan(Doing::kPlan);
    const ProfiledSpan step(true, {Doing::kStep, 0, step_subject(1, 2)});
  }
  const Profiler::Snapshot middle = profiler.snapshot();
  CHECK(sum_of(middle) - sum_of(before) == middle.at - before.at);
  const uint32_t line = hlo::intern_location("a.py", 3);
  CHECK(tally_of(middle.here, {Doing::kCall, line, 0}).times == 1);
  CHECK(tally_of(middle.here, {Doing::kPlan, line, 0}).times == 1);
  CHECK(tally_of(middle.here, {Doing::kStep, 0, step_subject(1, 2)}).times == 1);
  const std::vector<Profiler::Span> spans = profiler.spans(before.spans, middle.spans);
  REQUIRE(spans.size() == 3);  // the innermost ends first
  CHECK(spans[0].activity.doing == Doing::kStep);
  CHECK(spans[2].activity.doing == Doing::kCall);
  CHECK(spans[2].begin <= spans[1].begin);
  CHECK(spans[0].end <= spans[2].end);
  profiler.finish();
  CHECK(!Profiler::on());
  CHECK(profiler.spans(0, 100).empty());
}

TEST_CASE("spans that outlive their profile change nothing") {
  Profiler& profiler = Profiler::get();
  profiler.start(nullptr);
  {
    const ProfiledSpan open(Doing::kPlan);
    profiler.finish();
    profiler.start(nullptr);
  }
  const Profiler::Snapshot now = profiler.snapshot();
  CHECK(now.spans == 0);
  CHECK(now.here.size() == 1);
  profiler.finish();
}

TEST_CASE("tags end what was begun inside them") {
  Profiler& profiler = Profiler::get();
  profiler.start(nullptr);
  const int tags[2] = {};
  profiler.begin_tagged({Doing::kCall, 7, 0}, &tags[0]);
  profiler.begin_tagged({}, &tags[1]);
  CHECK(!profiler.inside());
  profiler.end_tagged(&tags[0]);
  CHECK(!profiler.inside());
  profiler.end_tagged(&tags[1]);  // is gone
  CHECK(profiler.snapshot().spans == 2);
  profiler.finish();
}

TEST_CASE("what another thread does for one that waits is the waiting one's") {
  Profiler& profiler = Profiler::get();
  const Profiler::Snapshot before = profiler.start(nullptr);
  CancelFlag cancel;
  REQUIRE(run_interruptible(
              cancel, [] { return false; },
              [] {
                const ProfiledSpan step(true, {Doing::kStep, 0, step_subject(1, 0)});
                return absl::OkStatus();
              })
              .ok());
  std::thread([] { const ProfiledSpan apart(Doing::kCompile); }).join();
  const Profiler::Snapshot after = profiler.snapshot();
  CHECK(tally_of(after.here, {Doing::kStep, 0, step_subject(1, 0)}).times == 1);
  CHECK(tally_of(after.here, {Doing::kCompile, 0, 0}).times == 0);
  CHECK(tally_of(after.elsewhere, {Doing::kCompile, 0, 0}).times == 1);
  CHECK(sum_of(after) - sum_of(before) == after.at - before.at);
  profiler.finish();
}

TEST_CASE("a fused kernel costs what it reads and writes, each line its operations") {
  const uint32_t first = hlo::intern_location("f.py", 1), second = hlo::intern_location("f.py", 2);
  hlo::Builder b;
  const hlo::Value x = parameter({100}), y = parameter({100});
  hlo::Value product, sum;
  {
    const hlo::LocationScope here(first);
    product = b.multiply(x, x);
  }
  {
    const hlo::LocationScope here(second);
    sum = b.add(product, y);
  }
  const std::vector<StepCost> found = costs(*hlo::Computation::make({{x, y}}, {{sum}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cost.bytes == 1200);
  CHECK(found[0].cost.flops == 200);
  CHECK(found[0].cost.double_flops == 0);
  REQUIRE(found[0].parts.size() == 2);
  double share = 0;
  for (const StepCost::Part& p : found[0].parts) {
    CHECK(p.cost.flops == 100);
    CHECK(p.cost.bytes == (p.line == first ? 400 : 800));
    share += p.share;
  }
  CHECK(share == Approx(1));
}

TEST_CASE("a product costs two operations for each of its terms") {
  hlo::Builder b;
  const hlo::Value x = parameter({3, 4}, hlo::DType::kF64), y = parameter({4, 5}, hlo::DType::kF64);
  const hlo::Value dot = b.make(hlo::Op::dot_general, {{x, y}},
                                hlo::intern_attrs({{hlo::Attr::lhs_contracting_dimensions, hlo::Dims{1}},
                                                   {hlo::Attr::rhs_contracting_dimensions, hlo::Dims{0}}}));
  const std::vector<StepCost> found = costs(*hlo::Computation::make({{x, y}}, {{dot}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cost.flops == 2 * 3 * 4 * 5);
  CHECK(found[0].cost.double_flops == found[0].cost.flops);
  CHECK(found[0].cost.bytes == 8 * (12 + 20 + 15));
}

TEST_CASE("the machine's limits are measured once") {
  const MachineLimits limits = CpuClient::get().limits(), again = CpuClient::get().limits();
  CHECK(limits.bytes_per_s > 0);
  CHECK(limits.flops_per_s > 0);
  CHECK(limits.double_flops_per_s > 0);
  CHECK(limits.bytes_per_s == again.bytes_per_s);
}
