// XLA's text -> the tree of hlo/stablehlo/tree.h: one function for each computation.
//
// Contract: any input gives a tree or an error that starts with line:column. Types nest to a limit;
// everything else is read without recursion and in time linear in the text.
#ifndef LAMINA_HLO_XLA_TEXT_PARSER_H_
#define LAMINA_HLO_XLA_TEXT_PARSER_H_

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/stablehlo/text_parser.h"
#include "hlo/xla_text/instruction.h"

namespace lamina::hlo::xla_text {

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) { module_.text = text; }

  // The module, and which function is the entry.
  absl::Status run(stablehlo::ModuleTree* module, std::string* entry);

 private:
  // One computation while it is read.
  struct Body {
    stablehlo::FunctionTree function;
    HashMap<std::string_view, const Shape*> shapes;  // of instructions so far
    std::deque<Shape> owned;
    std::vector<std::pair<int64_t, stablehlo::BlockArgument>> parameters;
    std::string_view root, last;
    Place root_at = 0;
  };

  absl::Status header();
  absl::Status table(std::string_view name);
  absl::Status computation();
  absl::Status instruction(Body& body);
  absl::Status operands(Body& body, Instruction* out);
  absl::Status attributes(std::vector<RawAttribute>* out);
  absl::Status raw_value(std::string_view* out);
  absl::Status parameter(const Instruction& in, Body& body);
  absl::Status constant(const Instruction& in, Body& body);
  absl::Status constant_leaves(const Instruction& in, const TypeTree& type, Cursor& at,
                               std::vector<OpTree>* ops, std::vector<stablehlo::OperandTree>* leaves) const;
  absl::Status finish(Body body, bool is_entry);
  LocationId place_of(const Instruction& in) const;

  absl::Status shape(Shape* out);
  absl::Status array(Shape* out);
  absl::Status layout(Shape* out);
  absl::Status name(std::string_view what, std::string_view* out);

  Cursor in_;
  stablehlo::ModuleTree module_;
  std::string entry_;
  int depth_ = 0;

  // Tables in front of the computations, by number: where instructions come from.
  struct FileLocation {
    int64_t file = 0, function = 0, line = 0;
  };
  HashMap<int64_t, std::string> files_, functions_;
  HashMap<int64_t, FileLocation> locations_;
  HashMap<int64_t, int64_t> frames_;  // stack frame -> location
};

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_PARSER_H_
