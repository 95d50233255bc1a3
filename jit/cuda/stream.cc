#include "jit/cuda/stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace lamina::jit::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr auto kShortestSleep = std::chrono::microseconds(20), kLongestSleep = std::chrono::microseconds(500);
constexpr auto kWatched = std::chrono::milliseconds(20);
// Pieces of staging that a read has under way.
constexpr size_t kBatchesAhead = 3;
// To ask whether a point is reached takes as long as to mark it: runs do so once for so many points.
constexpr size_t kPointsAtOnce = 4;

}  // namespace

absl::StatusOr<CudaStream*> CudaStream::make(Gpu& gpu, Staging& staging) {
  StreamHandle handle = nullptr;
  const absl::Status status =
      gpu.call("making a stream", gpu.driver().create_stream, &handle, kStreamNonBlocking);
  if (!status.ok()) return status;
  return new CudaStream(gpu, staging, handle);
}

Point CudaStream::mark() {
  std::lock_guard lock(mutex_);
  return mark_locked();
}

Point CudaStream::mark_with_theirs() {
  has_work_.store(true);
  return mark();
}

absl::StatusOr<Point> CudaStream::mark_theirs() {
  std::lock_guard lock(mutex_);
  if (absl::Status s = record_locked(); !s.ok()) return s;
  return Point{this, marked_};
}

absl::StatusOr<EventHandle> CudaStream::take_event_locked() {
  if (spare_.empty() && pending_.size() >= 2 * kPointsAtOnce) poll_locked();
  EventHandle event = nullptr;
  if (spare_.empty()) {
    const absl::Status status =
        gpu_.call("making an event", gpu_.driver().create_event, &event, kEventWithoutTime);
    if (!status.ok()) return status;
    return event;
  }
  event = spare_.back();
  spare_.pop_back();
  return event;
}

absl::Status CudaStream::record_locked() {
  const absl::StatusOr<EventHandle> event = take_event_locked();
  if (!event.ok()) return event.status();
  const absl::Status status = gpu_.call("recording an event", gpu_.driver().record, *event, handle_);
  if (status.ok())
    pending_.push_back({++marked_, *event});
  else
    spare_.push_back(*event);
  return status;
}

Point CudaStream::mark_locked() {
  // What another thread enqueues from here on may be part of this point; it is of the next one in any case.
  if (!has_work_.exchange(false) && marked_ > 0) return {this, marked_};
  if (record_locked().ok()) return {this, marked_};
  // No memory for an event: the point is passed on the host.
  ++marked_;
  if (const absl::Status drained = drain(); !drained.ok()) gpu_.lose(std::string(drained.message()));
  reached_.store(gpu_.is_lost() ? reached_.load() : marked_, std::memory_order_release);
  for (const Pending& p : pending_) spare_.push_back(p.event);
  pending_.clear();
  return {this, marked_};
}

bool CudaStream::happened_locked(size_t n) {
  const Result result = gpu_.ask(gpu_.driver().query, pending_[n].event);
  if (result == Result::kNotReady || !gpu_.check(result, "waiting for what was enqueued").ok()) return false;
  reached_.store(pending_[n].value, std::memory_order_release);
  for (size_t i = 0; i <= n; ++i) spare_.push_back(pending_[i].event);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(n) + 1);
  return true;
}

void CudaStream::poll_locked() {
  while (!pending_.empty() && happened_locked(0)) {
  }
}

bool CudaStream::reached(uint64_t value) {
  if (value <= reached_.load(std::memory_order_acquire) || gpu_.is_lost()) return true;
  std::lock_guard lock(mutex_);
  poll_locked();
  return value <= reached_.load(std::memory_order_relaxed) || gpu_.is_lost();
}

absl::Status CudaStream::wait(uint64_t value, StepWatcher* watcher) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point watched = begin;
  while (!reached(value)) {
    const Clock::time_point now = Clock::now();
    if (watcher && now - watched >= kWatched) {
      watched = now;
      if (watcher->between_steps()) return absl::CancelledError("the wait was cancelled");
    }
    // Sleeps are a small part of what has been waited for already.
    if (now - begin > kSpin)
      std::this_thread::sleep_for(
          std::clamp<Clock::duration>((now - begin) / 16, kShortestSleep, kLongestSleep));
  }
  release_kept();
  return value <= reached_.load(std::memory_order_acquire) ? absl::OkStatus() : gpu_.health();
}

absl::Status CudaStream::after(Point earlier) {
  if (absl::Status s = gpu_.health(); !s.ok()) return s;
  if (!earlier || earlier.stream == this) return absl::OkStatus();
  return static_cast<CudaStream&>(*earlier.stream).order_before(*this, earlier.value);
}

const CudaStream::Pending* CudaStream::pending_locked(uint64_t value) {
  poll_locked();
  if (value <= reached_.load(std::memory_order_relaxed) || gpu_.is_lost()) return nullptr;
  const auto first =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.value >= value; });
  return first == pending_.end() ? nullptr : &*first;
}

absl::Status CudaStream::order_before(CudaStream& other, uint64_t value) {
  if (value <= reached_.load(std::memory_order_acquire)) return absl::OkStatus();
  // The event is not recorded anew meanwhile.
  std::lock_guard lock(mutex_);
  auto waiting =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& w) { return w.first == &other; });
  if (waiting == waiting_.end()) waiting = waiting_.insert(waiting_.end(), {&other, 0});
  if (value <= waiting->second) return gpu_.health();
  // Nobody else may ask for long, and then each run would wait for it again.
  const Pending* const first = pending_locked(value);
  if (!first) return gpu_.health();
  const absl::Status status = other.enqueued(other.gpu_.call(
      "waiting for another stream", gpu_.driver().stream_waits, other.handle_, first->event, 0U));
  if (status.ok()) waiting->second = first->value;
  return status;
}

absl::Status CudaStream::order_before_theirs(StreamHandle theirs, uint64_t value) {
  std::lock_guard lock(mutex_);
  const Pending* const first = pending_locked(value);
  if (!first) return gpu_.health();
  return gpu_.call("having a stream of others wait", gpu_.driver().stream_waits, theirs, first->event, 0U);
}

absl::Status CudaStream::order_after_theirs(StreamHandle theirs) {
  std::lock_guard lock(mutex_);
  const absl::StatusOr<EventHandle> event = take_event_locked();
  if (!event.ok()) return event.status();
  const Result recorded = gpu_.ask(gpu_.driver().record, *event, theirs);
  absl::Status status = recorded == Result::kInvalidHandle
                            ? absl::InvalidArgumentError("the stream is none of " + gpu_.name())
                            : gpu_.check(recorded, "recording an event");
  if (status.ok())
    status = enqueued(
        gpu_.call("waiting for a stream of others", gpu_.driver().stream_waits, handle_, *event, 0U));
  spare_.push_back(*event);  // what waits has seen it
  return status;
}

void CudaStream::keep(std::shared_ptr<const void> what) {
  {
    std::lock_guard lock(mutex_);
    const uint64_t until = mark_locked().value;
    // Run after run it is the same program.
    if (!kept_.empty() && kept_.back().second == what)
      kept_.back().first = until;
    else
      kept_.emplace_back(until, std::move(what));
  }
  release_kept();
}

void CudaStream::release_kept() {
  std::vector<std::shared_ptr<const void>> free;  // their ends may take any lock
  std::lock_guard lock(mutex_);
  // What nobody else holds ends as soon as it may; and runs without work mark nothing that would be asked
  // for.
  if ((!kept_.empty() && kept_.front().second.use_count() == 1) ||
      kept_.size() > pending_.size() + 2 * kPointsAtOnce)
    poll_locked();
  else if (pending_.size() >= 2 * kPointsAtOnce)
    happened_locked(kPointsAtOnce - 1);
  while (!kept_.empty() &&
         (kept_.front().first <= reached_.load(std::memory_order_relaxed) || gpu_.is_lost())) {
    free.push_back(std::move(kept_.front().second));
    kept_.pop_front();
  }
}

absl::Status CudaStream::copy(Address to, Address from, int64_t bytes) {
  if (bytes == 0) return gpu_.health();
  return enqueue("copying", gpu_.driver().copy_here, to.bits(), from.bits(), static_cast<size_t>(bytes));
}

absl::Status CudaStream::copy_from(const Gpu& other, Address from, Address to, int64_t bytes) {
  if (bytes == 0) return gpu_.health();
  return enqueue("copying from another device", gpu_.driver().copy_across, to.bits(), gpu_.context(),
                 from.bits(), other.context(), static_cast<size_t>(bytes));
}

absl::Status CudaStream::write(Address to, const void* from, int64_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    absl::StatusOr<Staging::Piece> piece = staging_.take(gpu_, bytes);
    if (!piece.ok()) return piece.status();
    const int64_t part = std::min(bytes, piece->bytes);
    std::memcpy(piece->at, source, static_cast<size_t>(part));
    const absl::Status status = enqueue("copying to the device", gpu_.driver().copy_in, to.bits(),
                                        static_cast<const void*>(piece->at), static_cast<size_t>(part));
    staging_.give_back(*piece, mark());
    if (!status.ok()) return status;
    to = to + part;
    source += part;
    bytes -= part;
  }
  return gpu_.health();
}

absl::Status CudaStream::read(Address from, int64_t bytes, void* to) {
  const Part all{from, bytes, to};
  return read_all({&all, 1}, nullptr);
}

// Parts that lie behind each other in one piece of staging.
struct CudaStream::Batch {
  Staging::Piece piece;
  Point until;
  std::vector<Part> parts;
};

absl::Status CudaStream::send(Batch& batch, std::span<const Part> parts) {
  int64_t bytes = 0;
  for (const Part& p : parts) bytes += p.bytes;
  absl::StatusOr<Staging::Piece> piece = staging_.take(gpu_, bytes);
  if (!piece.ok()) return piece.status();
  batch.piece = *piece;
  batch.parts.assign(parts.begin(), parts.end());
  absl::Status status;
  std::byte* to = piece->at;
  for (const Part& p : parts) {
    if (status.ok())
      status = enqueue("copying from the device", gpu_.driver().copy_out, static_cast<void*>(to),
                       p.from.bits(), static_cast<size_t>(p.bytes));
    to += p.bytes;
  }
  batch.until = mark();
  return status;
}

absl::Status CudaStream::finish(Batch& batch, StepWatcher* watcher) {
  absl::Status status = wait(batch.until.value, watcher);
  const std::byte* from = batch.piece.at;
  for (const Part& p : batch.parts) {
    if (status.ok()) std::memcpy(p.to, from, static_cast<size_t>(p.bytes));
    from += p.bytes;
  }
  staging_.give_back(batch.piece, status.ok() ? Point() : batch.until);
  return status;
}

absl::Status CudaStream::read_all(std::span<const Part> parts, StepWatcher* watcher) {
  absl::Status status = gpu_.health();
  std::deque<Batch> sent;
  std::vector<Part> next;
  int64_t bytes = 0;
  const auto send_next = [&] {
    if (next.empty()) return;
    if (sent.size() == kBatchesAhead) {
      if (absl::Status s = finish(sent.front(), watcher); status.ok()) status = s;
      sent.pop_front();
    }
    if (status.ok()) {
      sent.emplace_back();
      status = send(sent.back(), next);
      if (!sent.back().piece.at) sent.pop_back();
    }
    next.clear();
    bytes = 0;
  };
  for (Part part : parts)
    while (part.bytes > 0 && status.ok()) {
      const int64_t now = std::min(part.bytes, Staging::kLarge - bytes);
      next.push_back({part.from, now, part.to});
      part = {part.from + now, part.bytes - now, static_cast<std::byte*>(part.to) + now};
      if ((bytes += now) == Staging::kLarge) send_next();
    }
  send_next();
  for (Batch& batch : sent)
    if (absl::Status s = finish(batch, watcher); status.ok()) status = s;
  return status;
}

absl::Status CudaStream::launch(FunctionHandle function, unsigned blocks, unsigned threads,
                                std::span<void*> parameters) {
  return enqueued(gpu_.call("launching a kernel", gpu_.driver().launch, function, blocks, 1U, 1U, threads, 1U,
                            1U, 0U, handle_, parameters.data(), static_cast<void**>(nullptr)));
}

absl::StatusOr<StreamHandle> CudaStream::take_capture_stream() {
  {
    std::lock_guard lock(mutex_);
    if (!for_capture_.empty()) {
      const StreamHandle stream = for_capture_.back();
      for_capture_.pop_back();
      return stream;
    }
  }
  StreamHandle made = nullptr;
  const absl::Status status =
      gpu_.call("making a stream", gpu_.driver().create_stream, &made, kStreamNonBlocking);
  if (!status.ok()) return status;
  return made;
}

void CudaStream::give_back_capture_stream(StreamHandle stream) {
  std::lock_guard lock(mutex_);
  for_capture_.push_back(stream);
}

}  // namespace lamina::jit::cuda
