// One instruction of XLA's text between parsing and translation, and the table of opcodes.
#ifndef LAMINA_HLO_XLA_TEXT_INSTRUCTION_H_
#define LAMINA_HLO_XLA_TEXT_INSTRUCTION_H_

#include <span>
#include <string_view>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::xla_text {

using stablehlo::AttrTree;
using stablehlo::Cursor;
using stablehlo::OpTree;
using stablehlo::Place;
using stablehlo::TypeTree;

// A declared type; of arrays the order of dimensions in memory, fastest first (empty: row-major).
struct Shape {
  TypeTree type;
  Dims minor_to_major;
};

// key=value, the value as it stands in the text.
struct RawAttribute {
  std::string_view key, value;
  Place at = 0;  // of the value
};

// A window={...} attribute; lists are empty where it says nothing.
struct Window {
  Dims size, stride, padding, lhs_dilate, rhs_dilate, reversal;
};

struct Instruction {
  std::string_view text;  // of the module
  std::string_view name, opcode;
  Place at = 0;  // of the name
  Place opcode_at = 0;
  Shape shape;
  std::vector<stablehlo::OperandTree> operands;
  std::vector<const Shape*> operand_shapes;  // null: not defined before
  std::string_view argument;                 // between the brackets of parameter() and constant()
  Place argument_at = 0;
  std::vector<RawAttribute> attributes;

  absl::Status error(std::string_view message) const;
  absl::Status unsupported(std::string_view message) const;
  absl::Status error_at(Place at, std::string_view message) const;

  const RawAttribute* find(std::string_view key) const;
  // {1,2}; also {{0,1},{2,3}} flattened.
  absl::Status ints(const RawAttribute& a, Dims* out) const;
  absl::Status integer(const RawAttribute& a, int64_t* out) const;
  absl::Status flag(const RawAttribute& a, bool* out) const;
  absl::Status word(const RawAttribute& a, std::string_view* out) const;
  absl::Status string(const RawAttribute& a, std::string* out) const;
  // %name or name, or {%a, %b}.
  absl::Status computations(const RawAttribute& a, std::vector<std::string_view>* out) const;
  absl::Status window(const RawAttribute& a, Window* out) const;

  // A name that no instruction has and that belongs to this one: the text of its own name and `n` characters
  // behind it, of which the first cannot stand in a name.
  std::string_view helper_name(size_t n) const {
    return text.substr(name.data() - text.data(), name.size() + n);
  }
};

// Operations that stand for one instruction, the last of which has its name.
using Ops = std::vector<OpTree>;

// The row of an opcode: the operation that means the same, and how its attributes are called there.
struct Row {
  enum class Kind : uint8_t { kInts, kInt, kFlag, kWord, kReal, kRegion };
  struct Attribute {
    std::string_view from, to;
    Kind kind;
  };
  // Adds to out->back() what the attribute list does not say, and operations in front where more than one is
  // needed.
  using Translate = absl::Status (*)(const Instruction& in, Ops* out);

  std::string_view opcode;
  std::string_view op = {};  // with its dialect
  std::vector<Attribute> attributes = {};
  Translate translate = nullptr;
  std::vector<std::string_view> others = {};  // attributes that `translate` reads
  stablehlo::OpRow row = nullptr;             // of operations that StableHLO does not have
  int element = -1;                           // of the declared tuple, which alone has a meaning here
  std::string_view refused = {};              // why no program of one process can have it
};
// Null if there is none.
const Row* find_row(std::string_view opcode);

// Translates an instruction whose operands are known.
absl::Status translate(const Instruction& in, Ops* out);

// What the rows of the table name: operations without a counterpart (op_rows.cc).
namespace op_rows {
void pass_through(stablehlo::OpReader& r);
void first(stablehlo::OpReader& r);
void get_tuple_element(stablehlo::OpReader& r);
void inlined(stablehlo::OpReader& r);
void conditional(stablehlo::OpReader& r);
void custom_call(stablehlo::OpReader& r);
}  // namespace op_rows

// padding=0_1x2_3_1 of pad: low, high and interior of each dimension.
absl::Status read_padding(const Instruction& in, const RawAttribute& a, Dims* out);
// Attributes built from parts.
AttrTree ints_attribute(std::span<const int64_t> values, Place at);
AttrTree word_attribute(std::string_view word, Place at);

// The constant in the brackets of constant(...), of a type that is an array.
absl::StatusOr<LiteralPtr> read_literal(std::string_view text, Place begin, Place end, const Type* type);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_INSTRUCTION_H_
