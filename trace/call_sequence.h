// Functions that call each other, cut into what lies between their calls.
//
// Contract: a recursive call is a `custom_call` of its own target, (arguments..., error, captured values...)
// -> (results..., error), with the number of the function it calls. A function takes (arguments..., captured
// values...) and gives (results..., error); calls of itself may leave out its captured values, which are then
// the caller's. The error is a number: 0, or which of the program's errors has come; a caller goes on only
// after 0. A `Segment` runs from an entry, a return, or a place that jumps lead to, until it calls, returns
// or jumps. Branches and loops that hold calls become jumps, others stay what they are.
#ifndef LAMINA_TRACE_CALL_SEQUENCE_H_
#define LAMINA_TRACE_CALL_SEQUENCE_H_

#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "hlo/hash_map.h"
#include "trace/rules/support.h"

namespace lamina::trace {

inline constexpr std::string_view kRecursiveCall = "recursive_call";
bool is_recursive_call(const Node& node);
// `operands` are arguments, error and captured values; `types` those of the results without the error.
Values recursive_call(Builder& b, int64_t function, std::span<const Value> operands,
                      std::span<const Type* const> types);

struct RecursiveFunction {
  int64_t number;  // by which calls name it
  ComputationPtr body;
  size_t arguments;
};

// Numbered places for values of types: the k-th value of a type lies in the k-th place for it.
class Slots {
 public:
  std::vector<size_t> of(std::span<const Type* const> types);
  const std::vector<const Type*>& types() const { return types_; }

 private:
  std::vector<const Type*> types_;
};

class CallSequence {
 public:
  // The first function is the one that is called from outside.
  static absl::StatusOr<CallSequence> of(std::span<const RecursiveFunction> functions);

  // What the machine that runs the segments holds: registers hand values to the next segment, a frame those
  // that a call leaves for after its return. Parameters of the first function that no call changes are fixed.
  const std::vector<const Type*>& registers() const { return registers_.types(); }
  const std::vector<const Type*>& frame() const { return frame_.types(); }
  const std::vector<size_t>& fixed() const { return fixed_; }
  // Registers of the first function's parameters that are not fixed, in their order, and of its results.
  std::vector<size_t> parameters() const { return points_[0].in_registers; }
  std::vector<size_t> results() const { return function_results_[0]; }

  size_t num_segments() const { return points_.size(); }
  // Results: how the number of frames changes (s64), the segment after it (of a call: where to go on, then
  // `frame` is left), the segment after the return of a call, the error; registers, frame. Segment 0 is the
  // first function's entry.
  static constexpr size_t kFrames = 0, kNext = 1, kReturn = 2, kError = 3, kRegisters = 4;
  Values record(Builder& b, size_t segment, std::span<const Value> registers, std::span<const Value> frame,
                std::span<const Value> fixed) const;

 private:
  enum class Kind : uint8_t { kEntry, kReturned, kJoin, kLoop };
  // `next` is the number of the node to run; outside the innermost level the one before it is being run.
  struct Level {
    const Computation* c;
    size_t next;
    bool operator<(const Level& o) const { return std::pair(c, next) < std::pair(o.c, o.next); }
  };
  using Path = std::vector<Level>;
  // A value of one level of a path.
  struct Id {
    size_t level;
    Operand o;
    bool operator<(const Id& o2) const {
      return std::pair(level, o.bits()) < std::pair(o2.level, o2.o.bits());
    }
  };
  using Known = std::map<Id, Value>;
  struct Point {
    Kind kind;
    size_t function;
    Path path;
    std::vector<Id> given, kept;  // in registers, and in the frame
    std::vector<size_t> in_registers, in_frame;
  };
  struct Info {
    HashMap<const Node*, size_t> position;
    HashMap<const Node*, size_t> parameter;
  };
  class Emitter;

  static const Node& node_before(const Level& level) { return *level.c->nodes()[level.next - 1]; }
  static const Node& node_before_of(const Path& path);
  const Info& info(const Computation* c) const { return infos_.find(c)->second; }
  void learn(const Computation& c);

  size_t function_of(const Node& call) const;
  size_t point(Kind kind, size_t function, const Path& path);
  size_t find_point(Kind kind, size_t function, const Path& path) const;
  void explore(size_t function, Path path);
  // Whether what follows the branch that ended is a segment of its own.
  static bool joins_by_jump(const Path& path);
  void find_fixed();
  void place();

  Id canonical(const Path& path, Id id) const;
  // Parameter k of the function that a call calls, as the caller gives it.
  Id argument(const Path& path, const Node& call, size_t k) const;
  // Whether every segment has it without being handed it.
  bool is_free(size_t function, const Id& id) const;
  std::vector<Id> live(size_t function, const Path& path, Kind kind) const;
  const Type* type_of(const Id& id) const { return id.o.node()->result_type(id.o.index()); }
  std::vector<const Type*> result_types(size_t function) const;

  std::vector<RecursiveFunction> functions_;
  std::map<const Computation*, Info> infos_;
  std::vector<Point> points_;
  std::map<std::tuple<Kind, size_t, Path>, size_t> numbers_;
  std::map<std::pair<size_t, Path>, bool> explored_;
  // Per function and parameter, the parameter of the first function that it always is; kChanges: none.
  std::vector<std::vector<int64_t>> always_;
  std::vector<size_t> fixed_;
  std::vector<std::vector<size_t>> function_results_;
  Slots registers_, frame_;
};

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_CALL_SEQUENCE_H_
