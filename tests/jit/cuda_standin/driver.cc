// The stand-in for the CUDA driver (control.h).
#include "jit/cuda/driver.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"
#include "jit/fake/queues.h"
#include "tests/jit/cuda_standin/control.h"
#include "tests/jit/cuda_standin/kernel_twin.h"
#include "tests/jit/cuda_standin/state.h"

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using standins::setting;
using standins::standin;
using Queues = jit::FakeQueues;
using Access = Queues::Access;

// NaN in every float type.
constexpr unsigned char kPoison = 0xff;

// Contexts that this thread pushed.
thread_local std::vector<ContextHandle> current;

std::atomic<bool> is_child{false};
[[maybe_unused]] const int watches_forks = pthread_atfork(nullptr, nullptr, [] { is_child = true; });

using standins::check_process;
using standins::check_uncaptured;
using standins::check_undisturbed;
using standins::enter;

// Events that are recorded behind it are after that point, too.
void enqueue_wait(StreamHandle stream, int queue, uint64_t value) {
  standin().queues.after(stream->queue, queue, value);
  standin().queues.enqueue(stream->queue, {Queues::Kind::kOrder, "a wait", {}, {}});
}

StreamHandle add_stream(ContextHandle context, const std::string& name, bool is_blocking = false) {
  const int queue = standin().queues.add_queue(str_cat("cuda:", context->device, " ", name));
  return new OpaqueStream{.context = context, .queue = queue, .is_blocking = is_blocking};
}

StreamHandle add_others_stream(ContextHandle context, const std::string& name, bool is_blocking) {
  const StreamHandle made = add_stream(context, name, is_blocking);
  std::lock_guard lock(standin().mutex);
  context->others.push_back(made);
  return made;
}

// The stream that a handle stands for: 0 and 1 for the legacy default stream of the current context, 2 for
// the thread's own.
StreamHandle resolved(StreamHandle stream) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (number > 2 || current.empty()) return stream;
  const ContextHandle context = current.back();
  thread_local std::map<ContextHandle, StreamHandle> of_thread;
  StreamHandle& known = number == 2 ? of_thread[context] : context->legacy;
  if (!known)
    known = add_others_stream(context, number == 2 ? "stream of a thread" : "legacy stream", number == 2);
  return known;
}

// While something is enqueued: the legacy stream waits for the blocking ones, and these for that.
class LegacyOrder {
 public:
  explicit LegacyOrder(StreamHandle stream) {
    if (stream != stream->context->legacy) return;
    legacy_ = stream;
    for (StreamHandle s : blocking()) wait(legacy_, s);
  }
  ~LegacyOrder() {
    if (!legacy_) return;
    for (StreamHandle s : blocking()) wait(s, legacy_);
  }
  LegacyOrder(const LegacyOrder&) = delete;
  LegacyOrder& operator=(const LegacyOrder&) = delete;

 private:
  std::vector<StreamHandle> blocking() const {
    std::lock_guard lock(standin().mutex);
    std::vector<StreamHandle> out = legacy_->context->others;
    std::erase_if(out, [](StreamHandle s) { return !s->is_blocking; });
    return out;
  }
  static void wait(StreamHandle later, StreamHandle earlier) {
    enqueue_wait(later, earlier->queue, standin().queues.mark(earlier->queue));
  }
  StreamHandle legacy_ = nullptr;
};

// Of work that is not for graphs.
Result enter_stream(StreamHandle stream, const char* what) {
  const Result result = enter(stream->context, what);
  return result == Result::kSuccess ? check_uncaptured(stream, what) : result;
}

Result enter_current(const char* what, ContextHandle* context) {
  check_process();
  *context = current.empty() ? nullptr : current.back();
  if (!*context) {
    standin().violation(str_cat(what, " while no context is current"));
    return Result::kInvalidContext;
  }
  return (*context)->fault.load();
}

std::vector<Queues::Touch> touches_of(DevicePointer to, DevicePointer from, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  std::vector<Queues::Touch> out;
  if (to) out.push_back({jit::Address(to), size, Access::kWrite});
  if (from) out.push_back({jit::Address(from), size, Access::kRead});
  return out;
}

uint64_t sum_of(const void* at, size_t bytes) {
  uint64_t sum = 1469598103934665603U;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ static_cast<const unsigned char*>(at)[i]) * 1099511628211U;
  return sum;
}

using standins::bytes_at;

Result copy_between(StreamHandle stream, DevicePointer to, DevicePointer from, size_t bytes) {
  if (const Result fails = standin().fails(kStandinCopy); fails != Result::kSuccess) return fails;
  const StandinMistake mistake = standin().made();
  if (mistake == kStandinSkipsCopies) return Result::kSuccess;
  StreamHandle on = stream;
  if (mistake == kStandinCopiesElsewhere)
    for (StreamHandle other : stream->context->streams)
      if (other != stream) on = other;
  standins::enqueue(on, {Queues::Kind::kTransfer, "a copy", touches_of(to, from, bytes),
                         [=] { std::memcpy(bytes_at(to), bytes_at(from), bytes); }});
  return Result::kSuccess;
}

}  // namespace

namespace standins {

int setting(const char* variable, int otherwise) {
  const char* const set = std::getenv(variable);
  return set && *set ? std::atoi(set) : otherwise;
}

int capability() { return standin().capability; }

void check_process() {
  if (!is_child) return;
  std::fputs("a forked child called the CUDA driver\n", stderr);
  std::abort();
}

void violation(std::string text) { standin().violation(std::move(text)); }
void count(int64_t StandinCounts::*what) {
  std::lock_guard lock(standin().mutex);
  ++(standin().counts.*what);
}
bool made(StandinMistake mistake) { return standin().made() == mistake; }
int failure(StandinCall call) { return static_cast<int>(standin().fails(call)); }

ContextHandle current_context() { return current.empty() ? nullptr : current.back(); }
ContextHandle context_of(StreamHandle stream) { return stream->context; }

Result enter(ContextHandle context, const char* what) {
  check_process();
  if (const Result fault = context->fault.load(); fault != Result::kSuccess) return fault;
  if (current_context() == context) return Result::kSuccess;
  violation(str_cat(what, " while the context of another device, or none, is current"));
  return Result::kInvalidContext;
}

void run(StreamHandle stream, Work work) {
  const LegacyOrder order(stream);
  standin().enqueue(stream, work.kind, std::move(work.what), std::move(work.touches), std::move(work.run));
}

void spend(StreamHandle stream, int64_t algorithm) {
  std::lock_guard lock(standin().mutex);
  const auto set = standin().times.find(algorithm);
  stream->milliseconds += set == standin().times.end() ? 1 : set->second;
}

std::byte* bytes_at(DevicePointer at) { return standin().queues.bytes_at(jit::Address(at)); }

}  // namespace standins

// The driver's functions, with the declarations of jit/cuda/driver.def.
#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) {
  check_process();
  return static_cast<Result>(setting("LAMINA_STANDIN_INIT", 0));
}

Result cuDriverGetVersion(int* version) {
  *version = setting("LAMINA_STANDIN_VERSION", 12040);
  return Result::kSuccess;
}

Result cuGetErrorName(Result error, const char** name) {
  constexpr std::pair<Result, const char*> kNames[] = {
      {Result::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {Result::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {Result::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {Result::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {Result::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
  };
  for (const auto& [result, text] : kNames)
    if (result == error) {
      *name = text;
      return Result::kSuccess;
    }
  return Result::kInvalidValue;
}

Result cuGetErrorString(Result error, const char** text) {
  *text = error == Result::kIllegalAddress ? "an illegal memory access was encountered"
                                           : "as the stand-in was told";
  return Result::kSuccess;
}

Result cuDeviceGetCount(int* count) {
  *count = standin().devices;
  return Result::kSuccess;
}

Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < standin().devices ? Result::kSuccess : Result::kInvalidDevice;
}

Result cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "stand-in");
  return Result::kSuccess;
}

Result cuDeviceGetAttribute(int* value, Attribute attribute, int) {
  const int capability = standin().capability;
  switch (attribute) {
    case Attribute::kCapabilityMajor:
      *value = capability / 10;
      break;
    case Attribute::kCapabilityMinor:
      *value = capability % 10;
      break;
    case Attribute::kMultiprocessors:
      *value = 4;
      break;
    case Attribute::kMemoryPools:
      *value = 1;
      break;
    default:
      return Result::kInvalidValue;
  }
  return Result::kSuccess;
}

Result cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 30;
  return Result::kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return Result::kSuccess;
}

Result cuDevicePrimaryCtxRetain(ContextHandle* context, int device) {
  *context = &standin().contexts[static_cast<size_t>(device)];
  return Result::kSuccess;
}

Result cuCtxGetCurrent(ContextHandle* context) {
  check_process();
  standins::count(&StandinCounts::context_calls);
  *context = current.empty() ? nullptr : current.back();
  return Result::kSuccess;
}

Result cuCtxPushCurrent_v2(ContextHandle context) {
  check_process();
  standins::count(&StandinCounts::context_calls);
  current.push_back(context);
  return Result::kSuccess;
}

Result cuCtxPopCurrent_v2(ContextHandle* context) {
  if (current.empty()) return Result::kInvalidContext;
  standins::count(&StandinCounts::context_calls);
  *context = current.back();
  current.pop_back();
  return Result::kSuccess;
}

Result cuMemPoolCreate(PoolHandle* pool, const PoolProperties* properties) {
  if (properties->allocation != PoolProperties::kPinned || properties->handles != 0 ||
      properties->location.type != MemoryLocation::kDevice)
    return Result::kInvalidValue;
  *pool = new OpaquePool{properties->location.number};
  return Result::kSuccess;
}

Result cuMemPoolDestroy(PoolHandle pool) {
  delete pool;
  return Result::kSuccess;
}

Result cuMemPoolSetAttribute(PoolHandle, PoolAttribute attribute, void*) {
  return attribute == PoolAttribute::kReleaseThreshold ? Result::kSuccess : Result::kInvalidValue;
}

Result cuMemPoolSetAccess(PoolHandle pool, const PoolAccess* access, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (access[i].by.number == pool->device || access[i].by.number >= standin().devices)
      return Result::kInvalidDevice;
  return Result::kSuccess;
}

Result cuMemPoolTrimTo(PoolHandle, size_t) { return Result::kSuccess; }

Result cuMemAllocFromPoolAsync(DevicePointer* block, size_t bytes, PoolHandle pool, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "an allocation"); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinAllocate); r != Result::kSuccess) return r;
  if (pool->device != stream->context->device || bytes == 0) return Result::kInvalidValue;
  const auto size = static_cast<int64_t>(bytes);
  *block = standin().queues.allocate(stream->queue, size).bits();
  if (!*block) return Result::kOutOfMemory;
  std::lock_guard lock(standin().mutex);
  ++standin().counts.allocations;
  standin().blocks[*block] = {size, stream};
  return Result::kSuccess;
}

Result cuMemFreeAsync(DevicePointer at, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "the end of a block"); r != Result::kSuccess) return r;
  StreamHandle on = stream;
  {
    std::lock_guard lock(standin().mutex);
    const auto block = standin().blocks.find(at);
    if (block == standin().blocks.end()) {
      standin().violations.push_back("a block was freed twice, or is none");
      return Result::kInvalidValue;
    }
    standin().blocks.erase(block);
    if (standin().mistake == kStandinFreesElsewhere)
      for (StreamHandle other : stream->context->streams)
        if (other != stream) on = other;
  }
  standin().queues.free(on->queue, jit::Address(at));
  return Result::kSuccess;
}

Result cuPointerGetAttribute(void* value, PointerAttribute attribute, DevicePointer at) {
  check_process();
  std::lock_guard lock(standin().mutex);
  auto block = standin().blocks.upper_bound(at);
  if (block == standin().blocks.begin()) return Result::kInvalidValue;
  --block;
  if (at >= block->first + static_cast<uint64_t>(block->second.bytes)) return Result::kInvalidValue;
  const int device = block->second.stream->context->device;
  if (attribute == PointerAttribute::kMemoryType)
    std::memcpy(value, &kMemoryOfDevice, sizeof kMemoryOfDevice);
  else
    std::memcpy(value, &device, sizeof device);
  return Result::kSuccess;
}

// Of other libraries: there for all streams at once, and let go of in the order of the legacy stream.
Result cuMemAlloc_v2(DevicePointer* block, size_t bytes) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("an allocation", &context); r != Result::kSuccess) return r;
  const StreamHandle legacy = resolved(nullptr);
  Queues& queues = standin().queues;
  *block = queues.allocate(legacy->queue, static_cast<int64_t>(bytes)).bits();
  queues.wait(legacy->queue, queues.mark(legacy->queue), nullptr).IgnoreError();
  std::lock_guard lock(standin().mutex);
  standin().blocks[*block] = {static_cast<int64_t>(bytes), legacy};
  return Result::kSuccess;
}

Result cuMemFree_v2(DevicePointer at) { return cuMemFreeAsync(at, nullptr); }

Result cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("pinning", &context); r != Result::kSuccess) return r;
  if (const Result r = check_undisturbed("pinning"); r != Result::kSuccess) return r;
  standins::Pinned made{std::make_unique<unsigned char[]>(bytes), bytes};
  std::memset(made.memory.get(), kPoison, bytes);
  *block = made.memory.get();
  std::lock_guard lock(standin().mutex);
  standin().pinned.push_back(std::move(made));
  return Result::kSuccess;
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "a copy from the host"); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinCopy); r != Result::kSuccess) return r;
  if (!standin().is_pinned(from, bytes))
    standin().violation("a copy reads memory of the host that is not pinned");
  const LegacyOrder order(stream);
  standin().enqueue(stream, Queues::Kind::kTransfer, "a copy in", touches_of(to, 0, bytes),
                    [=, sum = sum_of(from, bytes)] {
                      if (sum_of(from, bytes) != sum)
                        standin().violation("the source of a copy in changed before it ran");
                      std::memcpy(bytes_at(to), from, bytes);
                    });
  return Result::kSuccess;
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "a copy to the host"); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinCopy); r != Result::kSuccess) return r;
  if (!standin().is_pinned(to, bytes))
    standin().violation("a copy writes memory of the host that is not pinned");
  std::memset(to, kPoison, bytes);
  const LegacyOrder order(stream);
  standin().enqueue(stream, Queues::Kind::kTransfer, "a copy out", touches_of(0, from, bytes),
                    [=, sum = sum_of(to, bytes)] {
                      if (sum_of(to, bytes) != sum)
                        standin().violation("the target of a copy out changed before it ran");
                      std::memcpy(to, bytes_at(from), bytes);
                    });
  return Result::kSuccess;
}

Result cuMemsetD32Async(DevicePointer at, unsigned value, size_t count, StreamHandle stream) {
  if (const Result r = enter_stream(stream, "filling"); r != Result::kSuccess) return r;
  const size_t bytes = count * sizeof value;
  standin().enqueue(stream, Queues::Kind::kTransfer, "filling", touches_of(at, 0, bytes), [=] {
    for (size_t i = 0; i < bytes; i += sizeof value) std::memcpy(bytes_at(at) + i, &value, sizeof value);
  });
  return Result::kSuccess;
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter(stream->context, "a copy"); r != Result::kSuccess) return r;
  return copy_between(stream, to, from, bytes);
}

Result cuMemcpyPeerAsync(DevicePointer to, ContextHandle to_context, DevicePointer from,
                         ContextHandle from_context, size_t bytes, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "a copy between devices"); r != Result::kSuccess) return r;
  for (const ContextHandle c : {to_context, from_context})
    if (const Result fault = c->fault.load(); fault != Result::kSuccess) return fault;
  return copy_between(stream, to, from, bytes);
}

Result cuStreamCreate(StreamHandle* stream, unsigned flags) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("making a stream", &context); r != Result::kSuccess) return r;
  if (flags != kStreamNonBlocking) standin().violation("a stream waits for the work of other libraries");
  *stream = add_stream(context, str_cat("stream ", context->streams.size()));
  context->streams.push_back(*stream);
  return Result::kSuccess;
}

// As other libraries make theirs, which may be ones that wait for the legacy stream.
Result cuStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("making a stream", &context); r != Result::kSuccess) return r;
  *stream = add_others_stream(context, "stream of others", flags != kStreamNonBlocking);
  return Result::kSuccess;
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("the end of a stream", &context); r != Result::kSuccess) return r;
  if (stream->capture) standins::violation("a stream ends while it is captured");
  return Result::kSuccess;  // its queue stays
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "a wait"); r != Result::kSuccess) return r;
  if (event->value == 0 || standin().made() == kStandinForgetsWaits) return Result::kSuccess;
  const LegacyOrder order(stream);
  enqueue_wait(stream, event->queue, event->value);
  return Result::kSuccess;
}

Result cuStreamSynchronize(StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "a wait"); r != Result::kSuccess) return r;
  if (const Result r = check_undisturbed("a wait"); r != Result::kSuccess) return r;
  Queues& queues = standin().queues;
  queues.wait(stream->queue, queues.mark(stream->queue), nullptr).IgnoreError();
  return stream->context->fault.load();
}

Result cuEventCreate(EventHandle* event, unsigned flags) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("making an event", &context); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinEvent); r != Result::kSuccess) return r;
  *event = new OpaqueEvent{.context = context, .has_time = (flags & kEventWithoutTime) == 0};
  return Result::kSuccess;
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  stream = resolved(stream);
  if (const Result r = enter_stream(stream, "recording"); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinRecord); r != Result::kSuccess) return r;
  if (event->context != stream->context) return Result::kInvalidHandle;
  const LegacyOrder order(stream);
  event->queue = stream->queue;
  event->milliseconds = stream->milliseconds;
  event->value = standin().queues.mark(stream->queue);
  if (standin().made() == kStandinRecordsEarly && event->value > 0) --event->value;
  return Result::kSuccess;
}

Result cuEventQuery(EventHandle event) {
  check_process();
  if (const Result r = check_undisturbed("asking for an event"); r != Result::kSuccess) return r;
  const bool reached = event->value == 0 || standin().queues.reached(event->queue, event->value);
  if (const Result fault = event->context->fault.load(); fault != Result::kSuccess) return fault;
  return reached ? Result::kSuccess : Result::kNotReady;
}

Result cuEventElapsedTime(float* milliseconds, EventHandle from, EventHandle to) {
  standins::count(&StandinCounts::timings);
  for (EventHandle e : {from, to}) {
    if (!e->has_time || e->value == 0 || e->queue != from->queue) return Result::kInvalidHandle;
    if (const Result r = cuEventQuery(e); r != Result::kSuccess) return r;
  }
  *milliseconds = static_cast<float>(to->milliseconds - from->milliseconds);
  return Result::kSuccess;
}

Result cuEventDestroy_v2(EventHandle event) {
  check_process();
  delete event;
  return Result::kSuccess;
}

Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  ContextHandle context = nullptr;
  if (const Result r = enter_current("loading a module", &context); r != Result::kSuccess) return r;
  if (const Result r = check_undisturbed("loading a module"); r != Result::kSuccess) return r;
  std::string_view text = static_cast<const char*>(image);
  if (text.starts_with("\x7f"
                       "ELF"))
    return Result::kInvalidImage;  // of a real chip
  // Machine code, as the stand-in for the assembler makes it.
  const std::string code =
      "\x7f"
      "CUBIN ";
  const bool is_code = text.starts_with(code);
  if (is_code) {
    const std::string chip = str_cat(code, "sm_", standin().capability, "\n");
    if (!text.starts_with(chip)) return Result::kNoBinaryForDevice;
    text.remove_prefix(chip.size());
  }
  {
    std::lock_guard lock(standin().mutex);
    ++(is_code ? standin().counts.code_loads : standin().counts.text_loads);
  }
  *module = new OpaqueModule{KernelTwin::of_image(text), {}};
  return Result::kSuccess;
}

Result cuModuleUnload(ModuleHandle module) {
  check_process();
  {
    std::lock_guard lock(standin().mutex);
    for (const auto& function : module->functions) standin().functions.erase(function.get());
  }
  delete module;
  return Result::kSuccess;
}

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  std::lock_guard lock(standin().mutex);
  const auto kernel = standin().kernels.find(name);
  const bool is_twins = module->twin && module->twin->has_entry(name);
  if (kernel == standin().kernels.end() && !is_twins) return Result::kNotFound;
  module->functions.push_back(std::make_unique<OpaqueFunction>());
  *function = module->functions.back().get();
  standin().functions.insert(*function);
  if (is_twins)
    **function = {{}, module->twin, name};
  else
    (*function)->kernel = kernel->second;
  return Result::kSuccess;
}

Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned, StreamHandle stream,
                      void** parameters, void**) {
  stream = resolved(stream);
  if (const Result r = enter(stream->context, "a launch"); r != Result::kSuccess) return r;
  if (const Result r = standin().fails(kStandinLaunch); r != Result::kSuccess) return r;
  standins::count(&StandinCounts::direct_launches);
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  standins::Work work;
  if (const Result r = standins::work_of(function, grid, block, parameters, &work); r != Result::kSuccess)
    return r;
  standins::enqueue(stream, std::move(work));
  return Result::kSuccess;
}

const StandinControl* lamina_cuda_standin() {
  static constexpr StandinControl kControl{
      .set_seed = [](uint64_t seed) { standin().queues.set_seed(seed); },
      .set_mistake =
          [](StandinMistake mistake) {
            std::lock_guard lock(standin().mutex);
            standin().mistake = mistake;
          },
      .fail =
          [](StandinCall call, int64_t nth, int result) {
            std::lock_guard lock(standin().mutex);
            standin().failures[call] = {nth, static_cast<Result>(result)};
          },
      .fault =
          [](int64_t nth, int result) {
            std::lock_guard lock(standin().mutex);
            standin().until_fault = nth;
            standin().fault = static_cast<Result>(result);
          },
      .add_kernel =
          [](const StandinKernel* kernel) {
            std::lock_guard lock(standin().mutex);
            standin().kernels[kernel->name] = *kernel;
          },
      .set_runner =
          [](const char* (*run)(const StandinRun*)) {
            std::lock_guard lock(standin().mutex);
            standin().runner = run;
          },
      .set_time =
          [](int64_t algorithm, double milliseconds) {
            std::lock_guard lock(standin().mutex);
            if (algorithm < 0)
              standin().times.clear();
            else
              standin().times[algorithm] = milliseconds;
          },
      .drain =
          [] {
            Queues& queues = standin().queues;
            queues.drain();
            for (OpaqueContext& context : standin().contexts)
              for (StreamHandle s : context.all())
                queues.wait(s->queue, queues.mark(s->queue), nullptr).IgnoreError();
          },
      .take_violations =
          [](void* sink, void (*add)(void*, const char*)) {
            std::vector<std::string> all = standin().queues.take_violations();
            {
              std::lock_guard lock(standin().mutex);
              for (std::string& v : standin().violations) all.push_back(std::move(v));
              standin().violations.clear();
            }
            for (const std::string& v : all) add(sink, v.c_str());
          },
      .take_counts =
          [] {
            std::lock_guard lock(standin().mutex);
            return std::exchange(standin().counts, {});
          },
      .live_blocks = [] { return standin().queues.live_blocks(); },
      .live_graphs = [] { return standins::live_graphs(); },
  };
  return &kControl;
}
}
#pragma GCC visibility pop

#define LAMINA_CUDA_CALL(member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Driver::member)>);
#define LAMINA_CUDA_GRAPH_CALL(member, symbol, parameters)
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL
