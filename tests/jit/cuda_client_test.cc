// The CUDA runtime on the stand-in for its driver: what a machine without it says, faults on request, and
// planted mistakes, each of which is found. What every client promises is in client_test.cc.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "jit/cuda/client.h"
#include "jit/cuda/stream.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"
#include "tests/jit/fork_child.h"

using namespace lamina;
using namespace lamina::jit;
using lamina::testing::check_in_child;
using lamina::testing::CleanStandin;
using lamina::testing::cuda_client;
using lamina::testing::cuda_device;
using lamina::testing::standin;
using lamina::testing::standin_finds;
using lamina::testing::standin_found;
using lamina::testing::standin_violations;

namespace {

using Program = std::shared_ptr<const Executable>;

constexpr int64_t kCount = 64;
constexpr int64_t kBytes = kCount * 4;
const std::vector<std::string> kNone;

std::vector<int32_t> numbers(int32_t from, int64_t count = kCount) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), from);
  return out;
}

BufferRef put(int32_t from, Device& to = cuda_device()) {
  return *cuda_client().put(to, numbers(from).data(), kBytes);
}

absl::StatusOr<std::vector<int32_t>> read(const BufferRef& buffer) {
  std::vector<int32_t> out(static_cast<size_t>(buffer->bytes()) / 4);
  const Client::Read all{&*buffer, 0, buffer->bytes(), out.data()};
  if (absl::Status s = cuda_client().read({&all, 1}, nullptr); !s.ok()) return s;
  return out;
}

// x * 2 + 1.
Program program(Device& on = cuda_device()) {
  hlo::Builder b;
  const hlo::Type* type = *hlo::array_type(hlo::DType::kS32, hlo::Dims{kCount});
  const hlo::Value x = hlo::make_parameter(type);
  const hlo::Value one =
      b.broadcast_scalar(b.constant(hlo::Literal::scalar_int(hlo::DType::kS32, 1)), type->dims);
  // Copies are looked at here: the step is the host's.
  cuda_client().kernels().set_library("/nowhere/liblamina_llvm.so");
  return *Executable::compile(on, *hlo::Computation::make({{x}}, {{b.add(b.add(x, x), one)}}));
}

absl::Status run_once(const Program& p, int32_t from = 0) {
  const absl::StatusOr<BufferRef> argument = cuda_client().put(p->device(), numbers(from).data(), kBytes);
  if (!argument.ok()) return argument.status();
  std::vector<BufferRef> in{*argument}, out;
  if (absl::Status s = p->run(in, out); !s.ok()) return s;
  const auto got = read(out[0]);
  if (!got.ok()) return got.status();
  return (*got)[1] == 2 * (from + 1) + 1 ? absl::OkStatus() : absl::DataLossError("wrong numbers");
}

cuda::CudaStream& stream(Lane lane, Device& of = cuda_device()) {
  return static_cast<cuda::CudaStream&>(of.stream(lane));
}

// What is said where the driver is this one, in a process that knows none yet.
std::string said_of(const char* library, std::vector<std::pair<const char*, const char*>> settings = {}) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  check_in_child([&] {
    setenv("LAMINA_CUDA_DRIVER", library, 1);
    for (const auto& [name, value] : settings) setenv(name, value, 1);
    const absl::StatusOr<Device*> device = find_device("cuda");
    const std::string text(device.ok() ? "found" : device.status().message());
    return write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  });
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(::read(ends[0], text.data(), text.size())));
  for (int end : ends) close(end);
  return text;
}

}  // namespace

// First, as later no process of this one knows no device.
TEST_CASE("a machine without CUDA says in one sentence what is missing", "[.][cuda_missing]") {
  CHECK(
      said_of("/nowhere/libcuda.so.1")
          .find("there is no device 'cuda': the CUDA driver that LAMINA_CUDA_DRIVER names cannot be loaded: "
                "/nowhere/libcuda.so.1: ") == 0);
  if (void* const installed = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    dlclose(installed);
  else
    CHECK(said_of("") == "there is no device 'cuda': no NVIDIA driver: libcuda.so.1 was not found");
  const std::string it = kCudaStandin;
  const auto said = [&](const char* variable, const char* value) {
    return said_of(it.c_str(), {{variable, value}});
  };
  const std::string begin = "there is no device 'cuda': ";
  CHECK(said("LAMINA_STANDIN_INIT", "34") ==
        begin + "no NVIDIA driver: " + it + " is the stub of a CUDA toolkit, which programs are linked with");
  if (const std::string stub = kCudaStub; !stub.empty())
    CHECK(said_of(stub.c_str()).find(begin + "no NVIDIA driver: " + stub + " is the stub") == 0);
  CHECK(said("LAMINA_STANDIN_INIT", "100") == begin + "the NVIDIA driver " + it + " sees no device");
  CHECK(said("LAMINA_STANDIN_DEVICES", "0") == begin + "the NVIDIA driver sees no device");
  CHECK(said("LAMINA_STANDIN_INIT", "803") ==
        begin + "the NVIDIA driver " + it + " does not start: error 803");
  CHECK(said("LAMINA_STANDIN_VERSION", "11070") ==
        begin + "the NVIDIA driver " + it +
            " supports CUDA 11.7, which is older than 11.8, the oldest that serves");
  CHECK(said("LAMINA_STANDIN_CAPABILITY", "70")
            .find(begin + "cuda:0 (stand-in) cannot serve: its compute "
                          "capability is 7.0, and 7.5 is the lowest") == 0);
  CHECK(said_of("libm.so.6") == begin +
                                    "the NVIDIA driver libm.so.6 has no cuInit: it is older than CUDA 11.8, "
                                    "the oldest that serves");
  CHECK(said("LAMINA_STANDIN_DEVICES", "1") == "found");
}

TEST_CASE("devices of CUDA are found by name", "[cuda]") {
  CHECK(*find_device("cuda") == &cuda_device());
  CHECK(*find_device("cuda:0") == &cuda_device());
  CHECK(find_device("cuda:99").status().message().find("there is no device 'cuda:99'; there are cuda:0") ==
        0);
  for (const auto& gpu : cuda_client().gpus()) CHECK(gpu->facts().capability >= cuda::kLeastCapability);
}

TEST_CASE("large arrays go through staging piece by piece", "[cuda]") {
  // Neither a multiple of a piece nor less than all that may be on their way.
  const int64_t count = 5 * cuda::Staging::kLarge / 4 + 12'345;
  const std::vector<int32_t> values = numbers(-5, count);
  const BufferRef a = *cuda_client().put(cuda_device(), values.data(), count * 4);
  CHECK(*read(a) == values);
  // Small ones share a piece, and all are waited for once.
  const BufferRef b = put(3);
  std::vector<int32_t> first(1), large(values.size()), rest(kCount - 1);
  const Client::Read reads[] = {
      {&*b, 0, 4, first.data()}, {&*a, 0, count * 4, large.data()}, {&*b, 4, kBytes - 4, rest.data()}};
  REQUIRE(cuda_client().read(reads, nullptr).ok());
  CHECK(first[0] == 3);
  CHECK(large == values);
  CHECK(rest == numbers(4, kCount - 1));
}

TEST_CASE("a read that is not waited for leaves the memory in order", "[cuda]") {
  struct Stops : StepWatcher {
    bool between_steps() override { return true; }
  } stops;
  const CleanStandin clean;
  for (int i = 0; i < 20; ++i) {
    BufferRef buffer = put(i);
    std::vector<int32_t> out(kCount);
    const Client::Read all{&*buffer, 0, kBytes, out.data()};
    // It may have ended before the watcher is asked.
    const absl::Status status = cuda_client().read({&all, 1}, &stops);
    CHECK((status.ok() || absl::IsCancelled(status)));
    buffer.reset();
    cuda_device().memory().trim();
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("two CUDA devices exchange values, and blocks outlive what others read of them", "[cuda]") {
  const CleanStandin clean;
  const Program here = program(cuda_device(0)), there = program(cuda_device(1));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    standin()->set_seed(seed);
    std::vector<BufferRef> in{put(7)}, out;
    for (int hop = 0; hop < 4; ++hop) {
      const Program& p = hop % 2 == 0 ? here : there;
      in[0] = *bring(p->device(), in[0]);
      REQUIRE(p->run_giving_up(in, out).ok());
      in = out;
      out.clear();
    }
    CHECK((*read(in[0]))[0] == (((7 * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("calls of the driver that fail are told once, and nothing else changes", "[cuda]") {
  const CleanStandin clean;
  const Program p = program();
  const BufferRef before = put(40);
  constexpr int kOutOfMemory = 2, kInvalidValue = 1;
  for (int64_t nth = 0; nth < 3; ++nth) {
    standin()->fail(kStandinCopy, nth, kInvalidValue);
    const absl::Status failed = run_once(p);
    CHECK(failed.code() == absl::StatusCode::kInternal);
    CHECK(failed.message().find("cuda:0 failed copying ") == 0);
    CHECK(failed.message().find("CUDA_ERROR_INVALID_VALUE") != std::string_view::npos);
    CHECK(run_once(p).ok());
  }
  // Without memory for an event the host waits instead.
  for (StandinCall call : {kStandinRecord, kStandinEvent}) {
    standin()->fail(call, 0, kOutOfMemory);
    CHECK(run_once(p).ok());
  }
  // What is asked for again after a trim is there.
  cuda_device().memory().trim();
  standin()->fail(kStandinAllocate, 0, kOutOfMemory);
  CHECK(run_once(p).ok());
  CHECK(*read(before) == numbers(40));
  CHECK(standin_violations() == kNone);
}

TEST_CASE("memory that the driver refuses is ResourceExhausted", "[cuda]") {
  const CleanStandin clean;
  cuda_device().memory().trim();
  cuda_device().memory().set_limit(1 << 20);
  const absl::Status limited = cuda_device().memory().allocate(2 << 20).status();
  cuda_device().memory().set_limit(std::numeric_limits<int64_t>::max());
  CHECK(limited.code() == absl::StatusCode::kResourceExhausted);
  // Whoever asks, trims and asks again: each asks the pool twice.
  struct Counter {
    int asked = 0;
  };
  standin()->take_counts();
  BufferRef block = *cuda_device().memory().allocate(3 << 20);
  CHECK(standin()->take_counts().allocations == 1);
  const Address at = block->address();
  CHECK(at.bits() % 256 == 0);
  block.reset();
  block = *cuda_device().memory().allocate(3 << 20);
  CHECK(block->address() == at);
  CHECK(standin()->take_counts().allocations == 0);
}

TEST_CASE("kernels of a module run in the order of their stream", "[cuda]") {
  const CleanStandin clean;
  // y = x + c over 64 numbers.
  constexpr StandinKernel kAdd{.name = "add",
                               .buffers = 2,
                               .parameters = 3,
                               .touch =
                                   [](const uint64_t*, void* sink, void (*add)(void*, int, int64_t, bool)) {
                                     add(sink, 0, kBytes, false);
                                     add(sink, 1, kBytes, true);
                                   },
                               .run =
                                   [](const uint64_t* parameters, unsigned blocks, unsigned threads) {
                                     const auto* const x = reinterpret_cast<const int32_t*>(parameters[0]);
                                     auto* const y = reinterpret_cast<int32_t*>(parameters[1]);
                                     for (unsigned i = 0; i < blocks * threads; ++i)
                                       y[i] = x[i] + static_cast<int32_t>(parameters[2]);
                                   }};
  standin()->add_kernel(&kAdd);
  cuda::CudaStream& compute = stream(Lane::kCompute);
  cuda::Gpu& gpu = compute.gpu();
  cuda::ModuleHandle module = nullptr;
  cuda::FunctionHandle function = nullptr;
  const char image[] = "";
  REQUIRE(gpu.call("loading", gpu.driver().load_module, &module, static_cast<const void*>(image)).ok());
  REQUIRE(gpu.call("looking", gpu.driver().function, &function, module, "add").ok());
  CHECK(gpu.call("looking", gpu.driver().function, &function, module, "nothing")
            .message()
            .find("cuda:0 failed looking") == 0);
  const BufferRef x = put(1), y = put(0);
  for (const BufferRef& b : {x, y}) REQUIRE(compute.after(b->written()).ok());
  uint64_t from = x->address().bits(), to = y->address().bits(), added = 10;
  const auto launch = [&] {
    std::vector<void*> parameters{&from, &to, &added};
    return compute.launch(function, 2, 32, parameters);
  };
  REQUIRE(launch().ok());
  std::swap(from, to);
  added = 5;
  REQUIRE(launch().ok());  // x = y + 5
  std::vector<int32_t> got(kCount);
  REQUIRE(compute.read(x->address(), kBytes, got.data()).ok());
  CHECK(got == numbers(16));
  CHECK(standin()->take_counts().launches == 2);
  SECTION("a launch that is refused") {
    standin()->fail(kStandinLaunch, 0, 1);
    CHECK(launch().message().find("cuda:0 failed launching a kernel") == 0);
    CHECK(launch().ok());
  }
  SECTION("planted: a kernel reads what another stream writes") {
    const std::vector<int32_t> values = numbers(0);
    REQUIRE(stream(Lane::kCopyIn).write(y->address(), values.data(), kBytes).ok());
    REQUIRE(launch().ok());
    CHECK(standin_found("nothing orders kernel add"));
    return;
  }
  SECTION("planted: a kernel reads what nothing has written") {
    const BufferRef fresh = *cuda_device().memory().allocate(1 << 21);
    from = fresh->address().bits();
    REQUIRE(launch().ok());
    CHECK(standin_found("which nothing has written"));
    return;
  }
  CHECK(gpu.call("unloading", gpu.driver().unload_module, module).ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("a forked child gets an error from CUDA, and calls nothing of the driver", "[cuda][fork]") {
  const CleanStandin clean;
  const Program p = program();
  std::vector<BufferRef> in{put(0)}, out;
  REQUIRE(p->run(in, out).ok());
  check_in_child([&] {
    const auto is_refused = [](const absl::Status& s) {
      return s.message().find("cuda:0 was lost: a process forked") == 0;
    };
    std::vector<BufferRef> more;
    const bool refused = is_refused(read(out[0]).status()) && is_refused(p->run(in, more)) &&
                         is_refused(cuda_client().put(cuda_device(), numbers(0).data(), kBytes).status());
    // Nor does letting go call it.
    out.clear();
    in.clear();
    cuda_device().memory().trim();
    return refused && find_device("cuda").ok();
  });
  CHECK((*read(out[0]))[0] == 1);
  CHECK(run_once(p).ok());
}

TEST_CASE("planted: streams of CUDA that do not wait for each other", "[cuda][planted]") {
  const CleanStandin clean;
  const Program p = program();
  standin()->set_mistake(kStandinForgetsWaits);
  CHECK(standin_finds("nothing orders", [&] { run_once(p).IgnoreError(); }));
}

TEST_CASE("planted: points of CUDA before their work has ended", "[cuda][planted]") {
  const CleanStandin clean;
  standin()->set_mistake(kStandinRecordsEarly);
  // The last piece of a copy in is not waited for.
  CHECK(standin_finds("nothing orders", [] {
    const BufferRef a = put(0);
    read(a).status().IgnoreError();
  }));
}

TEST_CASE("planted: a block of CUDA is freed on another stream", "[cuda][planted]") {
  const CleanStandin clean;
  standin()->set_mistake(kStandinFreesElsewhere);
  BufferRef a = put(1), b = put(2);
  for (const BufferRef& written : {a, b}) REQUIRE(cuda_device().stream().after(written->written()).ok());
  REQUIRE(cuda_device().stream().copy(b->address(), a->address(), kBytes).ok());
  a.reset();
  b.reset();
  cuda_device().memory().trim();
  CHECK(standin_found("nothing orders the end of a block"));
}

TEST_CASE("planted: a copy on the wrong stream of CUDA", "[cuda][planted]") {
  const CleanStandin clean;
  const BufferRef a = put(1), b = put(2);
  for (const BufferRef& written : {a, b}) REQUIRE(cuda_device().stream().after(written->written()).ok());
  standin()->set_mistake(kStandinCopiesElsewhere);
  REQUIRE(cuda_device().stream().copy(b->address(), a->address(), kBytes).ok());
  std::vector<int32_t> got(kCount);
  REQUIRE(cuda_device().stream().read(b->address(), kBytes, got.data()).ok());
  CHECK(standin_found("nothing orders"));
}

TEST_CASE("planted: a copy of CUDA that does not run", "[cuda][planted]") {
  const CleanStandin clean;
  const BufferRef a = put(1), to = *cuda_device().memory().allocate(1 << 21);
  REQUIRE(cuda_device().stream().after(a->written()).ok());
  cuda_device().memory().trim();
  standin()->set_mistake(kStandinSkipsCopies);
  REQUIRE(cuda_device().stream().copy(to->address(), a->address(), kBytes).ok());
  std::vector<int32_t> got(kCount);
  REQUIRE(cuda_device().stream().read(to->address(), kBytes, got.data()).ok());
  CHECK(standin_found("which nothing has written"));
}

TEST_CASE("planted: a block of CUDA goes while another stream reads it", "[cuda][planted]") {
  const CleanStandin clean;
  BufferRef buffer = put(0);
  cuda::CudaStream& other = stream(Lane::kCopyIn, cuda_device(1));
  const BufferRef to = put(0, cuda_device(1));
  REQUIRE(other.after(buffer->written()).ok());
  REQUIRE(other.copy_from(stream(Lane::kCompute).gpu(), buffer->address(), to->address(), kBytes).ok());
  const bool says = GENERATE(false, true);
  if (says) buffer->used_until(other.mark());
  buffer.reset();
  cuda_device().memory().trim();
  CHECK(standin_found("nothing orders the end of a block") == !says);
}

TEST_CASE("planted: memory of CUDA that was let go of is used", "[cuda][planted]") {
  const CleanStandin clean;
  BufferRef buffer = put(0);
  const BufferRef to = put(0);
  const Address gone = buffer->address();
  for (const BufferRef& b : {buffer, to}) REQUIRE(cuda_device().stream().after(b->written()).ok());
  buffer.reset();
  cuda_device().memory().trim();
  REQUIRE(cuda_device().stream().copy(to->address(), gone, kBytes).ok());
  CHECK(standin_found("of a block that was let go of"));
  REQUIRE(cuda_device().stream().copy(to->address(), gone, kBytes).ok());
  CHECK(standin_found("in no block"));
}

TEST_CASE("planted: staging of CUDA that serves again too early", "[cuda][planted]") {
  const CleanStandin clean;
  cuda::CudaStream& lane = stream(Lane::kCopyIn);
  cuda::Gpu& gpu = lane.gpu();
  const BufferRef to = put(0);
  REQUIRE(lane.after(cuda_device().stream().mark()).ok());
  cuda::Staging staging;
  const cuda::Staging::Piece piece = *staging.take(gpu, kBytes);
  const auto send = [&](const void* from) {
    return lane.enqueue("copying", gpu.driver().copy_in, to->address().bits(), from,
                        static_cast<size_t>(kBytes));
  };
  REQUIRE(send(piece.at).ok());
  SECTION("given back before its point") {
    staging.give_back(piece, {});
    const cuda::Staging::Piece again = *staging.take(gpu, kBytes);
    REQUIRE(again.at == piece.at);
    std::memset(again.at, 1, kBytes);
    CHECK(standin_found("the source of a copy in changed before it ran"));
  }
  SECTION("with its point") {
    const Point until = lane.mark();
    staging.give_back(piece, until);
    const cuda::Staging::Piece again = *staging.take(gpu, kBytes);
    CHECK((again.at != piece.at || lane.reached(until.value)));
    std::memset(again.at, 1, kBytes);
    CHECK(standin_violations() == kNone);
  }
  SECTION("memory that is not pinned") {
    const std::vector<int32_t> values = numbers(0);
    REQUIRE(send(values.data()).ok());
    CHECK(standin_found("not pinned"));
  }
}

TEST_CASE("planted: work while another device's context is current", "[cuda][planted]") {
  const CleanStandin clean;
  const cuda::Driver& driver = cuda_client().driver();
  const BufferRef to = put(0);
  // As a stream's own work does not: without its device.
  cuda::Gpu& other = stream(Lane::kCompute, cuda_device(1)).gpu();
  cuda::EventHandle event = nullptr;
  REQUIRE(other.call("making an event", driver.create_event, &event, cuda::kEventWithoutTime).ok());
  CHECK_FALSE(stream(Lane::kCompute).enqueue("recording", driver.record, event).ok());
  CHECK(driver.create_event(&event, cuda::kEventWithoutTime) == cuda::Result::kInvalidContext);
  CHECK(standin_found("no context is current"));
}

// In a process of its own: the device stays lost.
TEST_CASE("a fault loses the device, and others go on", "[.][cuda_lost]") {
  const CleanStandin clean;
  const Program p = program(), other = program(cuda_device(1));
  const BufferRef before = put(40);
  REQUIRE(read(before).ok());
  std::vector<BufferRef> in{put(0)}, out;
  standin()->fault(1, 700);
  REQUIRE(p->run(in, out).code() == absl::StatusCode::kUnavailable);
  const char* const lost =
      "cuda:0 was lost: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered, noticed ";
  for (const absl::Status& s :
       {read(before).status(), p->run(in, out), stream(Lane::kCompute).gpu().health(),
        cuda_client().put(cuda_device(), numbers(0).data(), kBytes).status(),
        cuda_client().copy_across(cuda_device(1), before).status(), stream(Lane::kCompute).drain()})
    CHECK(s.message().find(lost) == 0);
  // Every point is reached, and what was kept is let go of.
  const Point mark = cuda_device().stream().mark();
  CHECK(cuda_device().stream().reached(mark.value));
  CHECK_FALSE(cuda_device().stream().wait(mark.value, nullptr).ok());
  std::weak_ptr<int> kept;
  {
    const auto mine = std::make_shared<int>(1);
    kept = mine;
    cuda_device().stream().keep(mine);
  }
  CHECK(kept.expired());
  // Before the fault it was read.
  CHECK(run_once(other).ok());
  CHECK(*find_device("cuda") == &cuda_device());
}
