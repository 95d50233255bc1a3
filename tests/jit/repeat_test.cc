// Loops inside loop kernels: random nests of repeats on all tiers, and programs with loops against the
// evaluator.
#include <catch2/catch.hpp>
#include <random>

#include "tests/jit/executable_testing.h"
#include "tests/jit/program_text.h"
#include "tests/jit/random_repeats.h"

namespace lamina::testing {
namespace {

using jit::CancelQuestion;

// --- kernels ---

template <class F>
std::vector<std::vector<char>> run(const RandomRepeats& c, F&& entry) {
  std::vector<std::vector<char>> memory = c.memory;
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  CancelQuestion question;
  question.ask = [](CancelQuestion*) -> int32_t { return 0; };
  const int64_t side = c.columns / 3;
  REQUIRE(entry(buffers.data(), c.args.data(), 0, c.rows, 0, side, &question.flag) == 0);
  REQUIRE(entry(buffers.data(), c.args.data(), 0, c.rows, side, c.columns, &question.flag) == 0);
  return memory;
}

TEST_CASE("Random repeats give the same bits on every tier and target", "[repeat][codegen]") {
  int while_loops = 0, nests = 0, in_a_row = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    RandomRepeats c(seed);
    c.make();
    INFO("seed " << seed << "\n" << to_string(c.kernel));
    const absl::Status status = verify(c.kernel);
    if (!status.ok()) FAIL(status.message());
    while_loops += holds_question(c.kernel);
    for (const Repeat& r : c.kernel.repeats)
      for (const KernelInstr& i : r.body) nests += i.op == KernelOp::kRepeat;
    in_a_row += c.kernel.repeats.size() > 1;
    CHECK(jit::reads_back(c.kernel));
    const jit::KernelInterpreter interpreter(c.kernel);
    const auto want = run(c, [&](auto... a) { return interpreter.run(a...); });
    LoopKernel less = c.kernel;
    drop_unused(less);
    REQUIRE(verify(less).ok());
    const jit::KernelInterpreter pruned(less);
    const auto same = run(c, [&](auto... a) { return pruned.run(a...); });
    for (const char* cpu : {"", jit::kLeastCpu}) {
      auto compiled = jit::generator(cpu).compile(to_string(c.kernel));
      if (!compiled.ok()) FAIL(compiled.status().message());
      const auto got = run(c, compiled->entry());
      for (size_t b = 0; b < want.size(); ++b) {
        const DType t = c.kernel.buffers[b].type;
        for (size_t at = 0; at < want[b].size(); at += hlo::byte_size(t)) {
          INFO(cpu << " buffer " << b << " byte " << at);
          REQUIRE(jit::same_element(t, &want[b][at], &got[b][at]));
          REQUIRE(jit::same_element(t, &want[b][at], &same[b][at]));
        }
      }
    }
  }
  CHECK(while_loops > 50);
  CHECK(nests > 30);
  CHECK(in_a_row > 50);
}

TEST_CASE("Malformed repeats are refused with their fault", "[repeat]") {
  // A kernel that counts: repeat p0 from %0, next = carried.
  const auto good = [] {
    LoopKernel k;
    k.parallel_rank = 1;
    k.num_args = 2;
    k.buffers = {{DType::kS64, true}};
    k.accesses = {{0, -1, {{0, 1, 0}}}, {0, -1, {{1, 1, 0}}}};
    k.body = {{KernelOp::kArg, Prim::constant, DType::kS64},
              {KernelOp::kRepeat, Prim::constant, DType::kS64},
              {KernelOp::kRepeated, Prim::constant, DType::kS64, false, {1}}};
    Repeat r;
    r.init = {0};
    r.body = {{KernelOp::kCarried, Prim::constant, DType::kS64}};
    r.next = {0};
    k.repeats = {r};
    k.stores = {{0, 2}};
    return k;
  };
  REQUIRE(verify(good()).ok());
  const auto fault = [&](auto&& change) {
    LoopKernel k = good();
    change(k);
    return std::string(verify(k).message());
  };
  using Catch::Contains;
  CHECK_THAT(fault([](LoopKernel& k) { k.body.push_back(k.body[1]); }), Contains("several instructions"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats.push_back(k.repeats[0]), k.num_args = 3; }),
             Contains("is run by 0"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats[0].body.push_back(k.body[1]); }),
             Contains("several instructions"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats[0].init = {2}; }), Contains("not defined yet"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats[0].next = {4}; }), Contains("carried value 0"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats[0].counted = false; }), Contains("condition"));
  CHECK_THAT(fault([](LoopKernel& k) { k.repeats[0].body[0].imm = 1; }), Contains("no carried value 1"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[2].operands[0] = 0; }), Contains("no carried value"));
  CHECK_THAT(fault([](LoopKernel& k) { k.stores = {{0, 1}}; }), Contains("a store"));
  CHECK_THAT(fault([](LoopKernel& k) { k.stores = {{1, 2}}; }), Contains("a store"));
  CHECK_THAT(fault([](LoopKernel& k) {
               k.body[0] = {KernelOp::kCarried, Prim::constant, DType::kS64};
             }),
             Contains("no carried value"));
  CHECK_THAT(fault([](LoopKernel& k) {
               k.body[0] = {KernelOp::kOuter, Prim::constant, DType::kS64};
             }),
             Contains("no section around"));
  CHECK_THAT(fault([](LoopKernel& k) {
               k.repeats[0].counted = false;
               k.repeats[0].cond = {{KernelOp::kPrim, Prim::constant, DType::kBool}};
               k.repeats[0].stores = {{0, 0}};
             }),
             Contains("unknown length"));
}

TEST_CASE("A kernel's loops ask before they go on for ever", "[repeat][codegen]") {
  LoopKernel k;
  k.num_args = 1;
  Repeat r;
  r.counted = false;
  r.cond = {{KernelOp::kPrim, Prim::constant, DType::kBool, false, {}, 1}};
  k.repeats = {r};
  k.body = {{KernelOp::kRepeat, Prim::constant, DType::kS64}};
  REQUIRE(verify(k).ok());
  struct Counter : CancelQuestion {
    int asked = 0;
  };
  const auto check = [&](auto&& entry) {
    Counter counter;
    counter.ask = [](CancelQuestion* q) -> int32_t { return ++static_cast<Counter*>(q)->asked == 5; };
    const int64_t args[] = {0};
    CHECK(entry(nullptr, args, 0, 1, 0, 1, &counter.flag) == 1);
    CHECK(counter.asked == 5);
  };
  const jit::KernelInterpreter interpreter(k);
  check([&](auto... a) { return interpreter.run(a...); });
  auto compiled = jit::generator().compile(to_string(k));
  REQUIRE(compiled.ok());
  check(compiled->entry());
}

TEST_CASE("A run in the midst of a long loop begins its block again in code that is there by now",
          "[repeat][codegen]") {
  LoopKernel k;
  k.num_args = 1;
  k.buffers = {{DType::kS64, true}};
  k.accesses = {{0, -1, {}}};
  Repeat r;  // counts its steps while the condition holds, which is for 5,000
  r.counted = false;
  r.init = {0};
  r.cond = {{KernelOp::kCarried, Prim::constant, DType::kS64, false, {}, 0},
            {KernelOp::kPrim, Prim::constant, DType::kS64, false, {}, 5000},
            {KernelOp::kPrim, Prim::lt, DType::kBool, false, {0, 1}}};
  r.condition = 2;
  r.body = {{KernelOp::kCarried, Prim::constant, DType::kS64, false, {}, 0},
            {KernelOp::kPrim, Prim::constant, DType::kS64, false, {}, 1},
            {KernelOp::kPrim, Prim::add, DType::kS64, false, {0, 1}}};
  r.next = {2};
  k.repeats = {r};
  k.body = {{KernelOp::kPrim, Prim::constant, DType::kS64, false, {}, 0},
            {KernelOp::kRepeat, Prim::constant, DType::kS64},
            {KernelOp::kRepeated, Prim::constant, DType::kS64, false, {1}, 0}};
  k.stores = {{0, 2}};
  INFO(verify(k));
  REQUIRE(verify(k).ok());
  auto compiled = jit::generator().compile(to_string(k));
  REQUIRE(compiled.ok());
  struct Arriving : CancelQuestion {
    std::atomic<jit::KernelEntry> code{nullptr};
    jit::KernelEntry later = nullptr;
    int asked = 0;
  } arriving;
  arriving.later = compiled->entry();
  arriving.ask = [](CancelQuestion* q) -> int32_t {
    auto* a = static_cast<Arriving*>(q);
    if (++a->asked == 2) a->code = a->later;
    return 0;
  };
  int64_t result = -1;
  void* const buffers[] = {&result};
  const int64_t args[] = {0};
  jit::Handover handover{&arriving.code};
  const jit::KernelInterpreter interpreter(k);
  REQUIRE(interpreter.run(buffers, args, 0, 1, 0, 1, &arriving.flag, &handover) == jit::kCodeIsThere);
  CHECK(arriving.asked == 2);
  CHECK(handover.outer == 0);
  CHECK(handover.inner == 0);
  CHECK(result == -1);
  REQUIRE(compiled->entry()(buffers, args, 0, 1, 0, 1, &arriving.flag) == 0);
  CHECK(result == 5000);
}

// --- programs ---

// On all tiers; gives the steps of the executable.
std::string check(const std::string& text) {
  INFO(text);
  const ComputationPtr c = parsed(text);
  std::mt19937_64 rng(3);
  std::vector<LiteralPtr> arguments;
  for (const Type* t : c->parameter_types()) {
    auto lit = std::make_shared<Literal>(t);
    const DType part = part_type(t->dtype);
    for (int64_t i = 0; i < t->num_elements * num_parts(t->dtype); ++i) {
      const double v = static_cast<double>(rng() % 17) / (is_inexact(t->dtype) ? 8 : 1);
      const LiteralPtr one =
          is_inexact(t->dtype)
              ? Literal::scalar(part, v)
              : Literal::scalar_int(part, static_cast<int64_t>(v) & (is_bool(part) ? 1 : 15));
      std::memcpy(static_cast<std::byte*>(lit->data()) + i * byte_size(part), one->data(), byte_size(part));
    }
    arguments.push_back(lit);
  }
  check_program(c, arguments);
  return (*Executable::compile(jit::host_device(), c))->describe();
}

bool is_one_loop(const std::string& steps) {
  return steps.find("in steps") != std::string::npos && steps.find("step 1") == std::string::npos;
}

TEST_CASE("A scan of any type, shape and direction is one kernel", "[repeat]") {
  for (const char* t : {"pred", "s8", "u16", "s64", "f16", "bf16", "f32", "f64", "c64", "c128"})
    for (const char* shape : {"", "1", "3", "2,33"})
      for (const char* reverse : {"true", "false"})
        for (const char* length : {"0", "1", "7"}) {
          const std::string s(shape), scanned = s.empty() ? length : std::string(length) + "," + s;
          const std::string op = std::string(t) == "pred" ? "xor" : "multiply";
          const std::string steps =
              check(with("computation b(p0: $t[$s], p1: s32[], p2: $t[$s], p3: $t[$s]) -> ($t[$s], s32[], "
                         "$t[$s], $t[$s], s32[], $t[$s]) {\n"
                         "  v0 = $t[$s] $op(p0, p3)\n  v1 = s32[] constant(3)\n  v2 = s32[] add(p1, v1)\n"
                         "  return (v0, v2, p0, v0, p1, p2)\n}\n"
                         "computation main(p0: $t[$s], p1: s32[], p2: $t[$s], p3: $t[$n]) -> ($t[$s], s32[], "
                         "$t[$s], $t[$n], s32[$l], $t[$n]) {\n"
                         "  (v0, v1, v2, v3, v4, v5) = ($t[$s], s32[], $t[$s], $t[$n], s32[$l], $t[$n]) "
                         "scan(p0, p1, p2, p3), num_carry=3, "
                         "length=$l, reverse=$r, body=b\n  return (v0, v1, v2, v3, v4, v5)\n}\n",
                         {{"t", t}, {"s", s}, {"n", scanned}, {"l", length}, {"r", reverse}, {"op", op}}));
          if (std::string(length) == "7") CHECK(is_one_loop(steps));
        }
}

TEST_CASE("Loops in loops are one kernel; a step that is not elementwise is a program of its own",
          "[repeat]") {
  const std::string inner =
      "computation c(p0: s32[], p1: f32[5], p2: f32[5]) -> (pred[]) {\n  v0 = s32[] constant(4)\n"
      "  v1 = pred[] compare(p0, v0), direction=\"LT\"\n  return (v1)\n}\n"
      "computation d(p0: s32[], p1: f32[5], p2: f32[5]) -> (s32[], f32[5], f32[5]) {\n  v0 = s32[] "
      "constant(1)\n"
      "  v1 = s32[] add(p0, v0)\n  v2 = f32[5] sine(p1)\n  v3 = f32[5] add(v2, p2)\n  return (v1, v3, "
      "p2)\n}\n";
  CHECK(is_one_loop(
      check(inner +
            "computation b(p0: s32[], p1: f32[5], p2: f32[5]) -> (s32[], f32[5], f32[5]) {\n"
            "  (v0, v1, v2) = (s32[], f32[5], f32[5]) while(p0, p1, p2), cond=c, body=d\n"
            "  v3 = s32[] constant(2)\n  v4 = s32[] subtract(v0, v3)\n  return (v4, v1, v2)\n}\n"
            "computation main(p0: s32[], p1: f32[5], p2: f32[6,5]) -> (s32[], f32[5], f32[6,5]) {\n"
            "  (v0, v1, v2) = (s32[], f32[5], f32[6,5]) scan(p0, p1, p2), num_carry=2, length=6, body=b\n"
            "  return (v0, v1, v2)\n}\n")));
  // An array that steps read at other indices than their own, and one that they carry and read so: a small
  // one lies in memory of the kernel's own.
  const std::string reads =
      "computation b(p0: f32[$n], p1: f32[$n]) -> (f32[$n], f32[$n]) {\n  v0 = f32[$n] reverse($w), "
      "dimensions=[0]\n"
      "  v1 = f32[$n] add(p0, v0)\n  return (v1, p1)\n}\n"
      "computation main(p0: f32[$n], p1: f32[$n]) -> (f32[$n]) {\n"
      "  (v0, v1) = (f32[$n], f32[$n]) scan(p0, p1), num_carry=2, length=4, body=b\n  return (v0)\n}\n";
  CHECK(check(with(reads, {{"w", "p1"}, {"n", "1000"}})).find("in steps") != std::string::npos);
  CHECK(is_one_loop(check(with(reads, {{"w", "p0"}, {"n", "5"}}))));
  CHECK(check(with(reads, {{"w", "p0"}, {"n", "1000"}})).find("in steps") == std::string::npos);
}

TEST_CASE("Lanes of a batched loop stop one by one in one kernel", "[repeat]") {
  const std::string text =
      "computation o(p0: pred[], p1: pred[]) -> (pred[]) {\n  v0 = pred[] or(p0, p1)\n  return (v0)\n}\n"
      "computation c(p0: s32[$n], p1: pred[$n]) -> (pred[]) {\n  v0 = pred[] constant(false)\n"
      "  v1 = pred[] reduce(p1, v0), dimensions=[0], body=o\n  return (v1)\n}\n"
      "computation d(p0: s32[$n], p1: pred[$n]) -> (s32[$n], pred[$n]) {\n  v0 = s32[] constant(1)\n"
      "  v1 = s32[$n] broadcast_in_dim(v0), shape=[$n]\n  v2 = s32[$n] add(p0, v1)\n  v3 = s32[$n] "
      "$next\n"
      "  v4 = s32[] constant(9)\n  v5 = s32[$n] broadcast_in_dim(v4), shape=[$n]\n"
      "  v6 = pred[$n] compare(v3, v5), direction=\"LT\"\n  v7 = pred[$n] and(p1, v6)\n  return (v3, v7)\n}\n"
      "computation main(p0: s32[$n], p1: pred[$n]) -> (s32[$n], pred[$n]) {\n"
      "  (v0, v1) = (s32[$n], pred[$n]) while(p0, p1), cond=c, body=d\n  return (v0, v1)\n}\n";
  for (const char* n : {"1", "7", "33", "300"}) {
    CHECK(is_one_loop(check(with(text, {{"next", "select(p1, v2, p0)"}, {"n", n}}))));
    // Lanes that have stopped change as long as others go on: few of them are an array of one element's loop.
    const std::string together = check(with(text, {{"next", "add(v2, p0)"}, {"n", n}}));
    CHECK(together.find(std::string(n).size() == 1 ? "in steps" : "while") != std::string::npos);
  }
}

}  // namespace
}  // namespace lamina::testing
