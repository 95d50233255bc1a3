// A program text as a tree: operations, operands, attributes, types, regions, nothing resolved. StableHLO
// text is read into it, and XLA's HLO text (hlo/xla_text/), whose instructions become the operations of the
// same meaning.
//
// Contract: views point into the text, which outlives the tree. A type whose element type we do not have is
// kept with the reason, so that only its use is an error.
#ifndef LAMINA_HLO_STABLEHLO_TREE_H_
#define LAMINA_HLO_STABLEHLO_TREE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/literal.h"
#include "hlo/location.h"
#include "hlo/type.h"

namespace lamina::hlo::stablehlo {

using Place = size_t;  // offset in the text

inline constexpr int kMaxLevels = 128;   // calls and regions within each other, read or written
inline constexpr int64_t kDynamic = -1;  // a dimension written ?

// Integers that stand for numbers: i for (i - zero_point) * scale, within [min, max].
struct Quantization {
  DType storage = DType::kS8, expressed = DType::kF32;
  int64_t min = 0, max = 0;
  int64_t dimension = -1;  // along which each index has its own scale; -1: one for all
  std::vector<double> scales;
  std::vector<int64_t> zero_points;

  bool is_per_axis() const { return dimension >= 0; }
  bool operator==(const Quantization&) const = default;
};

struct TypeTree {
  enum class Kind : uint8_t { kArray, kTuple, kToken, kFunction, kOther };
  Kind kind = Kind::kOther;
  DType dtype = DType::kBool;
  Dims dims;
  std::shared_ptr<const Quantization> quantization;  // of quantized elements, whose storage is dtype
  std::vector<TypeTree> elements;                    // tuples
  std::vector<size_t> begins;  // of tuples in XLA's text: where the arrays of each element begin
  std::string why;             // kOther: why it cannot be the type of a value
  Place at = 0;

  bool is_array() const { return kind == Kind::kArray; }
};

// Arrays of a value of the type: a tuple's are its elements' one after the other, tokens have none.
inline size_t num_leaves(const TypeTree& t) {
  if (t.kind == TypeTree::Kind::kToken) return 0;
  if (t.kind != TypeTree::Kind::kTuple) return 1;
  size_t n = 0;
  for (const TypeTree& e : t.elements) n += num_leaves(e);
  return n;
}

struct Field;

struct AttrTree {
  enum class Kind : uint8_t {
    kUnit,
    kBool,
    kInt,
    kFloat,
    kString,
    kType,
    kList,      // [a, b], array<i64: 1, 2>
    kDict,      // {a = b}
    kDense,     // dense<body> : type
    kResource,  // dense_resource<name> : type
    kSymbol,    // @name
    kWord,      // LT, DEFAULT, e8m7
    kDialect,   // #name<body>
    kJoined,    // [..] x [..] and [..]x[..]->[..]
    kLiteral,   // a constant that is read already
  };
  Kind kind = Kind::kUnit;
  bool flag = false;
  int64_t integer = 0;
  std::string text;       // strings, symbols and words; the name of a dialect attribute
  std::string_view body;  // between the brackets of dense<> and #name<>
  std::vector<AttrTree> items;
  std::vector<Field> fields;
  TypeTree type;
  LiteralPtr literal;
  Place at = 0;
};

struct Field {
  std::string name;  // empty: given by position
  AttrTree value;
};

struct OperandTree {
  std::string_view name;
  uint32_t index = 0;  // of %name#index
  Place at = 0;
};

struct ResultTree {
  std::string_view name;
  uint32_t count = 1;  // of %name:count
  Place at = 0;
};

struct OpTree;
class OpReader;

struct BlockArgument {
  std::string_view name;
  TypeTree type;
  Place at = 0;
};

struct RegionTree {
  std::string_view function;  // if not empty: the region is that function of the module
  std::vector<BlockArgument> arguments;
  std::vector<OpTree> ops;
  Place at = 0;
};

struct OpTree {
  std::string name;
  std::vector<ResultTree> results;
  std::vector<OperandTree> operands;
  std::vector<Field> attrs;
  std::vector<RegionTree> regions;
  // After the colon: (types) -> result_types, or types alone.
  std::vector<TypeTree> types, result_types;
  bool functional = false;
  std::string_view location;  // between the brackets of loc()
  LocationId place = 0;       // where that is known already
  // The results are the elements of one tuple, which the only name stands for; its type is types[0].
  bool tupled = false;
  void (*row)(OpReader&) = nullptr;  // of an operation that StableHLO does not have
  std::string_view spelled;          // in messages, if not `name`
  Place at = 0;

  std::string_view shown() const { return spelled.empty() ? std::string_view(name) : spelled; }

  const AttrTree* find(std::string_view key) const {
    for (const Field& f : attrs)
      if (f.name == key) return &f.value;
    return nullptr;
  }
};

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_TREE_H_
