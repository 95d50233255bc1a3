// The fake device finds what runtimes of queues get wrong: faults on request, and planted mistakes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "hlo/op.h"
#include "jit/fake/client.h"
#include "jit/program/executable.h"
#include "tests/jit/fork_child.h"

using namespace lamina;
using namespace lamina::jit;

namespace {

using Program = std::shared_ptr<const Executable>;

constexpr int64_t kCount = 64;
constexpr int64_t kBytes = kCount * 4;

FakeClient& fake() { return FakeClient::get(); }
Device& device(size_t i = 0) { return *fake().devices()[i]; }

std::vector<int32_t> numbers(int32_t from) {
  std::vector<int32_t> out(kCount);
  std::iota(out.begin(), out.end(), from);
  return out;
}

BufferRef put(int32_t from, Device& to = device()) { return *fake().put(to, numbers(from).data(), kBytes); }

absl::StatusOr<std::vector<int32_t>> read(const BufferRef& buffer) {
  std::vector<int32_t> out(kCount);
  const Client::Read all{&*buffer, 0, kBytes, out.data()};
  if (absl::Status s = fake().read({&all, 1}, nullptr); !s.ok()) return s;
  return out;
}

// x * 2 + 1 in `steps` steps that are not fused.
hlo::ComputationPtr program(int steps = 2) {
  hlo::Builder b;
  const hlo::Type* type = *hlo::array_type(hlo::DType::kS32, hlo::Dims{kCount});
  const hlo::Value x = hlo::make_parameter(type);
  hlo::Value y = b.add(x, x);
  const hlo::Value one =
      b.broadcast_scalar(b.constant(hlo::Literal::scalar_int(hlo::DType::kS32, 1)), type->dims);
  for (int i = 1; i < steps; ++i) {
    y = b.make(hlo::Op::optimization_barrier, {{y}},
               hlo::intern_attrs({{hlo::Attr::instance, static_cast<int64_t>(i)}}));
    y = b.add(y, one);
  }
  return *hlo::Computation::make({{x}}, {{y}});
}

Program compiled(const hlo::ComputationPtr& of, Device& on = device()) {
  return *Executable::compile(on, of);
}

// Everything as it was, whatever a test did.
struct Clean {
  Clean() { reset(); }
  ~Clean() { reset(); }
  static void reset() {
    fake().queues().set_mistake(FakeMistake::kNone);
    fake().queues().set_faults({});
    fake().queues().drain();
    fake().queues().take_violations();
    fake().queues().take_counts();
  }
};

std::vector<std::string> violations() {
  fake().queues().drain();
  return fake().queues().take_violations();
}

bool found(std::string_view what) {
  for (const std::string& v : violations())
    if (v.find(what) != v.npos) return true;
  return false;
}

// Runs and reads once; the status of whichever failed.
absl::Status run_once(const Program& p, int32_t from = 0) {
  std::vector<BufferRef> in{put(from)}, out;
  if (absl::Status s = p->run(in, out); !s.ok()) return s;
  return read(out[0]).status();
}

}  // namespace

TEST_CASE("nothing runs before it is waited for, and a program waits once", "[fake]") {
  const Clean clean;
  const Program p = compiled(program(3));
  fake().queues().drain();
  fake().queues().take_counts();
  std::vector<BufferRef> in{put(5)}, out;
  REQUIRE(p->run(in, out).ok());
  FakeCounts counts = fake().queues().take_counts();
  CHECK(counts.launches == 3);
  CHECK(counts.host_waits == 0);
  CHECK(counts.bytes == kBytes);
  const auto got = read(out[0]);
  REQUIRE(got.ok());
  CHECK((*got)[1] == 2 * 6 + 2);
  counts = fake().queues().take_counts();
  CHECK(counts.host_waits == 1);
  CHECK(counts.bytes == kBytes);
  CHECK(violations().empty());
}

TEST_CASE("a loop waits once a turn", "[fake]") {
  const Clean clean;
  hlo::Builder b;
  const hlo::Type* type = *hlo::array_type(hlo::DType::kS32, hlo::Dims{});
  // A product of many terms inside keeps it from being one kernel.
  const hlo::Type* square = *hlo::array_type(hlo::DType::kF32, hlo::Dims{20, 20});
  const hlo::Value i = hlo::make_parameter(type), m = hlo::make_parameter(square);
  const auto cond = *hlo::Computation::make(
      {{i, m}}, {{b.compare(i, b.constant(hlo::Literal::scalar_int(hlo::DType::kS32, 5)), "LT")}});
  const hlo::Value j = hlo::make_parameter(type), n = hlo::make_parameter(square);
  const auto body = *hlo::Computation::make(
      {{j, n}},
      {{b.add(j, b.constant(hlo::Literal::scalar_int(hlo::DType::kS32, 1))),
        b.add(n, b.dot_general(
                     n, n, {.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {1}, .rhs_contract = {0}}))}});
  const hlo::Value x = hlo::make_parameter(type), y = hlo::make_parameter(square);
  const hlo::Values results =
      b.make_multi(hlo::Op::while_, hlo::Values{x, y},
                   hlo::intern_attrs({{hlo::Attr::cond, cond}, {hlo::Attr::body, body}}));
  REQUIRE(b.ok());
  const Program p = compiled(*hlo::Computation::make({{x, y}}, {{results[0], results[1]}}));
  fake().queues().drain();
  fake().queues().take_counts();
  const int32_t zero = 0;
  const std::vector<float> ones(400, 0.01f);
  std::vector<BufferRef> in{*fake().put(device(), &zero, 4), *fake().put(device(), ones.data(), 1600)}, out;
  REQUIRE(p->run(in, out).ok());
  CHECK(fake().queues().take_counts().host_waits == 6);
  CHECK(violations().empty());
}

TEST_CASE("faults on request are raised once, and nothing else changes", "[fake]") {
  const Clean clean;
  const Program p = compiled(program());
  const BufferRef before = put(40);
  for (int64_t nth = 0; nth < 2; ++nth) {
    fake().queues().set_faults({.launch = nth});
    const absl::Status refused = run_once(p);
    CHECK(refused.message().find("the device refused: step") != refused.message().npos);
    CHECK(run_once(p).ok());
  }
  for (int64_t nth = 0; nth < 2; ++nth) {
    fake().queues().set_faults({.transfer = nth});
    CHECK_FALSE(run_once(p).ok());
    CHECK(run_once(p).ok());
  }
  // The first is the argument's.
  std::vector<BufferRef> in{put(0)}, out;
  for (int64_t nth = 0;; ++nth) {
    fake().queues().set_faults({.allocation = nth});
    const absl::Status status = p->run(in, out);
    fake().queues().set_faults({});
    if (status.ok()) {
      CHECK(nth > 0);
      break;
    }
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(*read(before) == numbers(40));
  CHECK(violations().empty());
}

TEST_CASE("a run that takes the results of one that failed fails as that did", "[fake]") {
  const Clean clean;
  const Program p = compiled(program());
  std::vector<BufferRef> in{put(0)}, first, second, other;
  fake().queues().set_faults({.launch = 0});
  REQUIRE(p->run(in, first).ok());
  REQUIRE(p->run(first, second).ok());
  REQUIRE(p->run(in, other).ok());
  const absl::Status status = read(second[0]).status();
  CHECK(status.message().find("the device refused: step 0") != status.message().npos);
  CHECK(read(first[0]).status() == status);
  CHECK(read(other[0]).ok());
  // Known to have failed, it is told at once.
  CHECK(p->run(first, second) == status);
  CHECK(violations().empty());
}

TEST_CASE("two devices exchange values, and blocks outlive what others read of them", "[fake]") {
  const Clean clean;
  const Program here = compiled(program(), device(0)), there = compiled(program(), device(1));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    fake().queues().set_seed(seed);
    std::vector<BufferRef> in{put(7)}, out;
    for (int hop = 0; hop < 4; ++hop) {
      const Program& p = hop % 2 == 0 ? here : there;
      in[0] = *bring(p->device(), in[0]);
      REQUIRE(p->run_giving_up(in, out).ok());
      in = out;
      out.clear();
    }
    const auto got = read(in[0]);
    REQUIRE(got.ok());
    CHECK((*got)[0] == (((7 * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1);
  }
  CHECK(violations().empty());
}

TEST_CASE("an argument in the memory of another device is refused", "[fake]") {
  const Clean clean;
  const Program p = compiled(program());
  std::vector<BufferRef> in{put(0, device(1))}, out;
  CHECK(p->run(in, out).message().find("lies in the memory of fake:1") != std::string_view::npos);
}

TEST_CASE("at the end nothing lives that was not kept", "[fake]") {
  const Clean clean;
  const int64_t blocks = fake().queues().live_blocks();
  {
    const Program p = compiled(program(4));
    for (int i = 0; i < 5; ++i) CHECK(run_once(p, i).ok());
    // Let go of while it still has to run.
    std::vector<BufferRef> in{put(0)}, out;
    REQUIRE(p->run(in, out).ok());
  }
  CHECK(violations().empty());
  CHECK(fake().queues().live_blocks() == blocks);
}

TEST_CASE("what was waited for stays reached", "[fake]") {
  const Clean clean;
  const Program p = compiled(program());
  std::vector<BufferRef> in{put(0)}, out;
  REQUIRE(p->run(in, out).ok());
  const Point end = out[0]->written();
  CHECK_FALSE(end.stream->reached(end.value));  // at most two commands ran
  REQUIRE(end.stream->wait(end.value, nullptr).ok());
  for (int i = 0; i < 50; ++i) REQUIRE(end.stream->reached(end.value));
}

TEST_CASE("a child of fork goes on with what its parent had enqueued", "[fake]") {
  const Clean clean;
  const Program p = compiled(program(20));
  std::vector<BufferRef> in{put(1)}, out;
  REQUIRE(p->run(in, out).ok());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) run_once(p).IgnoreError();
  });
  for (int i = 0; i < 10; ++i)
    lamina::testing::check_in_child([&] {
      const auto got = read(out[0]);
      return got.ok() && (*got)[0] == 2 + 19 && run_once(p, i).ok();
    });
  stop = true;
  busy.join();
  CHECK((*read(out[0]))[0] == 2 + 19);
  CHECK(violations().empty());
}

TEST_CASE("planted: a host that follows an address stops", "[fake][planted]") {
  const BufferRef buffer = put(0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    const volatile auto* p = reinterpret_cast<const volatile int32_t*>(buffer->address().bits());
    _exit(*p == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("planted: streams that do not wait for each other", "[fake][planted]") {
  const Clean clean;
  const Program p = compiled(program());
  fake().queues().set_mistake(FakeMistake::kForgetsAfter);
  CHECK_FALSE(run_once(p).ok());
  CHECK(found("nothing orders"));
}

TEST_CASE("planted: results are published before they are enqueued", "[fake][planted]") {
  const Clean clean;
  const Program p = compiled(program());
  std::vector<BufferRef> in{put(0)}, out;
  REQUIRE(read(in[0]).ok());
  fake().queues().set_mistake(FakeMistake::kPublishesEarly);
  REQUIRE(p->run(in, out).ok());
  read(out[0]).status().IgnoreError();
  CHECK(found("nothing orders a read"));
}

TEST_CASE("planted: a failure that is not told", "[fake][planted]") {
  const Clean clean;
  const Program p = compiled(program());
  fake().queues().set_mistake(FakeMistake::kHidesFailures);
  fake().queues().set_faults({.launch = 1});
  run_once(p).IgnoreError();
  CHECK(found("which nothing has written"));
}

TEST_CASE("planted: a step that does not run", "[fake][planted]") {
  const Clean clean;
  const Program p = compiled(program(9));
  fake().queues().set_mistake(FakeMistake::kSkipsSteps);
  // Where it was to write over what another had left, only the bits tell.
  std::vector<BufferRef> in{put(0)}, out;
  REQUIRE(p->run(in, out).ok());
  CHECK((*read(out[0]))[0] != 8);
  const Program alone = compiled(program(1));
  int unwritten = 0;
  for (int i = 0; i < 7; ++i)
    if (!run_once(alone).ok()) ++unwritten;
  CHECK(unwritten == 1);
  CHECK(found("which nothing has written"));
}

TEST_CASE("planted: a block goes while another stream reads it", "[fake][planted]") {
  const Clean clean;
  BufferRef buffer = put(0);
  Stream& other = device(1).stream(Lane::kCopyIn);
  const BufferRef to = put(0, device(1));
  REQUIRE(other.after(buffer->written()).ok());
  REQUIRE(other.copy(to->address(), buffer->address(), kBytes).ok());
  SECTION("without used_until") {
    buffer.reset();
    // No run is to blame, so whoever waits next is told.
    fake().queues().drain();
    CHECK(read(put(1)).status().message().find("nothing orders the end of a block") !=
          std::string_view::npos);
    CHECK(found("nothing orders the end of a block"));
    CHECK(read(put(1)).ok());
  }
  SECTION("with it") {
    buffer->used_until(other.mark());
    buffer.reset();
    CHECK(violations().empty());
  }
}

TEST_CASE("planted: memory that was let go of is used", "[fake][planted]") {
  const Clean clean;
  BufferRef buffer = put(0);
  const BufferRef to = put(0);
  const Address gone = buffer->address();
  for (const BufferRef& b : {buffer, to}) REQUIRE(device().stream().after(b->written()).ok());
  buffer.reset();
  REQUIRE(device().stream().copy(to->address(), gone, kBytes).ok());
  CHECK(found("of a block that was let go of"));
  fake().queues().drain();
  REQUIRE(device().stream().copy(to->address(), gone, kBytes).ok());
  CHECK(found("in no block"));
}

TEST_CASE("planted: a value is given up to two runs", "[fake][planted]") {
  const Clean clean;
  const Program p = compiled(program()), other = compiled(program(), device(1));
  BufferRef buffer = put(0);
  REQUIRE(read(buffer).ok());
  // A copy is under way on the other device while the first run, told that nobody else reads it, writes over
  // it.
  Stream& lane = device(1).stream(Lane::kCopyIn);
  const BufferRef to = put(0, device(1));
  REQUIRE(lane.copy(to->address(), buffer->address(), kBytes).ok());
  std::vector<BufferRef> in{std::move(buffer)}, out;
  REQUIRE(p->run_giving_up(in, out).ok());
  CHECK(found("nothing orders step"));
}

TEST_CASE("planted: queues wait for each other", "[fake][planted]") {
  const Clean clean;
  FakeQueues queues;
  const int a = queues.add_queue("a"), b = queues.add_queue("b");
  queues.after(a, b, 1);
  queues.after(b, a, 1);
  queues.enqueue(a, {FakeQueues::Kind::kOrder, "first", {}, {}});
  queues.enqueue(b, {FakeQueues::Kind::kOrder, "second", {}, {}});
  CHECK(queues.wait(a, 1, nullptr).message().find("wait for each other") != std::string_view::npos);
}

TEST_CASE("planted: two runs in the memory of one", "[fake][planted]") {
  const Clean clean;
  // On two queues the arena of one frame is written by both.
  const BufferRef arena = put(0);
  for (Lane lane : {Lane::kCompute, Lane::kCopyOut})
    REQUIRE(device().stream(lane).after(arena->written()).ok());
  const std::vector<int32_t> value = numbers(3);
  REQUIRE(device().stream(Lane::kCompute).write(arena->address(), value.data(), kBytes).ok());
  REQUIRE(device().stream(Lane::kCopyOut).write(arena->address(), value.data(), kBytes).ok());
  CHECK(found("nothing orders a write"));
}

// In a process of its own: the device stays lost.
TEST_CASE("a lost device says so, and others go on", "[.][fake_lost]") {
  const Clean clean;
  const Program p = compiled(program());
  std::vector<BufferRef> in{put(0)}, out;
  REQUIRE(p->run(in, out).ok());
  fake().lose(device(0));
  CHECK(read(out[0]).status().message() == "fake:0 was lost");
  CHECK_FALSE(fake().put(device(0), numbers(0).data(), kBytes).ok());
  const Program other = compiled(program(), device(1));
  std::vector<BufferRef> mine{put(1, device(1))};
  REQUIRE(other->run(mine, out).ok());
  CHECK((*read(out[0]))[0] == 3);
}
