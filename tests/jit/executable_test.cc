// Compiled executables against the evaluator: the same bits, for random programs and for each kind of step.
#include "jit/program/executable.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "jit/cpu/client.h"
#include "tests/build_paths.h"
#include "tests/jit/executable_testing.h"

using namespace lamina::hlo;
using lamina::jit::BufferRef;
using lamina::jit::Executable;
using lamina::testing::check_program;
using lamina::testing::host_data;

namespace {

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : rng_(seed) {}

  int64_t pick(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

  LiteralPtr data(const Type* type) {
    auto lit = std::make_shared<Literal>(type);
    static constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 1e-40, INFINITY, -INFINITY, NAN, 1e30, 0.5};
    for (int64_t i = 0; i < type->num_elements; ++i) {
      const double v = pick(8) == 0 ? kSpecial[pick(10)] : static_cast<double>(pick(2000)) / 100 - 10;
      const LiteralPtr one = Literal::scalar(type->dtype, v);
      std::memcpy(lit->element(i), one->data(), byte_size(type->dtype));
    }
    return lit;
  }

  Value any(const std::vector<Value>& pool, DType dtype) {
    std::vector<Value> fit;
    for (const Value& v : pool)
      if (v.dtype() == dtype) fit.push_back(v);
    return fit[pick(fit.size())];
  }

  // One more value made from the pool.
  Value grow(Builder& b, const std::vector<Value>& pool, DType dtype) {
    static constexpr Op kUnary[] = {Op::negate, Op::exponential, Op::tanh,     Op::sine, Op::abs,
                                    Op::sqrt,   Op::floor,       Op::logistic, Op::log};
    static constexpr Op kBinary[] = {Op::add,    Op::subtract, Op::multiply,
                                     Op::divide, Op::maximum,  Op::minimum};
    const Value x = any(pool, dtype);
    const Dims& dims = x.dims();
    const int64_t rank = x.rank();
    switch (pick(14)) {
      case 0:
      case 1:
        return b.make(kUnary[pick(9)], {{x}});
      case 2:
      case 3:
      case 4: {
        for (int tries = 0; tries < 8; ++tries) {
          const Value y = any(pool, dtype);
          if (y.dims() == dims) return b.make(kBinary[pick(6)], {{x, y}});
        }
        return b.multiply(x, b.full_like(x, 1.5));
      }
      case 5: {
        Dims perm;
        for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
        std::shuffle(perm.begin(), perm.end(), rng_);
        return b.transpose(x, perm);
      }
      case 6: {
        if (rank >= 4 || x.type()->num_elements > 4000) return b.negate(x);
        Dims shape{pick(4)};
        Dims map;
        for (int64_t i = 0; i < rank; ++i) map.push_back(i + 1);
        shape.insert(shape.end(), dims.begin(), dims.end());
        if (pick(2)) {
          shape.push_back(1 + pick(5));
        }
        return b.broadcast_in_dim(x, shape, map);
      }
      case 7: {
        Dims start, limit, step;
        for (int64_t d : dims) {
          start.push_back(pick(d + 1));
          limit.push_back(start.back() + pick(d - start.back() + 1));
          step.push_back(1 + pick(3));
        }
        return b.slice(x, start, limit, step);
      }
      case 8: {
        Dims low, high, inner;
        for (int64_t d : dims) {
          low.push_back(pick(4) - (d > 2 ? 1 : 0));
          high.push_back(pick(3));
          inner.push_back(pick(4) == 0 ? 1 : 0);
        }
        return b.pad(x, b.scalar(dtype, 0.25), low, high, inner);
      }
      case 9: {
        if (rank == 0) return b.negate(x);
        return b.concatenate({{x, b.negate(x), x}}, pick(rank));
      }
      case 10: {
        if (rank == 0) return b.abs(x);
        return b.reverse(x, {{pick(rank)}});
      }
      case 11: {
        Dims reduced;
        for (int64_t i = 0; i < rank; ++i)
          if (pick(2)) reduced.push_back(i);
        static constexpr Op kReduce[] = {Op::add, Op::maximum, Op::multiply};
        return b.reduce(x, kReduce[pick(3)], b.scalar(dtype, 1), reduced);
      }
      case 12: {
        const int64_t n = x.type()->num_elements;
        if (n % 2 == 0) return b.reshape(x, {{n / 2, 2}});
        return b.reshape(x, {{n}});
      }
      default: {
        if (rank != 2) return b.sine(x);
        return b.dot_general(x, x, {{}, {}, {1}, {1}});
      }
    }
  }

  void run(DType dtype, int size) {
    std::vector<const Type*> types;
    for (int i = 0; i < 3; ++i) {
      Dims dims;
      for (int64_t r = pick(4); r > 0; --r) dims.push_back(pick(12) == 0 ? 0 : 1 + pick(i == 0 ? 40 : 7));
      types.push_back(array_type_or_die(dtype, dims));
    }
    std::vector<Value> parameters, pool;
    for (const Type* t : types) parameters.push_back(make_parameter(t));
    pool = parameters;
    Builder b;
    for (int i = 0; i < size; ++i) {
      Value v = grow(b, pool, dtype);
      INFO(b.status());
      REQUIRE(b.ok());
      if (v.type()->num_elements < 30000) pool.push_back(v);
    }
    std::vector<Value> roots;
    for (int i = 0; i < 3; ++i)
      roots.push_back(pool[pool.size() - 1 - pick(std::min<int64_t>(pool.size(), 8))]);
    const auto program = Computation::make(parameters, roots);
    REQUIRE(program.ok());
    std::vector<LiteralPtr> arguments;
    for (const Type* t : types) arguments.push_back(data(t));
    check_program(*program, arguments);
  }

  // As higher derivatives are: scalars and vectors that feed each other over and over, each with many users.
  void run_shared(int size) {
    const Type* const types[] = {array_type_or_die(DType::kF64, Dims{}),
                                 array_type_or_die(DType::kF64, Dims{3})};
    std::vector<Value> pools[2];
    std::vector<Value> parameters;
    for (int k : {0, 1}) pools[k] = {parameters.emplace_back(make_parameter(types[k]))};
    Builder b;
    for (int i = 0; i < size; ++i) {
      const int64_t kind = pick(2);
      std::vector<Value>& pool = pools[kind];
      const auto recent = [&](const std::vector<Value>& from) {
        return from[from.size() - 1 - pick(std::min<int64_t>(from.size(), 12))];
      };
      static constexpr Op kBinary[] = {Op::add, Op::multiply, Op::subtract, Op::maximum, Op::divide};
      switch (pick(8)) {
        case 0:
          pool.push_back(kind == 0 ? b.reduce_sum(recent(pools[1]), Dims{0})
                                   : b.broadcast_scalar(recent(pools[0]), Dims{3}));
          break;
        case 1:
          pool.push_back(b.make(Op::sqrt, {{b.make(Op::abs, {{recent(pool)}})}}));
          break;
        default:
          pool.push_back(b.make(kBinary[pick(5)], {{recent(pool), recent(pool)}}));
      }
    }
    REQUIRE(b.ok());
    const auto program = Computation::make(parameters, std::vector<Value>{pools[0].back(), pools[1].back()});
    REQUIRE(program.ok());
    std::vector<LiteralPtr> arguments;
    for (const Type* t : types) arguments.push_back(data(t));
    check_program(*program, arguments);
  }

 private:
  std::mt19937 rng_;
};

}  // namespace

TEST_CASE("programs whose values have many users run as evaluated", "[executable]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    RandomProgram(seed).run_shared(20 + static_cast<int>(seed) * 3);
  }
}

TEST_CASE("Executables give the evaluator's bits for random f32 programs", "[executable]") {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    RandomProgram(seed).run(DType::kF32, 3 + static_cast<int>(seed % 12));
  }
}

TEST_CASE("Executables give the evaluator's bits for random f64 and c64 programs", "[executable]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    RandomProgram(1000 + seed).run(DType::kF64, 3 + static_cast<int>(seed % 9));
  }
}

TEST_CASE("A chain of 20,000 ops runs in bounded kernels", "[executable]") {
  const Type* t = array_type_or_die(DType::kF32, {{5}});
  const Value p = make_parameter(t);
  Builder b;
  Value x = p;
  for (int i = 0; i < 20000; ++i) x = b.add(b.multiply(x, b.full(t, 0.5)), b.full(t, 1));
  const auto program = Computation::make({{p}}, {{x}});
  REQUIRE(program.ok());
  check_program(*program, {{Literal::splat(t, Literal::scalar(DType::kF32, 3)->data())}});
}

TEST_CASE("Loops, branches and scans of scalars follow each other", "[executable]") {
  const Type* f = scalar_type(DType::kF32);
  const Type* i = scalar_type(DType::kS32);
  const auto cond = record_region({{i, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar_int(DType::kS32, 7), "LT")};
  });
  const auto body = record_region({{i, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.add(p[0], b.scalar_int(DType::kS32, 1)), b.multiply(p[1], b.scalar(DType::kF32, 1.25))};
  });
  const auto step = record_region({{f, f}}, [](Builder& b, std::span<const Value> p) {
    const Value s = b.add(p[0], p[1]);
    return Values{s, b.sine(s)};
  });
  const auto twice =
      record_region({{f}}, [](Builder& b, std::span<const Value> p) { return Values{b.add(p[0], p[0])}; });
  const auto negative =
      record_region({{f}}, [](Builder& b, std::span<const Value> p) { return Values{b.negate(p[0])}; });
  REQUIRE((cond.ok() && body.ok() && step.ok() && twice.ok() && negative.ok()));
  const Value start = make_parameter(i), x = make_parameter(f),
              xs = make_parameter(array_type_or_die(DType::kF32, {{9}}));
  Builder b;
  const Values looped = b.while_loop({{start, x}}, *cond, *body);
  const Values scanned = b.scan(*step, {{looped[1]}}, {{xs}}, 9, true);
  const Values chosen = b.conditional(start, {{*twice, *negative}}, {{scanned[0]}});
  const Values called = b.call(*twice, {{chosen[0]}});
  REQUIRE(b.ok());
  const auto program = Computation::make({{start, x, xs}}, {{looped[0], scanned[1], called[0]}});
  REQUIRE(program.ok());
  RandomProgram random(5);
  for (const int index : {0, 1, 9}) {
    check_program(*program, {{Literal::scalar_int(DType::kS32, index), Literal::scalar(DType::kF32, 0.75),
                              random.data(xs.type())}});
  }
}

TEST_CASE("A loop of tiny steps asks the watcher now and then, and stops when it says so", "[executable]") {
  struct Counter final : lamina::jit::StepWatcher {
    bool between_steps() override { return ++asked == stop_at; }
    int64_t asked = 0, stop_at = 0;
  };
  // The sum of many terms keeps the loop from being one kernel.
  const Type *i = scalar_type(DType::kS32), *f = array_type_or_die(DType::kF32, {{20}});
  const auto cond = record_region({{i, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar_int(DType::kS32, 100'000), "LT")};
  });
  const auto body = record_region({{i, f}}, [&](Builder& b, std::span<const Value> p) {
    const Value sum = b.reduce(p[1], Op::add, b.scalar(DType::kF32, 0), {{0}});
    return Values{b.add(p[0], b.scalar_int(DType::kS32, 1)), b.broadcast_in_dim(sum, {{20}}, {})};
  });
  REQUIRE((cond.ok() && body.ok()));
  const Value start = make_parameter(i), x = make_parameter(f);
  Builder b;
  const auto program = Computation::make({{start, x}}, b.while_loop({{start, x}}, *cond, *body));
  REQUIRE(program.ok());
  lamina::jit::CodeGeneratorOptions options;
  options.library_path = lamina::kCodeGenerator;
  lamina::jit::CpuClient::get().kernels().set_generator_options(options);
  const auto exe = Executable::compile(lamina::jit::host_device(), *program);
  REQUIRE(exe.ok());
  std::vector<BufferRef> in{*lamina::jit::host_device().memory().allocate(4),
                            *lamina::jit::host_device().memory().allocate(80)},
      out;
  std::memset(host_data(in[0]), 0, 4);
  std::memset(host_data(in[1]), 0, 80);
  Counter counter;
  lamina::jit::CancelFlag cancel(&counter);
  REQUIRE((*exe)->run(in, out, &cancel).ok());
  CHECK(counter.asked > 1000);
  CHECK(counter.asked < 10'000);
  counter.asked = 0;
  counter.stop_at = 7;
  CHECK((*exe)->run(in, out, &cancel).code() == absl::StatusCode::kCancelled);
  CHECK(counter.asked == 7);
}

TEST_CASE("Sums and maxima over several dimensions end anywhere in the lanes", "[executable]") {
  RandomProgram random(11);
  for (const Dims& dims : {Dims{3, 5, 77}, Dims{2, 130, 67}, Dims{7, 3, 64}, Dims{1, 40, 1000}})
    for (const bool largest : {false, true}) {
      const Type* f = scalar_type(DType::kF32);
      const auto combine = record_region({{f, f}}, [&](Builder& b, std::span<const Value> p) {
        return Values{largest ? b.maximum(p[0], p[1]) : b.add(p[0], p[1])};
      });
      REQUIRE(combine.ok());
      const Value x = make_parameter(array_type_or_die(DType::kF32, dims));
      Builder b;
      const Values r = b.reduce({{x}}, {{b.scalar(DType::kF32, -2.5)}}, *combine, {{1, 2}});
      REQUIRE(b.ok());
      const auto program = Computation::make({{x}}, r);
      REQUIRE(program.ok());
      check_program(*program, {{random.data(x.type())}});
    }
}

TEST_CASE("Small loops that are alike are started together, and counted and told one by one",
          "[executable]") {
  constexpr int kMany = 150;
  std::vector<Value> parameters, roots;
  std::vector<BufferRef> in, out;
  Builder b;
  for (int i = 0; i < kMany; ++i) {
    parameters.push_back(make_parameter(array_type_or_die(DType::kF32, {{i % 3 == 2 ? 5 : 8}})));
    roots.push_back(b.add(parameters.back(), parameters.back()));
    in.push_back(*lamina::jit::host_device().memory().allocate(32));
    for (int j = 0; j < 8; ++j) static_cast<float*>(host_data(in.back()))[j] = static_cast<float>(8 * i + j);
  }
  const auto program = Computation::make(parameters, roots);
  REQUIRE(program.ok());
  const auto exe = Executable::compile(lamina::jit::host_device(), *program);
  REQUIRE(exe.ok());
  CHECK((*exe)->steps().size() == kMany);
  const auto runs = [] {
    const auto s = lamina::jit::CpuClient::get().kernels().stats();
    return s.compiled_runs + s.interpreted_runs;
  };
  const int64_t before = runs();
  REQUIRE((*exe)->run(in, out).ok());
  CHECK(runs() - before == kMany);
  for (int i = 0; i < kMany; ++i)
    for (int j = 0; j < (i % 3 == 2 ? 5 : 8); ++j)
      CHECK(static_cast<const float*>(host_data(out[i]))[j] == static_cast<float>(2 * (8 * i + j)));
  lamina::jit::CancelFlag cancel;
  cancel.request();
  CHECK((*exe)->run(in, out, &cancel).code() == absl::StatusCode::kCancelled);
}

TEST_CASE("A failed run leaves no memory behind and says why", "[executable]") {
  const Value p = make_parameter(array_type_or_die(DType::kF32, {{1000, 1000}}));
  Builder b;
  const auto program = Computation::make({{p}}, {{b.dot_general(p, b.exponential(p), {{}, {}, {1}, {0}})}});
  REQUIRE(program.ok());
  const auto exe = Executable::compile(lamina::jit::host_device(), *program);
  REQUIRE(exe.ok());
  std::vector<BufferRef> in{*lamina::jit::host_device().memory().allocate(4'000'000)}, out;
  std::memset(host_data(in[0]), 0, 4'000'000);
  lamina::jit::host_device().memory().trim();
  const int64_t before = lamina::jit::host_device().memory().stats().live_bytes;
  lamina::jit::host_device().memory().set_limit(before + 1'000'000);
  const absl::Status status = (*exe)->run(in, out);
  lamina::jit::host_device().memory().set_limit(std::numeric_limits<int64_t>::max());
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(lamina::jit::host_device().memory().stats().live_bytes == before);
  lamina::jit::CancelFlag cancel;
  cancel.request();
  CHECK((*exe)->run(in, out, &cancel).code() == absl::StatusCode::kCancelled);
}
TEST_CASE("a step writes over an operand that it is the last to read and nobody else holds", "[jit]") {
  const Type* type = array_type_or_die(DType::kF32, {{1000, 1000}});
  const Value p = make_parameter(type);
  Builder b;
  Value v = p;
  for (int64_t i = 0; i < 6; ++i)  // barriers keep them apart
    v = b.make(Op::optimization_barrier, {{b.sine(v)}}, intern_attrs({{Attr::instance, i}}));
  REQUIRE(b.ok());
  const auto exe = Executable::compile(lamina::jit::host_device(), *Computation::make({{p}}, {{v}}));
  REQUIRE(exe.ok());
  std::vector<BufferRef> in{*lamina::jit::host_device().memory().allocate(type->bytes())}, out;
  auto* data = static_cast<float*>(host_data(in[0]));
  for (int i = 0; i < 1000000; ++i) data[i] = static_cast<float>(i) * 1e-3f;
  lamina::jit::host_device().memory().reset_peak();
  const int64_t before = lamina::jit::host_device().memory().stats().live_bytes;
  REQUIRE((*exe)->run(in, out).ok());
  const int64_t one = lamina::jit::Memory::block_bytes(type->bytes());
  CHECK(lamina::jit::host_device().memory().stats().peak_bytes - before == one);
  for (int i : {0, 1, 999, 999999}) {  // the argument is as it was, the result right
    CHECK(data[i] == static_cast<float>(i) * 1e-3f);
    float want = data[i];
    for (int k = 0; k < 6; ++k) want = static_cast<float>(std::sin(static_cast<double>(want)));
    CHECK(static_cast<const float*>(host_data(out[0]))[i] == Approx(want));
  }
  // An operand that is a result too, or is read again, stays.
  Builder c;
  const Value first =
      c.make(Op::optimization_barrier, {{c.sine(p)}}, intern_attrs({{Attr::instance, int64_t{90}}}));
  const Value second = c.cosine(first);
  const auto both =
      Executable::compile(lamina::jit::host_device(), *Computation::make({{p}}, {{first, second}}));
  REQUIRE((*both)->run(in, out).ok());
  CHECK(static_cast<const float*>(host_data(out[0]))[999] == Approx(std::sin(data[999])));
  CHECK(static_cast<const float*>(host_data(out[1]))[999] == Approx(std::cos(std::sin(data[999]))));
}
