#include "jit/kernel/sort_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "hlo/op.h"

namespace lamina::jit {
namespace {

using hlo::DType;
using hlo::Prim;
using hlo::ScalarProgram;

// Outcomes of comparing f(x) with f(y).
enum Outcome : uint8_t { kBelow, kEqual, kAbove, kLeftNan, kRightNan, kBothNan, kOutcomes };
constexpr int kMaxKeys = 4;

class Analysis {
 public:
  explicit Analysis(const hlo::Computation& comparator) {
    std::optional<ScalarProgram> program = hlo::region_program(comparator);
    if (!program) return;
    program_ = *std::move(program);
    for (size_t p = 0; p < comparator.parameters().size(); ++p)
      for (int part = 0; part < hlo::num_parts(comparator.parameters()[p].dtype()); ++part) {
        sides_.push_back(p % 2 == 0 ? kLeft : kRight);
        const int twin = static_cast<int>(p / 2);
        shapes_.push_back(shape_of({Prim::constant, DType::kBool, {}, 0, true, 2 * twin + part}));
        if (p % 2 == 0) {
          left_.push_back(static_cast<uint32_t>(sides_.size() - 1));
          left_types_.push_back(program_.inputs[sides_.size() - 1]);
        } else {
          right_.push_back(static_cast<uint32_t>(sides_.size() - 1));
        }
      }
    for (const hlo::ScalarInstr& instr : program_.code) {
      uint8_t sides = 0;
      Shape shape{instr.prim, instr.type, {}, instr.imm, false, 0};
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) {
        sides |= sides_[instr.operands[k]];
        shape.operands.push_back(shapes_[instr.operands[k]]);
      }
      sides_.push_back(sides);
      shapes_.push_back(shape_of(shape));
    }
    valid_ = true;
  }

  std::optional<std::vector<SortKey>> keys() {
    if (!valid_) return std::nullopt;
    if (!collect(program_.outputs[0])) return std::nullopt;
    std::vector<int> left(keys_.size());
    for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
    std::vector<SortKey> out;
    std::vector<Outcome> fixed(keys_.size(), kEqual);
    while (!left.empty()) {
      bool found = false;
      for (size_t i = 0; i < left.size() && !found; ++i) {
        SortKey key;
        std::vector<int> rest = left;
        rest.erase(rest.begin() + i);
        if (!is_next(left[i], rest, fixed, key)) continue;
        describe(left[i], key);
        out.push_back(std::move(key));
        left = rest;
        found = true;
      }
      if (!found) return std::nullopt;
    }
    // Equal throughout: a strict order says no.
    if (value(fixed)) return std::nullopt;
    return out;
  }

 private:
  static constexpr uint8_t kLeft = 1, kRight = 2;

  // A function of one side, as a tree of shape numbers; an input is its operand and part.
  struct Shape {
    Prim prim;
    DType type;
    std::vector<int> operands;
    uint64_t imm;
    bool is_input;
    int input;
    auto key() const { return std::tie(is_input, input, prim, type, imm, operands); }
    bool operator<(const Shape& other) const { return key() < other.key(); }
  };
  int shape_of(const Shape& s) {
    return shape_numbers_.try_emplace(s, static_cast<int>(shape_numbers_.size())).first->second;
  }

  const hlo::ScalarInstr* instr(uint32_t v) const {
    return v < program_.inputs.size() ? nullptr : &program_.code[v - program_.inputs.size()];
  }
  static bool is_comparison(Prim p) {
    return p == Prim::eq || p == Prim::ne || p == Prim::lt || p == Prim::le;
  }
  static bool is_one_side(uint8_t sides) { return sides == kLeft || sides == kRight; }

  // A comparison of a key of one side with the same key of either side.
  bool is_atom(const hlo::ScalarInstr& i) const {
    return is_comparison(i.prim) && is_one_side(sides_[i.operands[0]]) &&
           is_one_side(sides_[i.operands[1]]) && shapes_[i.operands[0]] == shapes_[i.operands[1]];
  }

  // Finds the keys below a bool value; false if it is made of anything but atoms and logic.
  bool collect(uint32_t v) {
    const hlo::ScalarInstr* i = instr(v);
    if (!i) return false;
    if (!collected_.try_emplace(v, true).second) return true;
    if (i->prim == Prim::constant) return true;
    if (is_atom(*i)) {
      const int shape = shapes_[i->operands[0]];
      if (std::find(keys_.begin(), keys_.end(), shape) == keys_.end()) {
        if (keys_.size() == kMaxKeys) return false;
        keys_.push_back(shape);
        key_values_.push_back(i->operands[0]);
      }
      return true;
    }
    switch (i->prim) {
      case Prim::bit_and:
      case Prim::bit_or:
      case Prim::bit_xor:
      case Prim::bit_not:
      case Prim::eq:
      case Prim::ne:
      case Prim::lt:
      case Prim::le:
      case Prim::select:
        break;
      default:
        return false;
    }
    for (int k = 0; k < hlo::prim_arity(i->prim); ++k)
      if (program_.type_of(i->operands[k]) != DType::kBool || !collect(i->operands[k])) return false;
    return true;
  }

  // The comparator's value for given outcomes.
  bool value(const std::vector<Outcome>& outcomes) const {
    const size_t inputs = program_.inputs.size();
    std::vector<uint8_t> values(inputs + program_.code.size(), 0);
    for (size_t c = 0; c < program_.code.size(); ++c) {
      const uint32_t v = static_cast<uint32_t>(inputs + c);
      if (!collected_.contains(v)) continue;
      const hlo::ScalarInstr& i = program_.code[c];
      values[v] = is_atom(i) && i.prim != Prim::constant ? atom(i, outcomes) : logic(i, values);
    }
    return values[program_.outputs[0]] != 0;
  }

  bool atom(const hlo::ScalarInstr& i, const std::vector<Outcome>& outcomes) const {
    const size_t key = std::find(keys_.begin(), keys_.end(), shapes_[i.operands[0]]) - keys_.begin();
    Outcome o = outcomes[key];
    const uint8_t a = sides_[i.operands[0]], b = sides_[i.operands[1]];
    if (a == b) {
      const bool nan = o == kBothNan || o == (a == kLeft ? kLeftNan : kRightNan);
      o = nan ? kBothNan : kEqual;
    } else if (a == kRight) {
      o = o == kBelow ? kAbove : o == kAbove ? kBelow : o;
    }
    switch (i.prim) {
      case Prim::eq:
        return o == kEqual;
      case Prim::ne:
        return o != kEqual;
      case Prim::lt:
        return o == kBelow;
      default:
        return o == kBelow || o == kEqual;
    }
  }

  static bool logic(const hlo::ScalarInstr& i, const std::vector<uint8_t>& values) {
    const bool a = values[i.operands[0]], b = values[i.operands[1]], c = values[i.operands[2]];
    switch (i.prim) {
      case Prim::constant:
        return i.imm != 0;
      case Prim::bit_and:
        return a && b;
      case Prim::bit_or:
        return a || b;
      case Prim::bit_not:
        return !a;
      case Prim::eq:
        return a == b;
      case Prim::lt:
        return !a && b;
      case Prim::le:
        return !a || b;
      case Prim::select:
        return a ? b : c;
      default:
        return a != b;  // xor and ne
    }
  }

  bool has_nan(int key) const { return hlo::is_float(program_.type_of(key_values_[key])); }

  // Calls f(outcomes) for every combination of outcomes of `free`, the others as they are; stops when f says
  // no.
  template <typename F>
  bool for_all(const std::vector<int>& free, size_t at, std::vector<Outcome>& outcomes, F&& f) const {
    if (at == free.size()) return f(outcomes);
    const int key = free[at];
    const Outcome before = outcomes[key];
    bool ok = true;
    for (int o = 0; ok && o < (has_nan(key) ? kOutcomes : kLeftNan); ++o) {
      outcomes[key] = static_cast<Outcome>(o);
      ok = for_all(free, at + 1, outcomes, f);
    }
    outcomes[key] = before;
    return ok;
  }

  // Whether `key` alone decides unless it is equal, the keys before it being equal; then its direction and
  // NaN place.
  bool is_next(int key, const std::vector<int>& rest, std::vector<Outcome> outcomes, SortKey& out) const {
    const auto always = [&](Outcome o, bool want) {
      outcomes[key] = o;
      return for_all(rest, 0, outcomes, [&](const std::vector<Outcome>& all) { return value(all) == want; });
    };
    if (always(kBelow, true) && always(kAbove, false))
      out.descending = false;
    else if (always(kBelow, false) && always(kAbove, true))
      out.descending = true;
    else
      return false;
    if (!has_nan(key)) return true;
    outcomes[key] = kEqual;
    const bool nans_equal = for_all(rest, 0, outcomes, [&](const std::vector<Outcome>& all) {
      std::vector<Outcome> nan = all;
      nan[key] = kBothNan;
      return value(all) == value(nan);
    });
    if (nans_equal && always(kLeftNan, false) && always(kRightNan, true))
      out.nan = NanPlace::kLast;
    else if (nans_equal && always(kLeftNan, true) && always(kRightNan, false))
      out.nan = NanPlace::kFirst;
    return true;
  }

  // The key's value as a program over the inputs of one side.
  void describe(int key, SortKey& out) const {
    const uint32_t root = key_values_[key];
    const std::vector<uint32_t>& side = sides_[root] == kLeft ? left_ : right_;
    out.type = program_.type_of(root);
    out.value.inputs = left_types_;
    std::vector<uint32_t> renamed(program_.inputs.size() + program_.code.size(), 0);
    for (size_t i = 0; i < side.size(); ++i) renamed[side[i]] = static_cast<uint32_t>(i);
    std::vector<bool> needed(renamed.size(), false);
    needed[root] = true;
    for (uint32_t v = static_cast<uint32_t>(renamed.size()); v-- > program_.inputs.size();)
      if (needed[v])
        for (int k = 0; k < hlo::prim_arity(instr(v)->prim); ++k) needed[instr(v)->operands[k]] = true;
    for (uint32_t v = static_cast<uint32_t>(program_.inputs.size()); v < renamed.size(); ++v) {
      if (!needed[v]) continue;
      hlo::ScalarInstr copy = *instr(v);
      for (int k = 0; k < hlo::prim_arity(copy.prim); ++k) copy.operands[k] = renamed[copy.operands[k]];
      renamed[v] = static_cast<uint32_t>(left_types_.size() + out.value.code.size());
      out.value.code.push_back(copy);
    }
    out.value.outputs = {renamed[root]};
    if (root < program_.inputs.size()) out.input = static_cast<int>(renamed[root]);
  }

  bool valid_ = false;
  ScalarProgram program_;
  std::vector<uint8_t> sides_;  // per value
  std::vector<int> shapes_;     // per value
  std::map<Shape, int> shape_numbers_;
  std::vector<uint32_t> left_, right_;  // inputs of each side
  std::vector<DType> left_types_;
  std::map<uint32_t, bool> collected_;
  std::vector<int> keys_;             // shapes
  std::vector<uint32_t> key_values_;  // a value of that shape
};

}  // namespace

std::optional<std::vector<SortKey>> sort_keys(const hlo::Computation& comparator) {
  return Analysis(comparator).keys();
}

}  // namespace lamina::jit
