#include "jit/client/profile.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>

#include "hlo/once.h"

namespace lamina::jit {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

thread_local constinit Profiler::Track* Profiler::track_ = nullptr;
thread_local constinit uint64_t Profiler::track_generation_ = 0;

Profiler& Profiler::get() {
  static constinit hlo::Once<Profiler> profiler;
  return profiler.get([] { return new Profiler; });
}

Profiler::Track* Profiler::here() {
  if (track_ && track_generation_ == generation_) return track_;
  Track& made = tracks_.emplace_back();
  made.thread = static_cast<uint32_t>(tracks_.size());
  made.generation = generation_;
  made.since = now_ns();
  try {
    made.open.push_back({{}, tally_of(made, {}), made.since, 0, nullptr});
  } catch (...) {
    tracks_.pop_back();
    throw;
  }
  track_ = &made;
  track_generation_ = generation_;
  return track_;
}

size_t Profiler::tally_of(Track& track, const Activity& activity) {
  if (const auto known = track.place.find(activity); known != track.place.end()) return known->second;
  track.tallies.reserve(track.tallies.size() + 1);
  const size_t at = track.tallies.size();
  track.place.try_emplace(activity, at);
  track.tallies.emplace_back(activity, Tally{});
  return at;
}

void Profiler::settle(Track& track, int64_t now) {
  track.tallies[track.open.back().tally].second.ns += now - track.since;
  track.since = now;
}

Profiler::Snapshot Profiler::start(Locate locate) {
  std::lock_guard lock(mutex_);
  Track& mine = *here();
  locate_ = locate;
  ++users_;
  on_.store(true, std::memory_order_relaxed);
  return snapshot_locked(mine);
}

Profiler::Snapshot Profiler::snapshot() {
  std::lock_guard lock(mutex_);
  return snapshot_locked(*here());
}

Profiler::Snapshot Profiler::snapshot_locked(Track& mine) {
  Snapshot out;
  out.at = now_ns();
  out.thread = mine.thread;
  HashMap<Activity, Tally> others;
  for (Track& t : tracks_) {
    settle(t, out.at);
    if (&t == &mine) continue;
    for (const auto& [activity, tally] : t.tallies) {
      if (activity.doing == Doing::kOutside) continue;
      Tally& sum = others[activity];
      sum.ns += tally.ns;
      sum.times += tally.times;
    }
  }
  out.here = mine.tallies;
  out.elsewhere.assign(others.begin(), others.end());
  out.spans = spans_.size();
  out.dropped = dropped_;
  return out;
}

void Profiler::finish() {
  std::deque<Track> tracks;
  std::vector<Span> spans;
  std::vector<std::shared_ptr<const void>> programs;  // end without the lock
  std::lock_guard lock(mutex_);
  if (--users_ > 0) return;
  on_.store(false, std::memory_order_relaxed);
  ++generation_;
  tracks_.swap(tracks);
  spans_.swap(spans);
  dropped_ = 0;
  program_numbers_.clear();
  programs_.swap(programs);
  lines_.clear();
}

std::vector<Profiler::Span> Profiler::spans(size_t begin, size_t end) const {
  std::lock_guard lock(mutex_);
  end = std::min(end, spans_.size());
  if (begin >= end) return {};
  return {spans_.begin() + static_cast<ptrdiff_t>(begin), spans_.begin() + static_cast<ptrdiff_t>(end)};
}

uint32_t Profiler::number_of(const std::shared_ptr<const void>& program) {
  std::lock_guard lock(mutex_);
  const auto [it, is_new] =
      program_numbers_.try_emplace(program.get(), static_cast<uint32_t>(programs_.size() + 1));
  if (is_new) programs_.push_back(program);
  return it->second;
}

std::shared_ptr<const void> Profiler::program(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return number == 0 || number > programs_.size() ? nullptr : programs_[number - 1];
}

uint32_t Profiler::add_lines(LineMap map) {
  std::lock_guard lock(mutex_);
  return lines_.try_emplace(std::move(map), static_cast<uint32_t>(lines_.size() + 1)).first->second;
}

LineMap Profiler::lines(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return number == 0 || number > lines_.size() ? LineMap{} : lines_.begin()[number - 1].first;
}

Activity Profiler::launched() {
  std::lock_guard lock(mutex_);
  const Activity& innermost = here()->open.back().activity;
  return innermost.doing == Doing::kLaunch ? innermost : Activity{};
}

bool Profiler::inside() {
  std::lock_guard lock(mutex_);
  return here()->open.back().activity.doing != Doing::kOutside;
}

Profiler::Begun Profiler::begin(Activity activity, hlo::LocationId caller, const void* tag) {
  // Before the lock: it asks the interpreter.
  hlo::LocationId asked = 0;
  if (caller == 0 && activity.doing != Doing::kOutside && !is_step(activity.doing) && !inside())
    if (const Locate locate = locate_.load(std::memory_order_relaxed)) asked = locate();
  std::lock_guard lock(mutex_);
  Track* const track = here();
  if (caller == 0) caller = asked ? asked : track->open.back().caller;
  if (is_step(activity.doing)) {
    if (activity.line == 0) activity.line = track->lines;
  } else if (activity.doing != Doing::kOutside) {
    activity.line = caller;
  }
  track->open.reserve(track->open.size() + 1);
  const size_t tally = tally_of(*track, activity);
  if (spans_.size() < kMaxSpans && spans_.size() == spans_.capacity())
    spans_.reserve(std::max<size_t>(1024, 2 * spans_.size()));
  const int64_t now = now_ns();
  settle(*track, now);
  ++track->tallies[tally].second.times;
  track->open.push_back({activity, tally, now, caller, tag});
  return {track, generation_, track->open.size()};
}

void Profiler::end(const Begun& begun) {
  std::lock_guard lock(mutex_);
  Track* const track = begun.track;
  if (begun.generation != generation_ || track->open.size() < begun.open) return;
  const int64_t now = now_ns();
  settle(*track, now);
  while (track->open.size() >= begun.open) {
    const Open& ended = track->open.back();
    // There is room, unless many spans are open.
    if (spans_.size() < std::min(kMaxSpans, spans_.capacity()))
      spans_.push_back({ended.activity, ended.begin, now, track->thread});
    else
      ++dropped_;
    track->open.pop_back();
  }
}

void Profiler::begin_tagged(Activity activity, const void* tag) {
  begin(activity, activity.doing == Doing::kCall ? activity.line : 0, tag);
}

void Profiler::end_tagged(const void* tag) {
  Begun begun{nullptr, 0, 0};
  {
    std::lock_guard lock(mutex_);
    begun = {here(), generation_, 0};
    for (size_t i = begun.track->open.size(); i-- > 1 && begun.open == 0;)
      if (begun.track->open[i].tag == tag) begun.open = i + 1;
  }
  if (begun.open > 0) end(begun);
}

void ProfiledSpan::begin(Activity activity, hlo::LocationId caller) {
  begun_ = Profiler::get().begin(activity, caller, nullptr);
}

void ProfiledSpan::end() { Profiler::get().end(begun_); }

void ProfiledLines::begin(uint32_t map) {
  Profiler& profiler = Profiler::get();
  std::lock_guard lock(profiler.mutex_);
  track_ = profiler.here();
  generation_ = track_->generation;
  before_ = std::exchange(track_->lines, map);
}

void ProfiledLines::end() {
  Profiler& profiler = Profiler::get();
  std::lock_guard lock(profiler.mutex_);
  if (generation_ == profiler.generation_) track_->lines = before_;
}

ProfiledThread::ProfiledThread() {
  if (!Profiler::on()) return;
  Profiler& profiler = Profiler::get();
  std::lock_guard lock(profiler.mutex_);
  lent_ = profiler.here();
  generation_ = lent_->generation;
  Profiler::track_ = nullptr;
}

ProfiledThread::~ProfiledThread() {
  if (!lent_) return;
  Profiler::track_ = lent_;
  Profiler::track_generation_ = generation_;
}

ProfiledThread::Worker::Worker(const ProfiledThread& from)
    : before_(Profiler::track_), generation_(Profiler::track_generation_) {
  if (!from.lent_) return;
  Profiler::track_ = from.lent_;
  Profiler::track_generation_ = from.generation_;
}

ProfiledThread::Worker::~Worker() {
  Profiler::track_ = before_;
  Profiler::track_generation_ = generation_;
}

}  // namespace lamina::jit
