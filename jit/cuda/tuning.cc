#include "jit/cuda/tuning.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/strings.h"
#include "jit/client/environment.h"
#include "jit/program/disk_cache.h"

namespace lamina::jit::cuda {
namespace {

// The first round is not counted: libraries load code then. All others take turns, so that a clock that
// changes meets all of them.
constexpr int kRounds = 6;
constexpr int64_t kArrayAlignment = 256;
// 1 and little more as bf16 and f32, 1.9 as f16: no number that is dear, nor 0, for which chips need less
// power and are quicker.
constexpr unsigned kPattern = 0x3f803f80;

// A stream, memory and two events of a device, for as long as it is timed.
class Bench {
 public:
  explicit Bench(Gpu& gpu) : gpu_(gpu), driver_(gpu.driver()) {}
  ~Bench() {
    const auto done = [&](auto function, auto... arguments) {
      gpu_.call("ending to measure", function, arguments...).IgnoreError();
    };
    if (block_) done(driver_.free, block_, stream_);
    if (stream_) done(driver_.wait_for_stream, stream_);
    for (EventHandle e : events_)
      if (e) done(driver_.destroy_event, e);
    if (stream_) done(driver_.destroy_stream, stream_);
    if (pool_) done(driver_.destroy_pool, pool_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  absl::Status set_up(std::span<const int64_t> bytes) {
    int64_t all = 0;
    std::vector<int64_t> begins;
    for (int64_t b : bytes) {
      begins.push_back(all);
      all += (b + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
    }
    PoolProperties properties;
    properties.location.number = gpu_.number();
    absl::Status status;
    const auto then = [&](auto function, auto... arguments) {
      if (status.ok()) status = gpu_.call("measuring", function, arguments...);
    };
    then(driver_.create_stream, &stream_, kStreamNonBlocking);
    for (EventHandle& e : events_) then(driver_.create_event, &e, 0U);
    then(driver_.create_pool, &pool_, static_cast<const PoolProperties*>(&properties));
    then(driver_.allocate, &block_, static_cast<size_t>(all), pool_, stream_);
    then(driver_.fill, block_, kPattern, static_cast<size_t>(all) / sizeof kPattern, stream_);
    for (int64_t begin : begins) arrays_.push_back(Address(block_) + begin);
    return status;
  }

  absl::StatusOr<float> milliseconds(const TimedAlgorithm& algorithm) {
    float out = 0;
    absl::Status status;
    const auto then = [&](auto function, auto... arguments) {
      if (status.ok()) status = gpu_.call("measuring", function, arguments...);
    };
    then(driver_.record, events_[0], stream_);
    if (status.ok()) status = gpu_.within([&] { return algorithm.run(stream_, arrays_); });
    then(driver_.record, events_[1], stream_);
    then(driver_.wait_for_stream, stream_);
    then(driver_.elapsed, &out, events_[0], events_[1]);
    if (!status.ok()) return status;
    return out;
  }

 private:
  Gpu& gpu_;
  const Driver& driver_;
  StreamHandle stream_ = nullptr;
  PoolHandle pool_ = nullptr;
  DevicePointer block_ = 0;
  EventHandle events_[2] = {nullptr, nullptr};
  std::vector<Address> arrays_;
};

// The least time of each; infinite where one fails.
absl::StatusOr<std::vector<float>> least_times(Gpu& gpu, std::span<const int64_t> bytes,
                                               std::span<const TimedAlgorithm> algorithms) {
  Bench bench(gpu);
  if (absl::Status s = bench.set_up(bytes); !s.ok()) return s;
  constexpr float kNone = std::numeric_limits<float>::infinity();
  std::vector<float> least(algorithms.size(), kNone);
  std::vector<bool> fails(algorithms.size(), false);
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < algorithms.size(); ++i) {
      if (fails[i]) continue;
      const absl::StatusOr<float> time = bench.milliseconds(algorithms[i]);
      if (gpu.is_lost()) return gpu.health();
      fails[i] = !time.ok();
      if (fails[i])
        least[i] = kNone;
      else if (round > 0)
        least[i] = std::min(least[i], *time);
    }
  return least;
}

}  // namespace

bool is_tuning() { return count_in_environment("LAMINA_CUDA_TUNE", 1).has_value(); }

size_t quickest(Gpu& gpu, const std::string& what, std::span<const int64_t> bytes,
                std::span<const TimedAlgorithm> algorithms) {
  if (algorithms.size() < 2) return 0;
  const GpuFacts& facts = gpu.facts();
  const std::string key = str_cat("tuned 1 on ", facts.model, " sm_", facts.capability, " of ",
                                  facts.multiprocessors, " multiprocessors\n", what);
  DiskCache disk;
  if (const std::optional<std::string> kept = disk.load(key))
    if (const auto found = std::ranges::find(algorithms, *kept, &TimedAlgorithm::name);
        found != algorithms.end())
      return static_cast<size_t>(found - algorithms.begin());
  const absl::StatusOr<std::vector<float>> times = least_times(gpu, bytes, algorithms);
  if (!times.ok()) return 0;
  const auto best = static_cast<size_t>(std::ranges::min_element(*times) - times->begin());
  const size_t taken = (*times)[best] < (1 - kLeastGain) * (*times)[0] ? best : 0;
  disk.store(key, algorithms[taken].name);
  return taken;
}

}  // namespace lamina::jit::cuda
