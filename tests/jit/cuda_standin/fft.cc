// The stand-in for cuFFT, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: plans that are not made or made twice, lines that
// share results, a missing work area. Violations are what the library would do otherwise than is wanted, or
// leaves open: plans that take memory of their own, transforms on no stream or by two threads at once, on
// addresses that no complex number has, of arrays that overlap, of spectra that are those of no real line;
// plans that go while their transforms wait.
//
// Lines are transformed as by the CPU, in its order, but that nothing is divided by the length, so that what
// was transformed shows in every bit where that is a power of 2. Numbers that become real ones are lost.
// Lengths that are no powers of 2 want work space, which is poisoned.
//
// Environment: LAMINA_STANDIN_CUFFT, its version (1000 * major + 100 * minor + patch).
#include "jit/cuda/fft.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "hlo/linalg/fourier.h"
#include "hlo/strings.h"
#include "tests/jit/cuda_standin/standin.h"

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using hlo::DType;
using hlo::linalg::FourierKind;
using Touch = standins::FakeQueues::Touch;
using Access = standins::FakeQueues::Access;

constexpr unsigned char kLost = 0xd7;

// Where elements of one side lie: arrays of so many rows, `pitch` apart.
struct Side {
  int64_t length = 0, step = 0, distance = 0, width = 0, rows = 1, pitch = 0;

  int64_t last() const { return ((rows - 1) * pitch + length - 1) * step; }
  int64_t bytes(int64_t arrays) const { return ((arrays - 1) * distance + last() + 1) * width; }
  // One behind the other, line after line.
  std::vector<std::byte> gathered(const std::byte* from, int64_t arrays) const {
    std::vector<std::byte> out(static_cast<size_t>(arrays * rows * length * width));
    each(arrays, [&](int64_t dense, int64_t at) {
      std::memcpy(&out[static_cast<size_t>(dense)], from + at, static_cast<size_t>(width));
    });
    return out;
  }
  void scatter(const std::vector<std::byte>& from, std::byte* to, int64_t arrays) const {
    each(arrays, [&](int64_t dense, int64_t at) {
      std::memcpy(to + at, &from[static_cast<size_t>(dense)], static_cast<size_t>(width));
    });
  }

 private:
  template <typename F>
  void each(int64_t arrays, F f) const {
    for (int64_t l = 0; l < arrays * rows; ++l)
      for (int64_t i = 0; i < length; ++i)
        f((l * length + i) * width, (l / rows * distance + (l % rows * pitch + i) * step) * width);
  }
};

struct Plan {
  bool takes_memory = true, is_made = false;
  ContextHandle context = nullptr;
  StreamHandle stream = nullptr;
  void* workspace = nullptr;
  FftType type{};
  hlo::Dims outer;  // lengths of all dimensions but the last
  int64_t length = 0, lines = 0, workspace_bytes = 0;
  Side from, to;
  std::atomic<bool> is_used{false}, is_gone{false};

  bool is_f64() const {
    return type == FftType::kC128ToC128 || type == FftType::kF64ToC128 || type == FftType::kC128ToF64;
  }
  bool is_from_real() const { return type == FftType::kF32ToC64 || type == FftType::kF64ToC128; }
  bool is_to_real() const { return type == FftType::kC64ToF32 || type == FftType::kC128ToF64; }
};

std::mutex plans_mutex;
std::deque<std::shared_ptr<Plan>>& plans() {
  static auto& all = *new std::deque<std::shared_ptr<Plan>>;
  return all;
}
// Null for none.
std::shared_ptr<Plan> plan_of(FftHandle handle) {
  std::lock_guard lock(plans_mutex);
  const auto number = static_cast<size_t>(handle);
  return handle >= 0 && number < plans().size() ? plans()[number] : nullptr;
}

template <typename X, typename F>
void each_number(std::vector<std::byte>& values, F f) {
  for (size_t at = 0; at + sizeof(X) <= values.size(); at += sizeof(X)) {
    X x;
    std::memcpy(&x, &values[at], sizeof x);
    f(x, static_cast<int64_t>(at / sizeof(X)));
    std::memcpy(&values[at], &x, sizeof x);
  }
}

template <typename X>
void conjugate(std::vector<std::byte>& numbers) {
  each_number<X>(numbers, [](X& x, int64_t i) { x = i % 2 == 1 ? -x : x; });
}

// Of dense lines of parts X.
template <typename X>
std::vector<std::byte> transformed(const Plan& p, int direction, std::vector<std::byte> in) {
  const bool is_inverse = direction == kFftInverse && !p.is_from_real() && !p.is_to_real();
  const auto kind = p.is_from_real() ? FourierKind::kReal
                    : p.is_to_real() ? FourierKind::kRealInverse
                                     : FourierKind::kForward;
  if (p.is_to_real())
    each_number<X>(in, [&](X& x, int64_t i) {
      const int64_t k = i % (2 * p.from.length);
      if ((k == 1 || k == 2 * p.from.length - 1) && x != 0)
        standins::violation("a spectrum whose ends are not real");
    });
  if (is_inverse) conjugate<X>(in);
  const DType part = p.is_f64() ? DType::kF64 : DType::kF32;
  const DType number = p.is_f64() ? DType::kC128 : DType::kC64;
  const hlo::Type* const type = hlo::array_type_or_die(kind == FourierKind::kForward ? number : part,
                                                       hlo::Dims{p.lines * p.from.rows, p.length});
  std::vector<std::byte> out(static_cast<size_t>(p.lines * p.to.rows * p.to.length * p.to.width));
  const hlo::linalg::EachMatrix in_turn = [](int64_t count, const auto& one) {
    for (int64_t i = 0; i < count; ++i) one(i);
  };
  hlo::linalg::plan_fourier(kind, *type)(in.data(), out.data(), in_turn);
  int64_t step = p.to.length;
  for (size_t d = p.outer.size(); d-- > 0; step *= p.outer[d]) {
    const hlo::Type* const columns = hlo::array_type_or_die(
        number, hlo::Dims{p.lines * p.to.rows * p.to.length / (p.outer[d] * step), p.outer[d], step});
    in = out;
    hlo::linalg::plan_fourier_columns(FourierKind::kForward, *columns)(in.data(), out.data(), in_turn);
  }
  if (is_inverse) conjugate<X>(out);
  if (p.is_to_real()) each_number<X>(out, [&](X& x, int64_t) { x *= static_cast<X>(p.length); });
  return out;
}

void transform(const Plan& p, int direction, std::byte* from, std::byte* to) {
  if (p.is_gone) standins::violation("a plan went while its transforms were waiting");
  std::vector<std::byte> in = p.from.gathered(from, p.lines);
  if (p.is_to_real()) p.from.scatter(std::vector<std::byte>(in.size(), std::byte{kLost}), from, p.lines);
  p.to.scatter(p.is_f64() ? transformed<double>(p, direction, std::move(in))
                          : transformed<float>(p, direction, std::move(in)),
               to, p.lines);
}

FftStatus execute(FftHandle handle, FftType type, const void* from, void* to, int direction) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan || !plan->is_made || plan->type != type) return FftStatus::kInvalidPlan;
  if (plan->is_used.exchange(true)) standins::violation("a plan used by two threads at once");
  const auto run = [&]() -> FftStatus {
    if (standins::enter(plan->context, "a transform") != Result::kSuccess) return FftStatus::kExecFailed;
    if (const int failure = standins::failure(kStandinTransform); failure != 0)
      return static_cast<FftStatus>(failure);
    if (!plan->stream || standins::context_of(plan->stream) != plan->context) {
      standins::violation("a transform on no stream, or one of another device than its plan's");
      return FftStatus::kInvalidValue;
    }
    if (plan->workspace_bytes > 0 && !plan->workspace) return FftStatus::kNoWorkspace;
    if (!from || !to || (direction != kFftForward && direction != kFftInverse))
      return FftStatus::kInvalidValue;
    const auto begin = reinterpret_cast<uintptr_t>(from), end = reinterpret_cast<uintptr_t>(to);
    if (begin % (plan->is_f64() ? 16 : 8) != 0 || end % (plan->is_f64() ? 16 : 8) != 0) {
      standins::violation("a transform of an array that begins where no complex number does");
      return FftStatus::kInvalidValue;
    }
    const int64_t read = plan->from.bytes(plan->lines), written = plan->to.bytes(plan->lines);
    const bool is_complex = !plan->is_from_real() && !plan->is_to_real();
    if (begin < end + static_cast<uintptr_t>(written) && end < begin + static_cast<uintptr_t>(read) &&
        (begin != end || !is_complex))
      standins::violation("a transform to an array that overlaps what it reads");
    std::vector<Touch> touches{
        {jit::Address(end), written, Access::kWrite},
        {jit::Address(begin), read, plan->is_to_real() ? Access::kWrite : Access::kRead}};
    if (plan->is_to_real()) touches.push_back({jit::Address(begin), read, Access::kRead});
    if (plan->workspace_bytes > 0)
      touches.push_back({jit::Address(reinterpret_cast<uintptr_t>(plan->workspace)), plan->workspace_bytes,
                         Access::kScratch});
    standins::enqueue(plan->stream,
                      {standins::FakeQueues::Kind::kLaunch,
                       str_cat("a transform of ", plan->length, " numbers"), std::move(touches), [=] {
                         transform(*plan, direction, standins::bytes_at(begin), standins::bytes_at(end));
                       }});
    return FftStatus::kSuccess;
  };
  const FftStatus status = run();
  plan->is_used = false;
  return status;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

FftStatus cufftGetVersion(int* version) {
  *version = standins::setting("LAMINA_STANDIN_CUFFT", 11203);
  return FftStatus::kSuccess;
}

FftStatus cufftCreate(FftHandle* plan) {
  std::lock_guard lock(plans_mutex);
  *plan = static_cast<FftHandle>(plans().size());
  plans().push_back(std::make_shared<Plan>());
  return FftStatus::kSuccess;
}

FftStatus cufftDestroy(FftHandle handle) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan) return FftStatus::kInvalidPlan;
  if (plan->context) standins::enter(plan->context, "the end of a plan");
  plan->is_gone = true;
  std::lock_guard lock(plans_mutex);
  plans()[static_cast<size_t>(handle)] = nullptr;
  return FftStatus::kSuccess;
}

FftStatus cufftSetAutoAllocation(FftHandle handle, int takes_memory) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan || plan->is_made) return FftStatus::kInvalidPlan;
  plan->takes_memory = takes_memory != 0;
  return FftStatus::kSuccess;
}

FftStatus cufftMakePlanMany64(FftHandle handle, int rank, long long* lengths, long long* from_lengths,
                              long long from_step, long long from_distance, long long* to_lengths,
                              long long to_step, long long to_distance, FftType type, long long count,
                              size_t* workspace_bytes) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan || plan->is_made) return FftStatus::kInvalidPlan;
  const ContextHandle context = standins::current_context();
  if (!context || standins::enter(context, "a plan of cuFFT") != Result::kSuccess)
    return FftStatus::kSetupFailed;
  if (standins::check_undisturbed("a plan of cuFFT") != Result::kSuccess) return FftStatus::kInternalError;
  if (const int failure = standins::failure(kStandinPlan); failure != 0)
    return static_cast<FftStatus>(failure);
  if (plan->takes_memory) standins::violation("a plan of cuFFT that takes memory of its own");
  // Without them the library does not look at steps and distances.
  if (!from_lengths || !to_lengths) standins::violation("a plan of cuFFT whose lines lie anywhere");
  if (rank < 1 || rank > 3 || !workspace_bytes) return FftStatus::kInvalidValue;
  const long long n = lengths[rank - 1];
  if (std::any_of(lengths, lengths + rank, [](long long l) { return l < 1; }) || count < 1)
    return FftStatus::kInvalidSize;
  if (from_step < 1 || from_distance < 1 || to_step < 1 || to_distance < 1) return FftStatus::kInvalidValue;
  plan->type = type;
  plan->length = n;
  plan->lines = count;
  const int64_t width = plan->is_f64() ? 8 : 4;
  plan->from = {plan->is_to_real() ? n / 2 + 1 : n, from_step, from_distance,
                plan->is_from_real() ? width : 2 * width};
  plan->to = {plan->is_from_real() ? n / 2 + 1 : n, to_step, to_distance,
              plan->is_to_real() ? width : 2 * width};
  plan->outer.assign(lengths, lengths + rank - 1);
  for (auto [side, given] : {std::pair{&plan->from, from_lengths}, std::pair{&plan->to, to_lengths}}) {
    side->rows = hlo::product(plan->outer);
    side->pitch = given && rank > 1 ? given[rank - 1] : side->length;
    if (side->pitch < side->length) return FftStatus::kInvalidValue;
    // What the library does then is of no use here.
    if (given && rank > 2 && given[1] != lengths[1])
      standins::violation("a plan of cuFFT of planes that do not lie densely");
  }
  // Of spectra that are those of no real array it makes one thing or another.
  if (rank > 1 && plan->is_to_real()) standins::violation("a plan of cuFFT to real arrays of dimensions");
  // Lines beside each other, or one behind the other.
  const Side& to = plan->to;
  const bool are_apart = to.step >= count * to.distance || to.distance >= to.last() + 1;
  if (count > 1 && !are_apart) return FftStatus::kInvalidValue;
  const auto kind = plan->is_from_real() ? FourierKind::kReal
                    : plan->is_to_real() ? FourierKind::kRealInverse
                                         : FourierKind::kForward;
  if (!hlo::linalg::has_fourier_plan(kind, n)) return FftStatus::kNotSupported;
  plan->workspace_bytes = (n & (n - 1)) == 0 ? 0 : n * plan->from.rows * count * 2 * width;
  plan->context = context;
  plan->is_made = true;
  *workspace_bytes = static_cast<size_t>(plan->workspace_bytes);
  return FftStatus::kSuccess;
}

FftStatus cufftSetWorkArea(FftHandle handle, void* workspace) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan || !plan->is_made) return FftStatus::kInvalidPlan;
  if (reinterpret_cast<uintptr_t>(workspace) % kFftWorkspaceAlignment != 0)
    standins::violation("a work area of cuFFT that begins anywhere");
  plan->workspace = workspace;
  return FftStatus::kSuccess;
}
FftStatus cufftSetStream(FftHandle handle, StreamHandle stream) {
  const std::shared_ptr<Plan> plan = plan_of(handle);
  if (!plan || !plan->is_made) return FftStatus::kInvalidPlan;
  plan->stream = stream;
  return FftStatus::kSuccess;
}

FftStatus cufftExecC2C(FftHandle plan, void* from, void* to, int direction) {
  return execute(plan, FftType::kC64ToC64, from, to, direction);
}
FftStatus cufftExecZ2Z(FftHandle plan, void* from, void* to, int direction) {
  return execute(plan, FftType::kC128ToC128, from, to, direction);
}
FftStatus cufftExecR2C(FftHandle plan, void* from, void* to) {
  return execute(plan, FftType::kF32ToC64, from, to, kFftForward);
}
FftStatus cufftExecD2Z(FftHandle plan, void* from, void* to) {
  return execute(plan, FftType::kF64ToC128, from, to, kFftForward);
}
FftStatus cufftExecC2R(FftHandle plan, void* from, void* to) {
  return execute(plan, FftType::kC64ToF32, from, to, kFftInverse);
}
FftStatus cufftExecZ2D(FftHandle plan, void* from, void* to) {
  return execute(plan, FftType::kC128ToF64, from, to, kFftInverse);
}
}
#pragma GCC visibility pop

#define LAMINA_CUFFT_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Fft::member)>);
#include "jit/cuda/fft.def"
#undef LAMINA_CUFFT_CALL
