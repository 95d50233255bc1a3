// What every client promises (jit/client/client.h), and the frames that runs leave for later ones.
#include "jit/client/client.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "jit/client/exchange.h"
#include "jit/cpu/client.h"
#include "jit/cuda/client.h"
#include "jit/fake/client.h"
#include "jit/program/executable.h"

using namespace lamina;
using namespace lamina::jit;

namespace {

struct InlineCpu {
  static Client& client() { return CpuClient::get(); }
};
struct Fake {
  static Client& client() { return FakeClient::get(); }
};
// On the stand-in for its driver, if LAMINA_CUDA_DRIVER names no other (tests/jit/cuda_client_test.cc).
struct Cuda {
  static Client& client() { return **cuda::CudaClient::get(); }
};

std::vector<int32_t> numbers(int32_t from) {
  std::vector<int32_t> out(1000);
  std::iota(out.begin(), out.end(), from);
  return out;
}

std::vector<int32_t> read_back(Device& device, const BufferRef& buffer) {
  std::vector<int32_t> out(static_cast<size_t>(buffer->bytes()) / 4);
  const Client::Read all{&*buffer, 0, buffer->bytes(), out.data()};
  CHECK(device.client().read({&all, 1}, nullptr).ok());
  return out;
}

BufferRef put(Device& device, const std::vector<int32_t>& values) {
  return *device.client().put(device, values.data(), static_cast<int64_t>(values.size()) * 4);
}

hlo::ComputationPtr doubled(int64_t count) {
  hlo::Builder b;
  const hlo::Value x = hlo::make_parameter(*hlo::array_type(hlo::DType::kS32, hlo::Dims{count}));
  return *hlo::Computation::make({{x}}, {{b.add(x, x)}});
}

}  // namespace

TEMPLATE_TEST_CASE("a client has devices that know it", "[client]", InlineCpu, Fake, Cuda) {
  Client& client = TestType::client();
  REQUIRE(!client.devices().empty());
  for (size_t i = 0; i < client.devices().size(); ++i) {
    Device& device = *client.devices()[i];
    CHECK(&device.client() == &client);
    CHECK(&device.memory().client() == &client);
    const std::string end = ":" + std::to_string(i);
    CHECK(device.name().substr(device.name().find(':')) == end);
  }
}

TEMPLATE_TEST_CASE("what is put is read, and the source is free at once", "[client]", InlineCpu, Fake, Cuda) {
  Device& device = *TestType::client().devices()[0];
  std::vector<int32_t> values = numbers(5);
  const BufferRef buffer = put(device, values);
  std::fill(values.begin(), values.end(), 0);
  CHECK(read_back(device, buffer) == numbers(5));
  CHECK(&buffer->memory() == &device.memory());
  if (const std::byte* at = device.client().view(*buffer))
    CHECK(std::memcmp(at, numbers(5).data(), 4000) == 0);
  const BufferRef nothing = *device.client().put(device, nullptr, 0);
  CHECK(nothing->bytes() == 0);
  CHECK(read_back(device, nothing).empty());
}

TEMPLATE_TEST_CASE("copies and reads see what was enqueued before them", "[client]", InlineCpu, Fake, Cuda) {
  Device& device = *TestType::client().devices()[0];
  const BufferRef a = put(device, numbers(0)), b = put(device, numbers(7));
  for (const BufferRef& written : {a, b}) REQUIRE(device.stream().after(written->written()).ok());
  REQUIRE(device.stream().copy(b->address(), a->address(), 4000).ok());
  std::vector<int32_t> copied(1000);
  REQUIRE(device.stream().read(b->address(), 4000, copied.data()).ok());
  CHECK(copied == numbers(0));
  REQUIRE(device.stream().copy(b->address() + 400, a->address(), 400).ok());
  int32_t element = -1;
  REQUIRE(device.stream().read(b->address() + 404, 4, &element).ok());
  CHECK(element == 1);
  CHECK(device.stream().copy(b->address(), a->address(), 0).ok());
}

TEMPLATE_TEST_CASE("host memory is adopted in place and let go of once", "[client]", InlineCpu, Fake, Cuda) {
  Device& device = *TestType::client().devices()[0];
  std::vector<int32_t> mine = numbers(3);
  int released = 0;
  BufferRef buffer = device.client().adopt(mine.data(), 4000, [&] { ++released; });
  CHECK(buffer->is_foreign());
  CHECK_FALSE(buffer->may_reuse());
  CHECK(read_back(buffer->memory().device(), buffer) == mine);
  BufferRef other = buffer;
  buffer.reset();
  CHECK(released == 0);
  other.reset();
  CHECK(released == 1);
}

TEMPLATE_TEST_CASE("arrays cross to others in place, and come back", "[client]", InlineCpu, Cuda) {
  Device& device = *TestType::client().devices()[0];
  const Exchange& exchange = *device.client().exchange();
  CHECK(*find_device(exchange.name_of(device)) == &device);
  const BufferRef buffer = put(device, numbers(3));
  int released = 0;
  const auto release = [&] { ++released; };
  {
    const HandedOver handed = *HandedOver::make(buffer, std::nullopt);
    CHECK(buffer->use_count() == 2);
    CHECK(*exchange.owner_of(handed.place()) == &device);
    CHECK(exchange.stream_with(*buffer).ok());
    const BufferRef theirs = *exchange.take_over(device, handed.place(), 4000, Exchange::kNoStream, release);
    CHECK(theirs->is_foreign());
    CHECK_FALSE(theirs->may_reuse());
    CHECK(read_back(device, theirs) == numbers(3));
    CHECK(released == 0);
  }
  CHECK(buffer->use_count() == 1);
  REQUIRE(device.stream().wait(device.stream().mark().value, nullptr).ok());
  CHECK(released == 1);
  CHECK(absl::IsInvalidArgument(HandedOver::make(buffer, 0).status()));
}

TEST_CASE("what is no memory of a device is not taken over", "[client]") {
  CHECK(FakeClient::get().exchange() == nullptr);
  Device& fake = *FakeClient::get().devices()[0];
  CHECK(absl::IsInvalidArgument(HandedOver::make(put(fake, numbers(0)), std::nullopt).status()));
  const auto& devices = Cuda::client().devices();
  const Exchange& exchange = *Cuda::client().exchange();
  const BufferRef there = put(*devices.back(), numbers(0));
  int released = 0;
  const uint64_t elsewhere = devices.size() > 1 ? exchange.place_of(*there) : 8;
  for (uint64_t at : {uint64_t{12}, elsewhere})
    CHECK(absl::IsInvalidArgument(
        exchange.take_over(*devices[0], at, 4, Exchange::kNoStream, [&] { ++released; }).status()));
  CHECK(released == 2);
  CHECK(absl::IsInvalidArgument(find_device(Exchange::Name{10, 0}).status()));
  CHECK(find_device(Exchange::Name{2, 99}).status().message().find("there is no device 'cuda:99'") == 0);
}

TEMPLATE_TEST_CASE("a program runs on a device, and its results are read there", "[client]", InlineCpu, Fake,
                   Cuda) {
  Device& device = *TestType::client().devices()[0];
  const auto program = *Executable::compile(device, doubled(1000));
  CHECK(&program->device() == &device);
  std::vector<BufferRef> in{put(device, numbers(1))}, out;
  REQUIRE(program->run(in, out).ok());
  const std::vector<int32_t> got = read_back(device, out[0]);
  for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == 2 * static_cast<int32_t>(i + 1));
}

TEMPLATE_TEST_CASE("programs run on every device, on values that come from another", "[client]", InlineCpu,
                   Fake, Cuda) {
  BufferRef value = put(*TestType::client().devices()[0], numbers(1));
  int32_t factor = 1;
  for (int round = 0; round < 2; ++round)
    for (Device* device : TestType::client().devices()) {
      const auto program = *Executable::compile(*device, doubled(1000));
      std::vector<BufferRef> in{*bring(*device, value)}, out;
      CHECK((in[0] == value) == (&value->memory() == &device->memory()));
      REQUIRE(program->run(in, out).ok());
      value = out[0];
      factor *= 2;
      CHECK(&value->memory() == &device->memory());
      CHECK(*find_device(device->name()) == device);
    }
  CHECK(read_back(value->memory().device(), value)[9] == 10 * factor);
  const BufferRef here = *bring(host_device(), value);
  CHECK(read_back(host_device(), here)[9] == 10 * factor);
  CHECK(find_device("fake").ok());
  CHECK(find_device("moon").status().message().find("there is no device 'moon'; there are cpu:0") == 0);
}

TEMPLATE_TEST_CASE("runs one after the other use one frame, and nothing of it stays", "[client]", InlineCpu,
                   Fake, Cuda) {
  Device& device = *TestType::client().devices()[0];
  const auto program = *Executable::compile(device, doubled(1000));
  std::vector<BufferRef> out;
  for (int i = 0; i < 20; ++i) {
    std::vector<BufferRef> in{put(device, numbers(i))};
    REQUIRE(program->run(in, out).ok());
    CHECK(read_back(device, out[0])[1] == 2 * (i + 1));
    CHECK(in[0]->use_count() == 1);
    CHECK(out[0]->use_count() == 1);
  }
  CHECK(program->frames_made() == 1);
  for (int i = 0; i < 20; ++i) {
    std::vector<BufferRef> in{put(device, numbers(i))};
    REQUIRE(program->run_giving_up(in, out).ok());
    CHECK(read_back(device, out[0])[1] == 2 * (i + 1));
  }
  CHECK(program->frames_made() == 2);
  // A run that is stopped leaves its frame too.
  CancelFlag cancel;
  cancel.request();
  std::vector<BufferRef> in{put(device, numbers(0))};
  CHECK(program->run(in, out, &cancel).code() == absl::StatusCode::kCancelled);
  REQUIRE(program->run(in, out).ok());
  CHECK(program->frames_made() == 2);
}

TEMPLATE_TEST_CASE("runs at one time have a frame each", "[client]", InlineCpu, Fake, Cuda) {
  Device& device = *TestType::client().devices()[0];
  const auto program = *Executable::compile(device, doubled(1000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const std::vector<BufferRef> in{put(device, numbers(t))};
      std::vector<BufferRef> out;
      for (int i = 0; i < 300; ++i) {
        if (!program->run(in, out).ok()) ++wrong;
        int32_t last = 0;
        if (!device.stream().read(out[0]->address() + 3996, 4, &last).ok() || last != 2 * (t + 999)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(program->frames_made() <= 300);
}
