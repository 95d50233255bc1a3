#include "hlo/verifier.h"

#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

class Verifier {
 public:
  Verifier(const Computation& c, std::string name, VerifyLevel level)
      : c_(c), name_(std::move(name)), level_(level) {}

  absl::Status run() {
    for (size_t i = 0; i < c_.parameters().size(); ++i) {
      const Value& p = c_.parameters()[i];
      if (!p) return wrong("parameter ", i, " is missing");
      if (p.node()->op() != Op::parameter)
        return wrong("parameter ", i, " is made by ", p.node()->def().name, ", not a parameter");
      if (p.node()->type()->is_tuple())
        return wrong("parameter ", i, " is a tuple, ", to_string(*p.node()->type()));
      if (!defined_.insert(p.node()).second) return wrong("parameter ", i, " stands in the list twice");
    }
    for (size_t i = 0; i < c_.nodes().size(); ++i) {
      const Node& n = *c_.nodes()[i];
      if (defined_.contains(&n)) continue;  // a parameter
      if (absl::Status s = node(n); !s.ok()) {
        std::string where;
        if (n.location() != 0) {
          const Location at = location(n.location());
          where = str_cat(", recorded at ", at.file, ":", at.line);
        }
        return wrong("operation ", i, " (", n.def().name, where, ") ",
                     std::string_view(s.message().data(), s.message().size()));
      }
      defined_.insert(&n);
    }
    for (size_t i = 0; i < c_.roots().size(); ++i) {
      const Value& r = c_.roots()[i];
      if (!r) return wrong("result ", i, " is missing");
      if (!defined_.contains(r.node()))
        return wrong("result ", i, " is made by no operation of the computation");
      if (r.index() >= r.node()->num_results())
        return wrong("result ", i, " names a result that its operation lacks");
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Args>
  absl::Status wrong(const Args&... args) const {
    return absl::InternalError(str_cat("computation ", name_, ": ", args...));
  }
  template <typename... Args>
  static absl::Status bad(const Args&... args) {
    return absl::InternalError(str_cat(args...));
  }

  absl::Status node(const Node& n) {
    const OpDef& def = n.def();
    if (n.op() == Op::parameter || n.op() == Op::leaf) return bad("comes from outside the computation");
    if (def.arity >= 0 && n.operands().size() != static_cast<size_t>(def.arity))
      return bad("has ", n.operands().size(), " operands where ", def.arity, " are needed");
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const Operand o = n.operand(i);
      if (!o.node()) return bad("lacks operand ", i);
      if (!defined_.contains(o.node())) return bad("uses as operand ", i, " what is not computed before it");
      if (o.index() >= o.node()->num_results())
        return bad("uses as operand ", i, " result ", o.index(), " of ", o.node()->def().name, ", which has ",
                   o.node()->num_results());
    }
    if (absl::Status s = attributes(n); !s.ok()) return s;
    return level_ >= VerifyLevel::kTypes ? type(n) : absl::OkStatus();
  }

  static absl::Status attributes(const Node& n) {
    const OpDef& def = n.def();
    for (const auto& [key, value] : n.attrs().entries()) {
      if (value.index() != static_cast<size_t>(attr_kind(key)))
        return bad("has the attribute ", attr_name(key), " of the wrong kind");
      if (std::none_of(def.attrs.begin(), def.attrs.end(),
                       [k = key](const AttrSpec& s) { return s.attr == k; }))
        return bad("has the attribute ", attr_name(key), ", which it does not take");
      if (const auto* list = std::get_if<std::vector<ComputationPtr>>(&value))
        if (std::find(list->begin(), list->end(), nullptr) != list->end())
          return bad("has no computation where ", attr_name(key), " names one");
    }
    for (const AttrSpec& spec : def.attrs) {
      const AttrKind kind = attr_kind(spec.attr);
      // The kinds that have no meaning when absent.
      const bool needed = kind == AttrKind::kDType || kind == AttrKind::kString ||
                          kind == AttrKind::kLiteral || kind == AttrKind::kComputation ||
                          kind == AttrKind::kComputations;
      if (needed && !spec.optional && !n.attrs().has(spec.attr))
        return bad("lacks the attribute ", attr_name(spec.attr));
    }
    return absl::OkStatus();
  }

  static absl::Status type(const Node& n) {
    std::vector<const Type*> operands;
    for (size_t i = 0; i < n.operands().size(); ++i) operands.push_back(n.operand_type(i));
    const absl::StatusOr<const Type*> inferred = n.def().type(operands, n.attrs());
    if (!inferred.ok())
      return bad("breaks its type rule: ",
                 std::string_view(inferred.status().message().data(), inferred.status().message().size()));
    if (*inferred != n.type())
      return bad("is ", to_string(*n.type()), " where its rule gives ", to_string(**inferred));
    return absl::OkStatus();
  }

  const Computation& c_;
  const std::string name_;
  const VerifyLevel level_;
  HashSet<const Node*> defined_;
};

absl::Status verify_text(const Computation& c) {
  const std::string text = print(c, TextOptions::canonical());
  ParseLimits limits;
  limits.literal_bytes = limits.all_literal_bytes = limits.integer = std::numeric_limits<int64_t>::max() / 4;
  limits.integers = limits.rank = std::numeric_limits<int32_t>::max();
  const absl::StatusOr<ComputationPtr> back = parse(text, limits);
  if (!back.ok())
    return absl::InternalError(
        str_cat("the computation's own text cannot be read: ",
                std::string_view(back.status().message().data(), back.status().message().size())));
  if (back->get() == &c) return absl::OkStatus();
  if (print(**back, TextOptions::canonical()) != text)
    return absl::InternalError("the computation's text reads back as another computation");
  return absl::OkStatus();
}

}  // namespace

absl::Status verify(const Computation& computation, VerifyLevel level) {
  const std::vector<const Computation*> regions = regions_of(computation);
  for (size_t i = 0; i < regions.size(); ++i)
    if (absl::Status s = Verifier(*regions[i], str_cat("r", i), level).run(); !s.ok()) return s;
  if (absl::Status s = Verifier(computation, "main", level).run(); !s.ok()) return s;
  return level >= VerifyLevel::kText ? verify_text(computation) : absl::OkStatus();
}

}  // namespace lamina::hlo
