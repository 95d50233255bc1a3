// Rows of loops, branches, calls, composites and random bits.
#include <algorithm>
#include <optional>

#include "hlo/nodes.h"
#include "hlo/regions.h"
#include "hlo/stablehlo/compose.h"
#include "hlo/stablehlo/elements_text.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

void while_loop(OpReader& r) {
  const Values carries = r.ins();
  const Captured outside = r.captured();
  const std::vector<const Type*> types = types_of(carries);
  const ComputationPtr cond = r.region(0, types, outside, false), body = r.region(1, types, outside, true);
  if (!cond || !body) return;
  Values all = carries;
  all.insert(all.end(), outside.values.begin(), outside.values.end());
  const Values out = r.b.while_loop(all, cond, body);
  if (r.ok()) r.yield_flat(std::span(out).first(carries.size()));
}

// Branches read what they need from outside; `if` takes its true branch first.
void branch(OpReader& r) {
  const Captured outside = r.captured();
  const bool two = r.name() == "if";
  const size_t n = r.tree().regions.size();
  if (n == 0 || (two && n != 2)) return r.fail("has too few regions");
  std::vector<ComputationPtr> branches;
  for (size_t i = 0; i < n; ++i) branches.push_back(r.region(i, {}, outside, false));
  if (two) std::swap(branches[0], branches[1]);
  Value index = r.in(0);
  if (two) index = r.b.convert(index, DType::kS32);
  if (!r.ok()) return;
  if (branches[0]->roots().empty()) return r.yield_flat({});
  r.yield_flat(r.b.conditional(index, branches, outside.values));
}

void call(OpReader& r) {
  const AttrTree* callee = r.find({"callee"});
  if (!callee) callee = r.positional(0);
  if (!callee || callee->kind != AttrTree::Kind::kSymbol) return r.fail("names no function");
  const Values results = r.call(callee->text, r.ins());
  if (r.ok()) r.yield_flat(results);
}

// A composite's attributes as they are written; nothing if one is neither a number of 64 bits, a string, a
// flag nor a list or dictionary of such.
std::optional<std::string> attribute_text(const AttrTree& a) {
  const auto list = [](const auto& parts, const auto& text) -> std::optional<std::string> {
    std::string out;
    for (const auto& part : parts) {
      const std::optional<std::string> one = text(part);
      if (!one) return std::nullopt;
      str_append(&out, out.empty() ? "" : ", ", *one);
    }
    return out;
  };
  switch (a.kind) {
    case AttrTree::Kind::kInt:
      if (a.type.is_array() && a.type.dtype != DType::kS64) return std::nullopt;
      return str_cat(a.integer, " : i64");
    case AttrTree::Kind::kBool:
      return a.flag ? "true" : "false";
    case AttrTree::Kind::kString:
      return string_text(a.text);
    case AttrTree::Kind::kList: {
      const std::optional<std::string> items = list(a.items, attribute_text);
      return items ? std::optional(str_cat("[", *items, "]")) : std::nullopt;
    }
    case AttrTree::Kind::kDict: {
      const auto field = [](const Field& f) -> std::optional<std::string> {
        const std::optional<std::string> value = attribute_text(f.value);
        return value ? std::optional(str_cat(f.name, " = ", *value)) : std::nullopt;
      };
      const std::optional<std::string> fields = list(a.fields, field);
      return fields ? std::optional(str_cat("{", *fields, "}")) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// Its decomposition, which means the same; under its name, if its attributes can be written again.
void composite(OpReader& r) {
  const AttrTree* f = r.find({"decomposition"});
  if (!f) return r.fail("names no decomposition");
  Values results = r.call(f->text, r.ins());
  if (!r.ok()) return;
  const AttrTree *name = r.find({"name"}), *given = r.find({"composite_attributes"});
  if (!name) name = r.positional(0);
  const std::optional<std::string> attributes = given ? attribute_text(*given) : std::string();
  const Node* call = results.empty() ? nullptr : results[0].node();
  if (call && is_plain_call(*call) && name && name->kind == AttrTree::Kind::kString && attributes)
    results = r.b.make_multi(Op::call, r.ins(),
                             intern_attrs({{Attr::body, call->attrs().computation(Attr::body)},
                                           {Attr::call_target_name, name->text},
                                           {Attr::index, r.integer({"version"}, 0)},
                                           {Attr::composite_attributes, *attributes}}));
  if (r.ok()) r.yield_flat(results);
}

// The low bits of unsigned integers as elements.
Value as_elements(Builder& b, const Value& bits, DType to) {
  return b.bitcast_convert(b.convert(bits, is_unsigned(to) ? to : bits_type(to)), to);
}

void rng_bit_generator(OpReader& r) {
  const Value state = r.in(0);
  const Type* bits = r.declared(1);
  if (!state || !bits) return;
  std::string algorithm = r.word({"rng_algorithm", "algorithm"});
  const DType dtype = is_unsigned(bits->dtype) ? bits->dtype : bits_type(bits->dtype);
  if (algorithm == "PHILOX") {
    if (state.rank() != 1 || state.dtype() != DType::kU64 || (state.dims()[0] != 2 && state.dims()[0] != 3))
      return r.fail(
          str_cat("the state must be u64[2] or u64[3] for PHILOX, not ", hlo::to_string(*state.type())));
    const RandomBits made = compose_philox(r.b, state, dtype, bits->dims);
    if (!r.ok()) return;
    r.yield(made.state);
    return r.yield(as_elements(r.b, made.bits, bits->dtype));
  }
  if (algorithm != "DEFAULT" && algorithm != "THREE_FRY")
    return r.fail(
        str_cat("the algorithm ", algorithm, " is not supported; DEFAULT, THREE_FRY and PHILOX are"));
  if (state.type() != array_type_or_die(DType::kU64, Dims{2}))
    return r.fail(
        str_cat("the state must be u64[2] for ", algorithm, ", not ", hlo::to_string(*state.type())));
  // Narrow elements are the low bits of a byte.
  const DType made_as = is_narrow_integer(dtype) ? DType::kU8 : dtype;
  const Values made = r.b.make_multi(
      Op::rng_bit_generator, {{state}},
      intern_attrs(
          {{Attr::rng_algorithm, std::move(algorithm)}, {Attr::dtype, made_as}, {Attr::shape, bits->dims}}));
  if (!r.ok()) return;
  r.yield(made[0]);
  r.yield(as_elements(r.b, made[1], bits->dtype));
}

constexpr NamedRow kControlRows[] = {
    {"stablehlo.while", while_loop},
    {"stablehlo.case", branch},
    {"stablehlo.if", branch},
    {"call", call},
    {"func.call", call},
    {"stablehlo.composite", composite},
    {"stablehlo.rng_bit_generator", rng_bit_generator},
};

}  // namespace

std::span<const NamedRow> control_rows() { return kControlRows; }

}  // namespace lamina::hlo::stablehlo
