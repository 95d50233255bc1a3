// Profiles by line of the user's program.
//
// Contract: a profile is begun and ended by one thread, whose time is divided among rows: each nanosecond is
// in one row, or outside of the library. What other threads did meanwhile stands beside. A step's time is
// divided among the lines whose operations it does by their part of its work (jit/program/step_costs.h).
// Profiles may nest, overlap, and go on in several threads at once.
#ifndef LAMINA_LAZY_PROFILED_LINES_H_
#define LAMINA_LAZY_PROFILED_LINES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hlo/hash_map.h"
#include "jit/client/profile.h"
#include "jit/cpu/machine_limits.h"
#include "jit/program/specialization_cache.h"
#include "jit/program/step_costs.h"

namespace lamina::lazy {

// A program made for one recording serves all equal ones: the map from the lines of `entry` to those of the
// graph above arrays that are there, up to `roots`; the number that Profiler::add_lines gave it, 0 where they
// are the same. Under the graph lock.
uint32_t lines_of_run(const jit::Specialization& entry, std::span<const hlo::Value> roots);

struct ProfiledLine {
  std::string file;  // empty: not known
  int line = 0;
  // Nanoseconds of the profile's thread by what it did; a device's own steps are under kDeviceStep.
  std::array<double, jit::kNumDoings> ns{};
  double elsewhere_ns = 0;  // of other threads
  int64_t calls = 0;        // of the library, by this line
  int64_t runs = 0;         // of steps that do some of its operations
  jit::Cost cost;
  double limit_ns = 0;  // that the cost takes at the machine's limits at least
};

struct ProfiledStep {
  std::string what, device;
  std::vector<std::pair<std::string, int>> lines;  // file and line, the greatest share first
  int64_t runs = 0;
  double ns = 0;   // of all threads
  jit::Cost cost;  // of all runs
  double limit_ns = 0;
};

struct ProfileReport {
  double wall_ns = 0;
  double outside_ns = 0;            // outside the library
  std::vector<ProfiledLine> lines;  // longest first
  std::vector<ProfiledStep> steps;  // longest first
  jit::MachineLimits limits;
  // For its trace.
  int64_t began = 0, ended = 0;
  uint32_t thread = 0;
  std::vector<jit::Profiler::Span> spans;
  int64_t spans_dropped = 0;
  HashMap<jit::Activity, size_t> step_of;
};

// Chrome's trace events as JSON, which Perfetto reads: a track per thread.
std::string trace_json(const ProfileReport& report);

class Profile {
 public:
  // `locate` as Profiler::start.
  explicit Profile(jit::Profiler::Locate locate);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  // Ends it; on the thread that began it. Once.
  ProfileReport end();

 private:
  jit::Profiler::Snapshot began_;
  bool ended_ = false;
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_PROFILED_LINES_H_
