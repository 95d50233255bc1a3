// StableHLO programs as computations.
//
// Contract: any text gives a computation or an error that starts with line:column and names the operation;
// never a crash, and time and memory are linear in the text. Shapes written ? are taken from the arguments'
// types; operands that give shapes must follow from constants and shapes. Tokens carry nothing, tuples are
// their elements one after the other, shardings are dropped (one process runs the whole program). Quantized
// arrays are their stored integers, in arguments and results too; operations on the numbers that these stand
// for become operations on integers and floats, as the specification's formulas say. The padding
// of reduce_window does not count, as in XLA, where the specification has it hold the initial value.
#ifndef LAMINA_HLO_STABLEHLO_READER_H_
#define LAMINA_HLO_STABLEHLO_READER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo::stablehlo {

struct ModuleTree;

// A claim of the check dialect about results [first, first + 2) of the computation: value and expectation.
struct Check {
  enum class Kind : uint8_t {
    kEqual,        // bit for bit, but -0 equals 0 and NaN equals NaN
    kAlmostEqual,  // |x - y| <= tolerance, NaN equals NaN
    kClose,        // at most max_ulps representable numbers apart
  };
  Kind kind = Kind::kEqual;
  double tolerance = 1e-4;
  int64_t min_ulps = 0, max_ulps = 3;
  size_t first = 0;
  std::string where;  // line:column: operation
};

struct Program {
  ComputationPtr computation;
  size_t num_results = 0;  // the roots behind them belong to checks
  std::vector<Check> checks;
};

class Module {
 public:
  // Keeps a copy of `text`.
  static absl::StatusOr<Module> parse(std::string text);

  struct Function {
    std::string name;
    bool is_public;
    size_t num_arguments;
    struct Array {
      DType dtype;
      Dims dims;  // -1: written ?
    };
    std::vector<Array> arguments;  // the arrays of all arguments one after the other
  };
  // A module in another notation: its tree, whose places point into `text`, and the name of its entry.
  static Module of(std::shared_ptr<const std::string> text, ModuleTree tree, std::string entry);

  const std::vector<Function>& functions() const { return functions_; }
  // "main", or the only public function, or the only function; NotFound otherwise.
  absl::StatusOr<std::string> entry() const;
  // The function on arguments of these types; without types, of those it declares.
  absl::StatusOr<Program> program(std::string_view function) const;
  absl::StatusOr<Program> program(std::string_view function, std::span<const Type* const> arguments) const;

 private:
  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const ModuleTree> tree_;
  std::vector<Function> functions_;
  std::string entry_;  // empty: by the rules of entry()
};

// Whether the text looks like StableHLO rather than our own form.
bool looks_like_stablehlo(std::string_view text);

// Compares as the check says; the message tells the first element that differs.
absl::Status judge(const Check& check, const Literal& value, const Literal& expected);

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_READER_H_
