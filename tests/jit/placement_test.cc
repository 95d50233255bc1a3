// What programs on a device of queues cost the host: waits, launches, moves, counted on the fake device.
#include "lazy/placement.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "hlo/builder.h"
#include "jit/fake/client.h"
#include "lazy/delivery.h"
#include "lazy/transforms.h"

using namespace lamina;
using hlo::DType;
using lazy::Lazy;

namespace {

jit::FakeClient& fake() { return jit::FakeClient::get(); }
jit::Device& device() { return *fake().devices()[0]; }

Lazy on_host(const std::vector<float>& data) {
  const auto count = static_cast<int64_t>(data.size());
  return {lazy::from_host(DType::kF32, {&count, 1}, data.data())};
}
std::vector<float> read(const Lazy& x) {
  const jit::ArrayPtr array = lazy::array(x.value);
  const auto* data = reinterpret_cast<const float*>(lazy::host_bytes(*array));
  return {data, data + x.value.type()->num_elements};
}
Lazy op(hlo::Op op, std::vector<Lazy> operands) { return lazy::elementwise(op, operands); }

// The host is the default device of the thread, whatever the environment names.
struct HostIsDefault {
  jit::Device* const before = lazy::set_default_device(&jit::host_device());
  HostIsDefault() = default;
  ~HostIsDefault() { lazy::set_default_device(before); }
  HostIsDefault(const HostIsDefault&) = delete;
  HostIsDefault& operator=(const HostIsDefault&) = delete;
};

TEST_CASE("a training step waits for nothing and moves what is new, once", "[placement]") {
  const HostIsDefault scope;
  auto step = [](const std::vector<Lazy>& in) {
    return std::vector<Lazy>{op(hlo::Op::subtract, {in[0], op(hlo::Op::multiply, {in[0], in[1]})})};
  };
  lazy::Program program(step, {{on_host({1, 2}).value.type(), false}, {on_host({1, 2}).value.type(), false}},
                        "step", "");
  Lazy weights = lazy::put_on(on_host({8, 16}), device());
  const Lazy table = on_host({0.5F, 0.25F});  // free: it follows the weights
  weights = program.call({weights, table})[0];
  fake().queues().take_counts();
  for (int i = 0; i < 4; ++i) weights = program.call({weights, table})[0];
  const jit::FakeCounts steps = fake().queues().take_counts();
  CHECK(steps.host_waits == 0);
  CHECK(steps.launches == 4);
  CHECK(steps.transfers == 0);  // the first call brought the table
  program.call({weights, on_host({1, 1})});
  CHECK(fake().queues().take_counts().transfers == 1);
  CHECK(!lazy::is_ready(weights.value));
  CHECK(read(weights) == std::vector<float>{8.0F / 32, 16 * 243.0F / 1024});
  CHECK(fake().queues().take_counts().host_waits == 1);
  CHECK(read(weights)[0] == 0.25F);  // what was read once is remembered
  CHECK(fake().queues().take_counts().host_waits == 0);
}

TEST_CASE("many values are fetched with one wait for each device", "[placement]") {
  std::vector<hlo::Value> values;
  for (int i = 0; i < 6; ++i) {
    const Lazy x = lazy::put_on(on_host({1, 2, static_cast<float>(i)}), *fake().devices()[i % 2]);
    values.push_back(op(hlo::Op::add, {x, x}).value);
  }
  values.push_back(values[0]);
  lazy::force(values);
  fake().queues().take_counts();
  lazy::fetch(values);
  CHECK(fake().queues().take_counts().host_waits == 2);
  for (int i = 0; i < 6; ++i) CHECK(read({values[i]})[2] == 2.0F * static_cast<float>(i));
  CHECK(fake().queues().take_counts().host_waits == 0);
}

TEST_CASE("memory that others write to is read anew on every device", "[placement]") {
  std::vector<float> theirs{1, 2};
  const int64_t count = 2;
  const Lazy shared{lazy::from_foreign(DType::kF32, {&count, 1}, theirs.data(), nullptr)};
  const Lazy bound = lazy::put_on(on_host({10, 20}), device());
  CHECK(read(op(hlo::Op::add, {bound, shared})) == std::vector<float>{11, 22});
  theirs[0] = 5;
  CHECK(read(op(hlo::Op::add, {bound, shared})) == std::vector<float>{15, 22});
  const Lazy kept = lazy::put_on(shared, device());
  theirs[0] = 7;
  CHECK(read(kept) == std::vector<float>{5, 2});
}

TEST_CASE("a number that is known is read without a program", "[placement]") {
  // One that was put there: the host has it still.
  const double tenth = 0.1;
  const Lazy number = lazy::put_on(
      {lazy::number(DType::kF32, std::array{0.1F}.data()), true, lazy::number(DType::kF64, &tenth)},
      device());
  fake().queues().take_counts();
  CHECK(read(number) == std::vector<float>{0.1F});
  jit::FakeCounts counts = fake().queues().take_counts();
  CHECK(counts.launches == 0);
  CHECK(counts.transfers == 0);
  CHECK(counts.host_waits == 0);

  // One that a program gives unrounded: rounded on the host, once, and still an array of its device.
  lazy::Program program(
      [](const std::vector<Lazy>& in) {
        return std::vector<Lazy>{op(hlo::Op::multiply, {in[0], in[0]})};
      },
      {{number.value.type(), true}}, "square", "");
  Lazy square = program.call({number})[0];
  REQUIRE(square.weak);
  REQUIRE(square.wide);
  const lazy::Cell held(lazy::Lazy{square});
  // Another value that is computed meanwhile does not compute it.
  read(op(hlo::Op::add, {lazy::put_on(on_host({1, 2}), device()), on_host({1, 2})}));
  CHECK(!square.value.node()->data());
  fake().queues().take_counts();
  CHECK(read(square) == std::vector<float>{static_cast<float>(tenth * tenth)});
  CHECK(read(square) == std::vector<float>{static_cast<float>(tenth * tenth)});
  counts = fake().queues().take_counts();
  CHECK(counts.launches == 0);
  CHECK(counts.host_waits == 1);
  CHECK(&lazy::device_of(square.value) == &device());

  // Many, and others, are fetched with one wait and no program.
  std::vector<hlo::Value> values;
  for (int i = 0; i < 3; ++i) values.push_back(program.call({number})[0].value);
  values.push_back(lazy::put_on(on_host({1, 2}), device()).value);
  fake().queues().take_counts();
  lazy::fetch(values);
  CHECK(read({values[2]}) == std::vector<float>{static_cast<float>(tenth * tenth)});
  counts = fake().queues().take_counts();
  CHECK(counts.launches == 0);
  CHECK(counts.host_waits == 1);
}

TEST_CASE("pending values of several devices are computed each where it is bound", "[placement]") {
  const Lazy free = op(hlo::Op::add, {on_host({1, 2}), on_host({3, 4})});
  const Lazy here = op(hlo::Op::multiply, {lazy::put_on(on_host({2, 2}), device()), free});
  const Lazy there = op(hlo::Op::add, {lazy::put_on(on_host({5, 5}), *fake().devices()[1]), free});
  const lazy::Cell held(lazy::Lazy{there});
  CHECK(read(here) == std::vector<float>{8, 12});
  CHECK(there.value.node()->data());  // it was held, and so computed in the same flush
  CHECK(&lazy::device_of(there.value) == fake().devices()[1]);
  CHECK(&lazy::device_of(free.value) == &lazy::default_device());
  CHECK(read(there) == std::vector<float>{9, 11});
}

}  // namespace
