// Where the values of a run lie: layouts, what a run takes from the allocator, arguments that are given up.
#include "jit/program/memory_plan.h"

#include <array>
#include <cmath>
#include <random>
#include <thread>

#include "hlo/builder.h"
#include "hlo/op.h"
#include "jit/program/carries.h"
#include "tests/build_paths.h"
#include "tests/jit/executable_testing.h"

using namespace lamina::testing;
using lamina::jit::Address;
using lamina::jit::ArenaLayout;
using lamina::jit::Lifetime;
using lamina::jit::Memory;

namespace {

Value apart(Builder& b, const Value& v, int64_t number) {
  return b.make(Op::optimization_barrier, {{v}}, intern_attrs({{Attr::instance, number}}));
}

std::shared_ptr<const Executable> compiled(std::span<const Value> parameters, std::span<const Value> roots) {
  lamina::jit::CodeGeneratorOptions options;
  options.library_path = lamina::kCodeGenerator;
  lamina::jit::CpuClient::get().kernels().set_generator_options(options);
  const auto program = Computation::make(parameters, roots);
  REQUIRE(program.ok());
  const auto exe = Executable::compile(lamina::jit::host_device(), *program);
  REQUIRE(exe.ok());
  return *exe;
}

BufferRef filled(int64_t count, float value) {
  BufferRef out = *lamina::jit::host_device().memory().allocate(count * 4);
  std::fill_n(static_cast<float*>(host_data(out)), count, value);
  return out;
}

const float* floats(const BufferRef& b) { return static_cast<const float*>(host_data(b)); }

}  // namespace

TEST_CASE("Parts of an arena that are held at one time lie apart", "[memory_plan]") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> parts;
    const int count = round == 0 ? 3000 : static_cast<int>(random() % 60), steps = 1 + round;
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(random() % steps);
      parts.push_back({static_cast<int64_t>(random() % 5000), first,
                       std::min(steps, first + static_cast<int>(random() % 6))});
    }
    const ArenaLayout layout = lamina::jit::lay_out(parts);
    int64_t end = 0;
    bool apart = true;
    for (int i = 0; i < count; ++i) {
      const int64_t at = layout.offsets[i];
      apart = apart && at >= 0 && at % lamina::jit::kArenaAlignment == 0;
      end = std::max(end, at + parts[i].bytes);
      for (int j = 0; j < i; ++j)
        apart = apart && (parts[i].last < parts[j].first || parts[j].last < parts[i].first ||
                          at + std::max<int64_t>(parts[i].bytes, 1) <= layout.offsets[j] ||
                          layout.offsets[j] + std::max<int64_t>(parts[j].bytes, 1) <= at);
    }
    CHECK(apart);
    CHECK(layout.bytes >= end);
  }
}

TEST_CASE("A layout finds the gaps", "[memory_plan]") {
  // Two of 100 follow each other beneath one of 200 that spans both; 50 fits beside neither.
  const std::vector<Lifetime> parts{{128, 0, 1}, {256, 0, 3}, {128, 2, 3}, {64, 1, 2}};
  CHECK(lamina::jit::lay_out(parts).bytes == 448);
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10'000; ++i) chain.push_back({1 << 20, i, i + 1});
  CHECK(lamina::jit::lay_out(chain).bytes == 2 << 20);
}

TEST_CASE("A run takes its arena and its results from the allocator, and nothing else", "[memory_plan]") {
  const Type* type = array_type_or_die(DType::kF32, {{300, 300}});
  const Value x = make_parameter(type), y = make_parameter(type);
  Builder b;
  Value v = x;
  for (int64_t i = 0; i < 4; ++i) {
    v = apart(b, b.reverse(v, {{1}}), 3 * i);
    v = apart(b, b.sine(v), 3 * i + 1);
  }
  const Value w = apart(b, b.reverse(b.add(v, y), {{0}}), 77);
  REQUIRE(b.ok());
  const auto exe = compiled({{x, y}}, {{v, w}});
  std::vector<BufferRef> in{filled(90'000, 0.5F), filled(90'000, 0.25F)}, out;
  REQUIRE(exe->run(in, out).ok());
  out.clear();
  const auto before = lamina::jit::host_device().memory().stats();
  lamina::jit::host_device().memory().reset_peak();
  REQUIRE(exe->run(in, out).ok());
  const auto after = lamina::jit::host_device().memory().stats();
  CHECK(after.peak_bytes - before.live_bytes == exe->peak_bytes());
  CHECK(after.allocations - before.allocations <= 3);
  const int64_t block = Memory::block_bytes(360'000);
  CHECK(after.live_bytes - before.live_bytes == 2 * block);
  CHECK(exe->peak_bytes() <= 4 * block);
  CHECK(floats(in[0])[7] == 0.5F);
}

TEST_CASE("Results are written over arguments that are given up", "[memory_plan]") {
  const Type* type = array_type_or_die(DType::kF32, {{1000, 100}});
  const Value p = make_parameter(type), g = make_parameter(type), m = make_parameter(type);
  Builder b;
  // The gradient comes from a step of its own, so that there is a temporary of the same size.
  const Value gradient = apart(b, b.reverse(g, {{0}}), 1);
  const Value moment = apart(b, b.add(m, gradient), 2);
  const Value next = b.subtract(p, b.multiply(moment, moment));
  REQUIRE(b.ok());
  const auto exe = compiled({{p, g, m}}, {{next, moment}});
  std::vector<BufferRef> in{filled(100'000, 5), filled(100'000, 2), filled(100'000, 1)}, out;
  const void* p_at = host_data(in[0]);
  const void* m_at = host_data(in[2]);
  BufferRef held = in[1];
  const auto before = lamina::jit::host_device().memory().stats();
  lamina::jit::host_device().memory().reset_peak();
  REQUIRE(exe->run_giving_up(in, out).ok());
  CHECK(host_data(out[0]) == p_at);
  CHECK(host_data(out[1]) == m_at);
  CHECK(!in[0]);
  CHECK(in[1]);
  CHECK(floats(out[0])[99'999] == -4);
  CHECK(floats(out[1])[5] == 3);
  CHECK(floats(held)[5] == 2);
  // Only the temporary.
  CHECK(lamina::jit::host_device().memory().stats().peak_bytes - before.live_bytes <=
        Memory::block_bytes(400'000));
  CHECK(lamina::jit::host_device().memory().stats().allocations - before.allocations == 1);

  // What somebody else holds stays as it is.
  std::vector<BufferRef> again{out[0], filled(100'000, 0), out[1]}, fresh;
  REQUIRE(exe->run_giving_up(again, fresh).ok());
  CHECK(host_data(fresh[0]) != p_at);
  CHECK(floats(out[0])[0] == -4);
  CHECK(floats(fresh[0])[0] == -13);
  // As does foreign memory, and one buffer that is two arguments.
  std::vector<float> mine(100'000, 7);
  std::vector<BufferRef> foreign{lamina::jit::host().adopt(mine.data(), 400'000, {}), filled(100'000, 0),
                                 filled(100'000, 1)};
  REQUIRE(exe->run_giving_up(foreign, fresh).ok());
  CHECK(floats(fresh[0])[3] == 6);
  CHECK(mine[3] == 7);
  BufferRef one = filled(100'000, 3);
  std::vector<BufferRef> twice{one, filled(100'000, 0), one};
  one.reset();
  REQUIRE(exe->run_giving_up(twice, fresh).ok());
  CHECK(floats(fresh[0])[3] == -6);
  CHECK(floats(fresh[1])[3] == 3);
}

TEST_CASE("An argument may be the memory of a result that comes after its last use", "[memory_plan]") {
  const Type* type = array_type_or_die(DType::kF32, {{64, 64}});
  const Value x = make_parameter(type), w = make_parameter(type);
  Builder b;
  const Value first = apart(b, b.reverse(x, {{0}}), 1);
  const Value second = b.dot_general(first, w, {{}, {}, {1}, {0}});
  REQUIRE(b.ok());
  const auto exe = compiled({{x, w}}, {{second}});
  std::vector<BufferRef> in{filled(4096, 1), filled(4096, 2)}, out;
  const void* x_at = host_data(in[0]);
  REQUIRE(exe->run_giving_up(in, out).ok());
  CHECK(host_data(out[0]) == x_at);
  CHECK(floats(out[0])[4095] == 128);
}

TEST_CASE("A run without memory leaves the arguments that were given up", "[memory_plan]") {
  const Type* type = array_type_or_die(DType::kF32, {{1000, 1000}});
  const Value p = make_parameter(type);
  Builder b;
  const Value q = apart(b, b.reverse(p, {{0}}), 1);
  const auto exe = compiled({{p}}, {{b.subtract(p, q)}});
  std::vector<BufferRef> in{filled(1'000'000, 4)}, out;
  lamina::jit::host_device().memory().trim();
  const int64_t live = lamina::jit::host_device().memory().stats().live_bytes;
  lamina::jit::host_device().memory().set_limit(live + 1'000'000);
  const absl::Status status = exe->run_giving_up(in, out);
  lamina::jit::host_device().memory().set_limit(std::numeric_limits<int64_t>::max());
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(lamina::jit::host_device().memory().stats().live_bytes == live);
  REQUIRE(in[0]);
  CHECK(floats(in[0])[123] == 4);
  CHECK(exe->run_giving_up(in, out).ok());
}

TEST_CASE("Turns of a loop take no memory from the allocator", "[memory_plan]") {
  const Type* f = array_type_or_die(DType::kF32, {{8, 8}});
  const Type* i = scalar_type(DType::kS32);
  const auto cond = record_region({{i, f, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar(DType::kS32, 1000), "LT")};
  });
  // a, b -> b, tanh(a b): they change places in every turn.
  const auto body = record_region({{i, f, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.add(p[0], b.scalar(DType::kS32, 1)), p[2],
                  b.tanh(b.dot_general(p[1], p[2], {{}, {}, {1}, {0}}))};
  });
  REQUIRE((cond.ok() && body.ok()));
  const Value n = make_parameter(i), x = make_parameter(f), y = make_parameter(f);
  Builder b;
  const auto exe = compiled({{n, x, y}}, b.while_loop({{n, x, y}}, *cond, *body));
  std::vector<BufferRef> in{filled(1, 0), filled(64, 0.25F), filled(64, 0.5F)}, out;
  const auto before = lamina::jit::host_device().memory().stats();
  REQUIRE(exe->run(in, out).ok());
  CHECK(lamina::jit::host_device().memory().stats().allocations - before.allocations <= 5);
  std::vector<double> a(64, 0.25), c(64, 0.5);
  for (int turn = 0; turn < 1000; ++turn) {
    std::vector<double> next(64);
    for (int r = 0; r < 8; ++r)
      for (int k = 0; k < 8; ++k) {
        double sum = 0;
        for (int j = 0; j < 8; ++j) sum += a[8 * r + j] * c[8 * j + k];
        next[8 * r + k] = std::tanh(sum);
      }
    a.swap(c);
    c.swap(next);
  }
  CHECK(floats(out[1])[9] == Approx(a[9]));
  CHECK(floats(out[2])[9] == Approx(c[9]));
}

TEST_CASE("A temporary lies in the memory of a result that comes later", "[memory_plan]") {
  const Type* f = scalar_type(DType::kF32);
  const auto sum =
      record_region({{f, f}}, [](Builder& b, std::span<const Value> p) { return Values{b.add(p[0], p[1])}; });
  REQUIRE(sum.ok());
  const Type* type = array_type_or_die(DType::kF32, {{256, 256}});
  const Value x = make_parameter(type);
  Builder b;
  const Value t = b.dot_general(x, x, {{}, {}, {1}, {0}});
  const Value all = apart(b, b.reduce({{t}}, {{b.scalar(DType::kF32, 0.0)}}, *sum, {{0, 1}})[0], 1);
  const Value r = b.add(x, b.broadcast_in_dim(all, {{256, 256}}, {}));
  REQUIRE(b.ok());
  const auto exe = compiled({{x}}, {{r}});
  CHECK(exe->memory().whole_arena_bytes() <= 64);
  CHECK(exe->peak_bytes() <= Memory::block_bytes(262'144) + 64);
  std::vector<BufferRef> in{filled(65'536, 1)}, out;
  for (int round = 0; round < 2; ++round) {
    if (round == 0) REQUIRE(exe->run(in, out).ok());
    if (round == 1) REQUIRE(exe->run_giving_up(in, out).ok());
    CHECK(floats(out[0])[65'535] == 256.0F * 65'536 + 1);
  }
}

TEST_CASE("What a loop passes on is not copied", "[memory_plan]") {
  const Type* f = array_type_or_die(DType::kF32, {{100'000}});
  const Type* i = scalar_type(DType::kS32);
  const auto cond = record_region({{i, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar(DType::kS32, 10), "LT")};
  });
  const auto body = record_region({{i, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.add(p[0], b.scalar(DType::kS32, 1)), p[1]};
  });
  REQUIRE((cond.ok() && body.ok()));
  const Value n = make_parameter(i), x = make_parameter(f);
  Builder b;
  const auto exe = compiled({{n, x}}, b.while_loop({{n, x}}, *cond, *body));
  std::vector<BufferRef> in{filled(1, 0), filled(100'000, 0.25F)}, out;
  REQUIRE(exe->run(in, out).ok());
  CHECK(host_data(out[1]) == host_data(in[1]));
  CHECK(exe->peak_bytes() < 1000);
}

TEST_CASE("Values that a loop passes around come home", "[memory_plan]") {
  const Type* f = array_type_or_die(DType::kF32, {{3}});
  const Type* i = scalar_type(DType::kS32);
  const auto cond = record_region({{i, f, f, f, f}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar(DType::kS32, 0), "GT")};
  });
  // A ring of three, one that takes a copy of one of them, and one step of arithmetic on the way.
  for (const bool changing : {false, true}) {
    const auto body = record_region({{i, f, f, f, f}}, [&](Builder& b, std::span<const Value> p) {
      return Values{b.subtract(p[0], b.scalar(DType::kS32, 1)), p[2], changing ? b.add(p[3], p[4]) : p[3],
                    p[1], p[1]};
    });
    REQUIRE((cond.ok() && body.ok()));
    const Value n = make_parameter(i);
    std::vector<Value> x;
    for (int k = 0; k < 4; ++k) x.push_back(make_parameter(f));
    Builder b;
    const auto exe =
        compiled({{n, x[0], x[1], x[2], x[3]}}, b.while_loop({{n, x[0], x[1], x[2], x[3]}}, *cond, *body));
    for (int turns = 0; turns < 8; ++turns)
      for (const bool giving_up : {false, true}) {
        std::vector<BufferRef> in{filled(1, 0)}, out;
        *static_cast<int32_t*>(host_data(in[0])) = turns;
        std::vector<float> want;
        for (int k = 0; k < 4; ++k) {
          in.push_back(filled(3, static_cast<float>(k + 1)));
          want.push_back(static_cast<float>(k + 1));
        }
        for (int t = 0; t < turns; ++t)
          want = {want[1], changing ? want[2] + want[3] : want[2], want[0], want[0]};
        REQUIRE((giving_up ? exe->run_giving_up(in, out) : exe->run(in, out)).ok());
        for (int k = 0; k < 4; ++k) CHECK(floats(out[k + 1])[2] == want[k]);
      }
  }
}

TEST_CASE("One executable runs in several threads at once", "[memory_plan]") {
  const Type* type = array_type_or_die(DType::kF32, {{50, 50}});
  const Value x = make_parameter(type);
  Builder b;
  Value v = x;
  for (int64_t k = 0; k < 6; ++k) v = apart(b, b.reverse(b.add(v, x), {{0}}), k);
  const auto exe = compiled({{x}}, {{v}});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        const float value = static_cast<float>(t * 1000 + round);
        std::vector<BufferRef> in{filled(2500, value)}, out;
        if (!exe->run(in, out).ok()) ++wrong;
        for (int k = 0; k < 2500; ++k) wrong += floats(out[0])[k] != 7 * value;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("The memory of an operand goes to one result, though another is read by nobody", "[memory_plan]") {
  // A parameter, a value made of it in step 0, and two results of step 1 that may lie in it; step 2 reads
  // one.
  lamina::jit::MemoryRequest request;
  request.slot_bytes = {64, 64, 64, 64, 64};
  request.parameters = 1;
  request.results = {4};
  request.step_slots = {{0, 1}, {1, 2, 3}, {3, 4}};
  request.scratch_bytes = {{}, {}, {}};
  request.overwrites = {{1, 2, 1, true}, {1, 3, 1, true}};
  const lamina::jit::Places places(request);
  const lamina::jit::MemoryPlan plan(request, places, false);
  const auto memory = [&](int slot) {
    const auto& place = plan.places[places.of_slot[slot]];
    return std::pair(place.storage, place.number);
  };
  CHECK(memory(2) == memory(1));
  CHECK(memory(3) != memory(2));
}

TEST_CASE("Values in each other's places come home", "[memory_plan]") {
  // Two rings and a value outside; the first ring has nowhere to step aside.
  std::array<std::array<int64_t, 1>, 6> homes{}, others{};
  const std::array<int, 6> lies_in = {1, 0, 3, 4, 2, -1};  // whose home, or elsewhere
  std::vector<Address> from, home, spare, at;
  const auto address = [](void* p) { return Address(reinterpret_cast<uintptr_t>(p)); };
  for (size_t i = 0; i < 6; ++i) {
    home.push_back(address(homes[i].data()));
    spare.push_back(i < 2 ? Address() : address(others[i].data()));
    int64_t* const value = lies_in[i] < 0 ? others[i].data() : homes[lies_in[i]].data();
    at.push_back(address(value));
    *value = static_cast<int64_t>(100 + i);
  }
  from = home;
  const std::vector<int64_t> bytes(6, 8);
  lamina::jit::Carries carries(lamina::jit::host_device(), bytes, from, home, spare);
  carries.moved(at);
  REQUIRE(carries.bring_home().ok());
  for (size_t i = 0; i < 6; ++i) {
    CHECK((carries.values()[i] == home[i]));
    CHECK(homes[i][0] == static_cast<int64_t>(100 + i));
  }
}
