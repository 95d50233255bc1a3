// Rows of dots and convolutions.
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// The result's element type where it differs from the operands': computed in the wider one. Booleans add by
// OR and multiply by AND: in integers, where a sum is not zero.
struct Widened {
  Value lhs, rhs;
  bool boolean = false;

  Value result(Builder& b, const Value& v) const {
    return boolean && v ? b.compare(v, b.zeros_like(v), "NE") : v;
  }
};
Widened widened(OpReader& r) {
  Value x = r.in(0), y = r.in(1);
  const TypeTree* t = r.declared_tree(0);
  if (!x || !y || !t || !t->is_array()) return {x, y};
  if (is_bool(x.dtype()) && is_bool(y.dtype()) && is_bool(t->dtype))
    return {r.b.convert(x, DType::kS32), r.b.convert(y, DType::kS32), true};
  if (x.dtype() != t->dtype && !is_complex(x.dtype())) x = r.b.convert(x, t->dtype);
  if (y.dtype() != t->dtype && !is_complex(y.dtype())) y = r.b.convert(y, t->dtype);
  return {x, y};
}

// [a] x [b], or the two lists of #stablehlo.dot<...>.
void side_by_side(OpReader& r, std::initializer_list<std::string_view> names, Dims* lhs, Dims* rhs) {
  const AttrTree* a = r.find(names);
  if (!a) return;
  if (a->kind != AttrTree::Kind::kJoined || a->items.size() != 2)
    return r.fail("expected [dimensions] x [dimensions]");
  *lhs = r.ints(a->items[0]);
  *rhs = r.ints(a->items[1]);
}

// As Attr::precision has it; "" for the default one, and for words of later versions.
std::string read_precision(OpReader& r) {
  if (const AttrTree* a = r.find({"algorithm"});
      a && a->kind == AttrTree::Kind::kDialect && a->body.find('=') != std::string_view::npos)
    return std::string(a->body);
  const AttrTree* a = r.find({"precision_config", "precision"});
  if (!a || a->kind != AttrTree::Kind::kList || a->items.size() != 2) return "";
  std::string words[2];
  for (int i = 0; i < 2; ++i) {
    const AttrTree& item = a->items[i];
    const std::string_view body = item.body;
    words[i] =
        item.kind == AttrTree::Kind::kDialect ? std::string(body.substr(body.rfind(' ') + 1)) : item.text;
    if (words[i] != "DEFAULT" && words[i] != "HIGH" && words[i] != "HIGHEST") return "";
  }
  if (words[0] == "DEFAULT" && words[1] == "DEFAULT") return "";
  return str_cat(words[0], ", ", words[1]);
}

void dot_general(OpReader& r) {
  const DotDims dims = read_dot_dims(r);
  const Widened x = widened(r);
  r.yield(x.result(r.b, r.b.dot_general(x.lhs, x.rhs, dims)));
}

// Contracts the last dimension of the left with the first of the right.
void dot(OpReader& r) {
  const Widened x = widened(r);
  if (!x.lhs || !x.rhs) return;
  if (x.lhs.rank() < 1 || x.rhs.rank() < 1) return r.fail("needs vectors or matrices");
  r.yield(x.result(r.b, r.b.dot_general(x.lhs, x.rhs, {{}, {}, {x.lhs.rank() - 1}, {0}})));
}

// One letter list of [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]: where the two letters stand, and the numbers.
void layout(OpReader& r, const AttrTree& list, std::string_view letters, int64_t* first, int64_t* second,
            Dims* spatial) {
  *first = *second = -1;
  spatial->assign(list.items.size() < 2 ? 0 : list.items.size() - 2, -1);
  for (size_t i = 0; i < list.items.size(); ++i) {
    const AttrTree& item = list.items[i];
    const auto place = static_cast<int64_t>(i);
    if (item.kind == AttrTree::Kind::kWord && item.text == letters.substr(0, 1)) {
      *first = place;
    } else if (item.kind == AttrTree::Kind::kWord && item.text == letters.substr(1, 1)) {
      *second = place;
    } else if (item.kind == AttrTree::Kind::kInt && item.integer >= 0 &&
               item.integer < static_cast<int64_t>(spatial->size())) {
      (*spatial)[item.integer] = place;
    }
  }
  bool complete = *first >= 0 && *second >= 0;
  for (const int64_t s : *spatial) complete &= s >= 0;
  if (!complete)
    r.fail(str_cat("a dimension list must name ", letters.substr(0, 1), ", ", letters.substr(1, 1),
                   " and every spatial dimension"));
}

void convolution(OpReader& r) {
  ConvDims d;
  read_layouts(r, &d);
  const std::vector<Field> window = r.fields({"window"});
  auto list = [&](std::string_view pretty, std::string_view generic) {
    return window.empty() ? r.ints({generic}) : r.ints(window, pretty);
  };
  d.window_strides = list("stride", "window_strides");
  d.padding = list("pad", "padding");
  d.lhs_dilation = list("lhs_dilate", "lhs_dilation");
  d.rhs_dilation = list("rhs_dilate", "rhs_dilation");
  if (r.name() == "dynamic_conv") d.padding = r.constant_ints(2);
  const Dims reversal = list("reverse", "window_reversal");
  d.feature_groups = r.integer({"feature_group_count"}, 1);
  d.batch_groups = r.integer({"batch_group_count"}, 1);
  d.precision = read_precision(r);
  const Widened x = widened(r);
  if (!r.ok()) return;
  Dims reversed;
  for (size_t i = 0; i < reversal.size() && i < d.kernel_spatial.size(); ++i)
    if (reversal[i]) reversed.push_back(d.kernel_spatial[i]);
  const Value kernel = reversed.empty() ? x.rhs : r.b.reverse(x.rhs, reversed);
  r.yield(x.result(r.b, r.b.convolution(x.lhs, kernel, d)));
}

constexpr NamedRow kLinearRows[] = {
    {"stablehlo.dot_general", dot_general},
    {"stablehlo.dot", dot},
    {"stablehlo.convolution", convolution},
    {"stablehlo.dynamic_conv", convolution},
};

}  // namespace

DotDims read_dot_dims(OpReader& r) {
  const std::vector<Field> d = r.fields({"dot_dimension_numbers"});
  DotDims dims{r.ints(d, "lhs_batching_dimensions"), r.ints(d, "rhs_batching_dimensions"),
               r.ints(d, "lhs_contracting_dimensions"), r.ints(d, "rhs_contracting_dimensions")};
  side_by_side(r, {"batching_dims"}, &dims.lhs_batch, &dims.rhs_batch);
  side_by_side(r, {"contracting_dims"}, &dims.lhs_contract, &dims.rhs_contract);
  dims.precision = read_precision(r);
  return dims;
}

void read_layouts(OpReader& r, ConvDims* d) {
  AttrTree numbers;
  if (const AttrTree* a = r.find({"dim_numbers"})) {
    numbers = *a;
  } else if (const AttrTree* a = r.find({"dimension_numbers"})) {
    if (a->body.starts_with("raw")) return r.fail("dimension numbers in the raw form are not supported");
    numbers = *a;
    r.parse_attribute(a->body, &numbers);
  }
  if (numbers.kind != AttrTree::Kind::kJoined || numbers.items.size() != 3)
    return r.fail("needs dimension numbers such as [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]");
  layout(r, numbers.items[0], "bf", &d->input_batch, &d->input_feature, &d->input_spatial);
  layout(r, numbers.items[1], "io", &d->kernel_input_feature, &d->kernel_output_feature, &d->kernel_spatial);
  layout(r, numbers.items[2], "bf", &d->output_batch, &d->output_feature, &d->output_spatial);
}

std::span<const NamedRow> linear_rows() { return kLinearRows; }

}  // namespace lamina::hlo::stablehlo
