#include "hlo/printer.h"

#include "hlo/hash_map.h"
#include "hlo/literal_text.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/regions.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

// C escapes, bytes above 127 as they are.
void append_quoted(std::string* out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (u < 0x20 || u == 0x7F) {
          out->append("\\x");
          out->push_back(kHex[u >> 4]);
          out->push_back(kHex[u & 15]);
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

class Printer {
 public:
  explicit Printer(const TextOptions& options) : options_(options) {}

  void name(const Computation* c, std::string name) { names_.emplace(c, std::move(name)); }

  void computation(const Computation& c) {
    numbers_.clear();
    str_append(&out_, "computation ", names_.at(&c), "(");
    for (size_t i = 0; i < c.parameters().size(); ++i) {
      const Value& p = c.parameters()[i];
      numbers_.emplace(p.node(), Names{'p', static_cast<int64_t>(i)});
      str_append(&out_, i == 0 ? "" : ", ", "p", i, ": ", to_string(*p.type()));
    }
    out_.append(") -> (");
    for (size_t i = 0; i < c.roots().size(); ++i)
      str_append(&out_, i == 0 ? "" : ", ", to_string(*c.roots()[i].type()));
    out_.append(") {\n");
    int64_t next = 0;
    for (const Node* n : c.nodes()) {
      if (numbers_.contains(n)) continue;
      numbers_.emplace(n, Names{'v', next});
      next += n->num_results();
      node(*n);
    }
    out_.append("  return (");
    for (size_t i = 0; i < c.roots().size(); ++i) {
      if (i > 0) out_.append(", ");
      operand(c.roots()[i].operand());
    }
    out_.append(")\n}\n");
  }

  std::string take() { return std::move(out_); }
  void newline() { out_.push_back('\n'); }

 private:
  struct Names {
    char letter;
    int64_t first;  // of the first result; the others follow
  };

  void operand(Operand o) {
    const Names& names = numbers_.at(o.node());
    str_append(&out_, std::string_view(&names.letter, 1), names.first + o.index());
  }

  void node(const Node& n) {
    out_.append("  ");
    Node* self = const_cast<Node*>(&n);
    if (n.type()->is_tuple()) {
      out_.push_back('(');
      for (uint32_t i = 0; i < n.num_results(); ++i) {
        if (i > 0) out_.append(", ");
        operand(Operand(self, i));
      }
      out_.push_back(')');
    } else {
      operand(Operand(self, 0));
    }
    str_append(&out_, " = ", to_string(*n.type()), " ", n.def().name, "(");
    if (n.op() == Op::constant) {
      append_literal(&out_, *n.attrs().literal(Attr::value), options_.literal_elements);
    }
    for (size_t i = 0; i < n.operands().size(); ++i) {
      if (i > 0) out_.append(", ");
      if (options_.operand_types) str_append(&out_, to_string(*n.operand_type(i)), " ");
      operand(n.operand(i));
    }
    out_.push_back(')');
    for (const auto& [key, value] : n.attrs().entries()) {
      if (attr_kind(key) == AttrKind::kLiteral) continue;
      str_append(&out_, ", ", attr_name(key), "=");
      attribute(value);
    }
    if (n.mode() != 0) str_append(&out_, ", mode=", static_cast<int>(n.mode()));
    if (options_.locations && n.location() != 0) {
      const Location at = location(n.location());
      out_.append(" @");
      append_quoted(&out_, at.file);
      str_append(&out_, ":", at.line);
      if (!at.function.empty()) {
        out_.append(" in ");
        append_quoted(&out_, at.function);
      }
    }
    out_.push_back('\n');
  }

  void attribute(const AttrValue& value) {
    struct Visitor {
      Printer& p;
      void operator()(int64_t x) const { str_append(&p.out_, x); }
      void operator()(bool x) const { p.out_.append(x ? "true" : "false"); }
      void operator()(const Dims& x) const { p.out_.append(dims_to_string(x)); }
      void operator()(const std::string& x) const { append_quoted(&p.out_, x); }
      void operator()(DType x) const { str_append(&p.out_, info(x).name); }
      void operator()(const LiteralPtr&) const {}
      void operator()(const ComputationPtr& x) const { p.out_.append(p.names_.at(x.get())); }
      void operator()(const std::vector<ComputationPtr>& x) const {
        for (size_t i = 0; i < x.size(); ++i)
          str_append(&p.out_, i == 0 ? "[" : ", ", p.names_.at(x[i].get()));
        p.out_.push_back(']');
      }
      void operator()(const std::vector<const Type*>& x) const {
        for (size_t i = 0; i < x.size(); ++i) str_append(&p.out_, i == 0 ? "[" : ", ", to_string(*x[i]));
        p.out_.push_back(']');
      }
    };
    std::visit(Visitor{*this}, value);
  }

  const TextOptions& options_;
  HashMap<const Computation*, std::string> names_;
  HashMap<const Node*, Names> numbers_;
  std::string out_;
};

}  // namespace

std::vector<ComputationPtr> regions_of(const Node& node) {
  std::vector<ComputationPtr> regions;
  for_each_region(node.attrs(), [&](const ComputationPtr& r) { regions.push_back(r); });
  return regions;
}

std::vector<const Computation*> regions_of(const Computation& computation) {
  // Depth first with an explicit stack: nesting is as deep as memory allows.
  struct Frame {
    const Computation* computation;
    std::vector<const Computation*> uses;
    size_t next = 0;
  };
  auto open = [](const Computation* c) {
    Frame f{c, {}};
    for (const Node* n : c->nodes())
      for_each_region(n->attrs(), [&](const ComputationPtr& r) { f.uses.push_back(r.get()); });
    return f;
  };
  std::vector<const Computation*> order;
  HashSet<const Computation*> seen{&computation};
  std::vector<Frame> stack{open(&computation)};
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (f.next < f.uses.size()) {
      const Computation* used = f.uses[f.next++];
      if (seen.insert(used).second) stack.push_back(open(used));
      continue;
    }
    order.push_back(f.computation);
    stack.pop_back();
  }
  order.pop_back();  // `computation` itself comes last
  return order;
}

std::string print(const Computation& computation, const TextOptions& options, std::string_view name) {
  const std::vector<const Computation*> regions = regions_of(computation);
  Printer printer(options);
  for (size_t i = 0; i < regions.size(); ++i) printer.name(regions[i], str_cat("r", i));
  printer.name(&computation, std::string(name));
  for (const Computation* r : regions) {
    printer.computation(*r);
    printer.newline();
  }
  printer.computation(computation);
  return printer.take();
}

}  // namespace lamina::hlo
