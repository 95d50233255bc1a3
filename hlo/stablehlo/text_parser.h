// StableHLO text -> tree (hlo/stablehlo/tree.h): the pretty form, the generic form, and any mixture.
//
// Contract: any input gives a tree or an error that starts with line:column. Nesting of regions, attributes
// and types is limited, everything else is linear in the text.
#ifndef LAMINA_HLO_STABLEHLO_TEXT_PARSER_H_
#define LAMINA_HLO_STABLEHLO_TEXT_PARSER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/hash_map.h"
#include "hlo/stablehlo/cursor.h"
#include "hlo/stablehlo/tree.h"

namespace lamina::hlo::stablehlo {

inline constexpr int kMaxNesting = 96;

struct FunctionTree {
  std::string name;
  bool is_public = true;
  bool has_body = false;
  RegionTree body;
  std::vector<TypeTree> results;
  Place at = 0;
};

struct ModuleTree {
  std::string_view text;
  std::vector<FunctionTree> functions;
  HashMap<std::string_view, std::string_view> locations;  // alias, without #, -> inside of loc()
  HashMap<std::string, std::string> resources;            // name -> hexadecimal digits
};

// The element type that the text calls so.
std::optional<DType> element_named(std::string_view name);

class TextParser {
 public:
  explicit TextParser(std::string_view text) : in_(text) { module_.text = text; }
  // Reads `part`, a piece of `text`, with places in `text`.
  TextParser(std::string_view text, std::string_view part)
      : in_(text, part.data() - text.data(), part.data() - text.data() + part.size()) {
    module_.text = text;
  }
  absl::StatusOr<ModuleTree> run();

  // One attribute; `typed`: a number or dense value may be followed by ": type".
  absl::Status attribute(AttrTree* out, bool typed);
  absl::Status type(TypeTree* out);
  // `key = value` pairs up to the end of the text, as in the body of #stablehlo.gather<...>.
  absl::Status fields_to_end(std::vector<Field>* out);
  Cursor& cursor() { return in_; }

 private:
  class Deeper;  // one level of nesting, while it lives

  absl::Status alias();
  absl::Status module_body(char close);
  absl::Status function();
  absl::Status generic_function(OpTree op);
  absl::Status resources();

  absl::Status op(OpTree* out);
  absl::Status generic_op(OpTree* out);
  absl::Status pretty_op(OpTree* out);
  absl::Status loose(OpTree* out, char close);
  absl::Status loose_item(OpTree* out);
  absl::Status reduce_op(OpTree* out);
  absl::Status while_op(OpTree* out);
  absl::Status slice_ranges(OpTree* out);
  absl::Status signature(OpTree* out);
  absl::Status operand(OperandTree* out);
  absl::Status operands(std::vector<OperandTree>* out);
  absl::Status region(RegionTree* out);
  absl::Status block_argument(BlockArgument* out);
  absl::Status block_arguments(std::vector<BlockArgument>* out);
  absl::Status location(std::string_view* out);
  absl::Status skip_location();

  absl::Status dictionary(std::vector<Field>* out);
  absl::Status field(std::vector<Field>* out);
  absl::Status list(AttrTree* out);
  absl::Status number(AttrTree* out);
  absl::Status typed_array(AttrTree* out);
  absl::Status joined(AttrTree* out);
  absl::Status optional_type(TypeTree* out, bool typed);
  absl::Status tensor(TypeTree* out);
  absl::Status element_type(TypeTree* out);
  absl::Status quantized_type(TypeTree* out);
  absl::Status quantized_storage(Quantization* out);
  absl::Status quantized_parameter(Quantization* out);
  absl::Status check_quantized_dimension(const TypeTree& array, Place at);
  absl::Status type_list(std::vector<TypeTree>* out);  // (a, b)

  Cursor in_;
  ModuleTree module_;
  HashMap<std::string_view, AttrTree> attributes_;
  HashMap<std::string_view, TypeTree> types_;
  int depth_ = 0;
};

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_TEXT_PARSER_H_
