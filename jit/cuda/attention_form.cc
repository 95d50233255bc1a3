#include "jit/cuda/attention_form.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "hlo/computation.h"
#include "hlo/hash_map.h"
#include "hlo/literal.h"
#include "hlo/match.h"
#include "hlo/printer.h"
#include "hlo/regions.h"
#include "hlo/type.h"
#include "jit/cuda/subgraph_call.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::DType;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;

// Kernels leave out what such scores would add: less than exp(-104) of what others do is 0 in f32.
constexpr double kMostMasked = -0x1p26;
constexpr std::string_view kAttentionTarget = "lamina.attention";

bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }
bool is_score(DType t) { return t == DType::kF32 || is_half(t); }

bool holds_dim(const Dims& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }
// The only one of so many dimensions that is in neither list.
std::optional<int64_t> free_dim(int64_t rank, const Dims& batch, const Dims& summed) {
  std::optional<int64_t> out;
  for (int64_t d = 0; d < rank; ++d) {
    if (holds_dim(batch, d) || holds_dim(summed, d)) continue;
    if (out) return std::nullopt;
    out = d;
  }
  return out;
}

// One operand of a product.
struct Factor {
  Value array;
  Dims batch;
  int64_t summed = 0, free = 0;
};
std::optional<Factor> side_of(const Node& dot, size_t i) {
  const hlo::Attrs& a = dot.attrs();
  Factor out{dot.operand_value(i),
             a.ints(i == 0 ? Attr::lhs_batching_dimensions : Attr::rhs_batching_dimensions)};
  const Dims& summed = a.ints(i == 0 ? Attr::lhs_contracting_dimensions : Attr::rhs_contracting_dimensions);
  const auto free = free_dim(out.array.rank(), out.batch, summed);
  if (summed.size() != 1 || !free) return std::nullopt;
  out.summed = summed[0];
  out.free = *free;
  return out;
}
// The array itself where the product has it converted from two bytes to four, which changes no number.
Value unwidened(const Value& v) {
  const Node& n = *v.node();
  const bool widens = n.op() == Op::convert && v.dtype() == DType::kF32 && is_half(n.operand_type(0)->dtype);
  return widens ? n.operand_value(0) : v;
}

// A batch dimension, with its stride in each array; 0 where the bias has none.
struct BatchDim {
  int64_t extent;
  std::array<int64_t, 5> strides;
};
// At most two, those of 1 dropped and neighbours joined that are one in every array.
bool join(std::vector<BatchDim>& dims) {
  std::erase_if(dims, [](const BatchDim& d) { return d.extent == 1; });
  for (size_t i = 0; i + 1 < dims.size() && dims.size() > 2;) {
    const BatchDim& inner = dims[i + 1];
    bool is_one = true;
    for (size_t a = 0; a < inner.strides.size(); ++a)
      is_one = is_one && dims[i].strides[a] == inner.extent * inner.strides[a];
    if (!is_one) {
      ++i;
      continue;
    }
    dims[i] = {dims[i].extent * inner.extent, inner.strides};
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return dims.size() <= 2;
}

// Finds the attention that ends with a product.
class Matcher {
 public:
  Matcher(const Users& users, const Invariants& invariants) : users_(users), invariants_(invariants) {}

  std::optional<FoundAttention> match(Node& last_product) {
    for (const size_t i : {0, 1})
      if (auto found = match_from(last_product, i)) return found;
    return std::nullopt;
  }

 private:
  std::optional<FoundAttention> match_from(Node& last_product, size_t probabilities) {
    owned_.clear();
    is_exact_ = true;
    form_ = {};
    operands_.clear();
    bias_ = scale_ = {};
    const auto p = side_of(last_product, probabilities), v = side_of(last_product, 1 - probabilities);
    if (!p || !v) return std::nullopt;
    value_ = *v;
    value_.array = unwidened(v->array);
    form_.type = value_.array.dtype();
    if (!is_half(form_.type) || !own_result(last_product, *p, probabilities == 0)) return std::nullopt;
    const Value quotient = rounded(p->array);
    columns_ = p->summed;
    rows_ = p->free;
    if (!match_softmax(quotient) || !match_scores(scores(logits_)) || !lay_out(*p)) return std::nullopt;
    if (!are_read_only_here(owned_, result_, users_) || (!is_exact_ && !is_fast())) return std::nullopt;
    form_.is_fast = is_fast();
    for (const Value& o : {query_.array, key_.array, value_.array}) operands_.push_back(o);
    if (bias_) operands_.push_back(bias_);
    if (scale_) operands_.push_back(scale_);
    return FoundAttention{form_, Value(result_), operands_};
  }

  // --- what belongs to it ---

  void own(const Node& n) {
    if (std::find(owned_.begin(), owned_.end(), &n) == owned_.end()) owned_.push_back(&n);
  }
  // A node of arithmetic.
  void own_arithmetic(const Node& n) {
    own(n);
    is_exact_ = is_exact_ && n.type()->dtype == DType::kF32;
  }
  bool is_fast() const {
    return std::all_of(owned_.begin(), owned_.end(),
                       [](const Node* n) { return n->numerics() == hlo::Numerics::kFast; });
  }
  // Beneath conversions, which are roundings that the library does not do.
  Value scores(Value v) {
    while (v.node()->op() == Op::convert && is_score(v.dtype()) &&
           is_score(v.node()->operand_type(0)->dtype)) {
      own_arithmetic(*v.node());
      is_exact_ = is_exact_ && v.node()->operand_type(0)->dtype == DType::kF32;
      v = v.node()->operand_value(0);
    }
    return v;
  }
  // Beneath the rounding of the probabilities, which the library does.
  Value rounded(Value v) {
    bool is_rounded = false;
    while (v.node()->op() == Op::convert && is_score(v.dtype()) &&
           is_score(v.node()->operand_type(0)->dtype)) {
      own(*v.node());
      is_rounded = is_rounded || v.dtype() == form_.type;
      is_exact_ = is_exact_ && (v.dtype() == form_.type || v.dtype() == DType::kF32);
      v = v.node()->operand_value(0);
    }
    is_exact_ = is_exact_ && is_rounded;
    return v;
  }

  // --- behind the product: its rounding, and the order in which the result lies ---

  // What a dimension of the result is: one of the scores' batch, or one of these.
  static constexpr int64_t kQueries = -1, kFeatures = -2;

  bool own_result(Node& product, const Factor& p, bool is_first) {
    result_ = &product;
    own(product);
    result_dims_ = p.batch;
    result_dims_.push_back(is_first ? kQueries : kFeatures);
    result_dims_.push_back(is_first ? kFeatures : kQueries);
    while (const Node* user = only_user(*result_)) {
      const bool rounds = user->op() == Op::convert && result_->type()->dtype == DType::kF32 &&
                          user->type()->dtype == form_.type;
      if (!rounds && user->op() != Op::transpose) break;
      Dims dims = result_dims_;
      if (!rounds) {
        const Dims& order = user->attrs().ints(Attr::permutation);
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = result_dims_[static_cast<size_t>(order[d])];
        if (result_dims_.back() == kFeatures && dims.back() != kFeatures) break;
      }
      result_dims_ = std::move(dims);
      result_ = const_cast<Node*>(user);
      own(*result_);
    }
    return result_->type()->dtype == form_.type && result_dims_.back() == kFeatures;
  }
  const Node* only_user(const Node& n) const {
    const auto it = users_.find(&n);
    return it != users_.end() && it->second.size() == 1 ? it->second[0] : nullptr;
  }

  // --- softmax ---

  bool match_softmax(const Value& quotient) {
    const Node& divide = *quotient.node();
    if (divide.op() != Op::divide) return false;
    own_arithmetic(divide);
    const Value terms = scores(divide.operand_value(0));
    if (terms.node()->op() != Op::exponential) return false;
    own_arithmetic(*terms.node());
    const Node& minus = *scores(terms.node()->operand_value(0)).node();
    if (minus.op() != Op::subtract) return false;
    own_arithmetic(minus);
    logits_ = scores(minus.operand_value(0));
    return is_reduced(divide.operand_value(1), Op::add, terms) &&
           is_reduced(minus.operand_value(1), Op::maximum, logits_);
  }
  // Whether `v` is that of each row, for each of its columns again.
  bool is_reduced(const Value& v, Op op, const Value& of) {
    const Value spread = scores(v);
    const Node* n = spread.node();
    if (n->op() != Op::broadcast_in_dim || spread.dims() != of.dims()) return false;
    own(*n);
    const Dims& at = n->attrs().ints(Attr::broadcast_dimensions);
    Value each = scores(n->operand_value(0));
    Dims left = of.dims();
    left.erase(left.begin() + columns_);
    if (each.rank() == of.rank()) {
      // With the extent 1 in the place of the columns, put there by a reshape.
      Dims kept = of.dims();
      kept[static_cast<size_t>(columns_)] = 1;
      for (int64_t d = 0; d < of.rank(); ++d)
        if (at[static_cast<size_t>(d)] != d) return false;
      if (each.dims() != kept || each.node()->op() != Op::reshape) return false;
      own(*each.node());
      each = scores(each.node()->operand_value(0));
    } else {
      for (int64_t d = 0; d < each.rank(); ++d)
        if (at[static_cast<size_t>(d)] != (d < columns_ ? d : d + 1)) return false;
    }
    const Node& reduce = *each.node();
    if (reduce.op() != Op::reduce || reduce.operands().size() != 2 || each.dims() != left) return false;
    const auto combines = hlo::region_op(*reduce.attrs().computation(Attr::body));
    const hlo::Literal* const first = hlo::match::uniform_literal(reduce.operand_value(1));
    if (combines != op || !first || reduce.attrs().ints(Attr::dimensions) != Dims{columns_}) return false;
    const double begin = first->double_at(0);
    if (op == Op::add ? begin != 0 : begin != -HUGE_VAL) return false;
    own_arithmetic(reduce);
    return scores(reduce.operand_value(0)) == of;
  }

  // --- what is made of the first product ---

  bool match_scores(Value v) {
    if (v.node()->op() == Op::select && !match_causal(v)) return false;
    if (v.node()->op() == Op::add && !match_bias(v)) return false;
    if (v.node()->op() == Op::multiply || v.node()->op() == Op::divide)
      if (!match_scale(v)) return false;
    if (v.node()->op() != Op::dot_general) return false;
    const Node& product = *v.node();
    own_arithmetic(product);
    const auto left = side_of(product, 0), right = side_of(product, 1);
    const auto batch = static_cast<int64_t>(product.attrs().ints(Attr::lhs_batching_dimensions).size());
    if (!left || !right || std::min(rows_, columns_) != batch) return false;
    query_ = rows_ < columns_ ? *left : *right;
    key_ = rows_ < columns_ ? *right : *left;
    query_.array = unwidened(query_.array);
    key_.array = unwidened(key_.array);
    return query_.array.dtype() == form_.type && key_.array.dtype() == form_.type;
  }

  bool match_causal(Value& v) {
    const Node& select = *v.node();
    Dims at;
    for (int64_t d = 0; d < v.rank(); ++d) at.push_back(d);
    const std::optional<bool> is_past =
        select.operand_type(0)->dims == v.dims() ? past(select.operand_value(0), at) : std::nullopt;
    if (!is_past) return false;
    const hlo::Literal* const low = hlo::match::uniform_literal(select.operand_value(*is_past ? 2 : 1));
    if (!low || !(low->double_at(0) <= kMostMasked)) return false;
    form_.causal = static_cast<float>(low->double_at(0));
    own_arithmetic(select);
    v = scores(select.operand_value(*is_past ? 1 : 2));
    return true;
  }
  // Whether it is true where the key does not follow the query, or false there and true elsewhere; `at` has
  // the scores' dimension of each of its own.
  std::optional<bool> past(const Value& mask, const Dims& at) const {
    const Value v = outermost(invariants_, mask);
    const Node& n = *v.node();
    switch (n.op()) {
      case Op::broadcast_in_dim: {
        Dims inner;
        for (size_t d = 0; d < n.attrs().ints(Attr::broadcast_dimensions).size(); ++d) {
          const int64_t to = n.attrs().ints(Attr::broadcast_dimensions)[d];
          if (n.operand_type(0)->dims[d] != v.dims()[static_cast<size_t>(to)]) return std::nullopt;
          inner.push_back(at[static_cast<size_t>(to)]);
        }
        return past(n.operand_value(0), inner);
      }
      case Op::not_: {
        const auto inner = past(n.operand_value(0), at);
        return inner ? std::optional(!*inner) : std::nullopt;
      }
      case Op::select: {
        const auto inner = past(n.operand_value(0), at);
        if (!inner) return std::nullopt;
        for (const bool straight : {true, false})
          if (hlo::match::is_uniform_int(n.operand_value(straight ? 1 : 2), 1) &&
              hlo::match::is_uniform_int(n.operand_value(straight ? 2 : 1), 0))
            return straight == *inner;
        return std::nullopt;
      }
      case Op::compare: {
        const auto left = place(n.operand_value(0), at), right = place(n.operand_value(1), at);
        const std::string& direction = n.attrs().string(Attr::direction);
        const bool forward = left == rows_ && right == columns_,
                   backward = left == columns_ && right == rows_;
        if ((forward && direction == "GE") || (backward && direction == "LE")) return true;
        if ((forward && direction == "LT") || (backward && direction == "GT")) return false;
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }
  // The scores' dimension along which the value counts from 0.
  std::optional<int64_t> place(const Value& counted, const Dims& at) const {
    const Value v = outermost(invariants_, counted);
    const Node& n = *v.node();
    if (n.op() == Op::iota && (v.dtype() == DType::kS32 || v.dtype() == DType::kS64))
      return at[static_cast<size_t>(n.attrs().integer(Attr::iota_dimension))];
    if (n.op() != Op::broadcast_in_dim) return std::nullopt;
    Dims inner;
    for (size_t d = 0; d < n.attrs().ints(Attr::broadcast_dimensions).size(); ++d) {
      const int64_t to = n.attrs().ints(Attr::broadcast_dimensions)[d];
      // Of one element that is spread, nothing is counted.
      inner.push_back(n.operand_type(0)->dims[d] == v.dims()[static_cast<size_t>(to)]
                          ? at[static_cast<size_t>(to)]
                          : kQueries);
    }
    return place(n.operand_value(0), inner);
  }

  static bool leads_to_product(Value v) {
    for (int depth = 0; depth < 4; ++depth) {
      const Node& n = *v.node();
      if (n.op() == Op::dot_general) return true;
      if (n.op() == Op::multiply && scalar(n.operand_value(0)))
        v = n.operand_value(1);
      else if (n.op() == Op::convert || n.op() == Op::multiply || n.op() == Op::divide)
        v = n.operand_value(0);
      else
        return false;
    }
    return false;
  }
  bool match_bias(Value& v) {
    const Node& add = *v.node();
    const size_t side = leads_to_product(add.operand_value(0)) ? 0 : 1;
    if (!leads_to_product(add.operand_value(side))) return false;
    own_arithmetic(add);
    bias_at_.clear();
    for (int64_t d = 0; d < v.rank(); ++d) bias_at_.push_back(d);
    Value bias = add.operand_value(1 - side);
    while (true) {
      const Node& n = *bias.node();
      if (n.op() == Op::convert && bias.dtype() == DType::kF32 && n.operand_type(0)->dtype == form_.type) {
        bias = n.operand_value(0);
      } else if (n.op() == Op::broadcast_in_dim) {
        Dims inner;
        for (int64_t to : n.attrs().ints(Attr::broadcast_dimensions))
          inner.push_back(bias_at_[static_cast<size_t>(to)]);
        bias_at_ = std::move(inner);
        bias = n.operand_value(0);
      } else {
        break;
      }
    }
    form_.bias_type = bias.dtype();
    if (form_.bias_type != DType::kF32 && form_.bias_type != form_.type) return false;
    bias_ = bias;
    v = scores(add.operand_value(side));
    return true;
  }

  // What a value is a broadcast of, if that is one element.
  static Value scalar(Value v) {
    while (v.node()->op() == Op::broadcast_in_dim) v = v.node()->operand_value(0);
    return v.type()->num_elements == 1 && hlo::is_float(v.dtype()) ? v : Value();
  }
  bool match_scale(Value& v) {
    const Node& n = *v.node();
    const bool divides = n.op() == Op::divide;
    const size_t factor = !divides && scalar(n.operand_value(0)) ? 0 : 1;
    const Value by = scalar(n.operand_value(factor));
    if (!by) return false;
    own_arithmetic(n);
    if (const hlo::Literal* const number = hlo::match::uniform_literal(by)) {
      const double x = number->double_at(0), scale = divides ? 1 / x : x;
      form_.scale = static_cast<float>(scale);
      // To divide by a power of 2 is to multiply by another.
      int exponent = 0;
      is_exact_ = is_exact_ && (!divides || std::frexp(std::abs(x), &exponent) == 0.5);
      if (!std::isfinite(form_.scale)) return false;
    } else {
      form_.has_scale_operand = true;
      form_.divides = divides;
      is_exact_ = is_exact_ && !divides && by.dtype() == DType::kF32;
      scale_ = by;
    }
    v = scores(n.operand_value(1 - factor));
    return true;
  }

  // --- how everything lies ---

  // Whether the form is what the library takes.
  bool lay_out(const Factor& p) {
    const auto strides_of = [](const Value& v) { return hlo::row_major_strides(v.dims()); };
    const auto at = [](const Dims& list, int64_t i) { return list[static_cast<size_t>(i)]; };
    const Dims q = strides_of(query_.array), k = strides_of(key_.array), w = strides_of(value_.array),
               o = strides_of(Value(result_));
    const auto in_result = [&](int64_t what) {
      return o[static_cast<size_t>(std::find(result_dims_.begin(), result_dims_.end(), what) -
                                   result_dims_.begin())];
    };
    Dims bias(logits_.dims().size(), 0);
    if (bias_) {
      const Dims strides = strides_of(bias_);
      for (size_t d = 0; d < bias_at_.size(); ++d)
        if (bias_.dims()[d] > 1) bias[static_cast<size_t>(bias_at_[d])] = strides[d];
      // A row for each key that is no broadcast.
      if (at(bias, columns_) != 1) return false;
    }
    std::vector<BatchDim> batch;
    for (size_t i = 0; i < query_.batch.size(); ++i) {
      const auto of_scores = static_cast<int64_t>(i);
      const auto in_last = std::find(p.batch.begin(), p.batch.end(), of_scores) - p.batch.begin();
      batch.push_back({at(logits_.dims(), of_scores),
                       {at(q, query_.batch[i]), at(k, key_.batch[i]), at(w, at(value_.batch, in_last)),
                        in_result(of_scores), bias[i]}});
    }
    if (logits_.type()->num_elements == 0 || !join(batch)) return false;
    const int64_t queries = at(logits_.dims(), rows_), keys = at(logits_.dims(), columns_),
                  features = at(query_.array.dims(), query_.summed),
                  results = at(value_.array.dims(), value_.free);
    if (features == 0 || results == 0 || at(q, query_.summed) != 1 || at(k, key_.summed) != 1 ||
        at(w, value_.free) != 1)
      return false;
    // The batch of an array, and how far apart its rows are.
    const auto array = [&](size_t which, int64_t rows, int64_t row_stride, int64_t columns) {
      AttentionForm::Array out{{1, 1, rows, columns}, {0, 0, row_stride, 1}};
      for (size_t i = 0; i < batch.size(); ++i) {
        const BatchDim& d = batch[batch.size() - 1 - i];
        if (d.strides[which] == 0) continue;
        out.dims[1 - i] = d.extent;
        out.strides[1 - i] = d.strides[which];
      }
      for (size_t d = 3; d-- > 0;)
        if (out.dims[d] == 1) out.strides[d] = out.dims[d + 1] * out.strides[d + 1];
      return out;
    };
    form_.query = array(0, queries, at(q, query_.free), features);
    form_.key = array(1, keys, at(k, key_.free), features);
    form_.value = array(2, keys, at(w, value_.summed), results);
    form_.result = array(3, queries, in_result(kQueries), results);
    if (!bias_) return true;
    form_.bias = array(4, at(bias, rows_) == 0 ? 1 : queries, at(bias, rows_), keys);
    for (size_t d = 0; d < 3; ++d)
      if (form_.bias->strides[d] < form_.bias->dims[d + 1] * form_.bias->strides[d + 1]) return false;
    return true;
  }

  const Users& users_;
  const Invariants& invariants_;
  AttentionForm form_;
  std::vector<const Node*> owned_;  // each once; what makes masks and operands is not among them
  bool is_exact_ = true;
  int64_t rows_ = 0, columns_ = 0;  // dimensions of the scores
  Value logits_;
  Factor query_, key_, value_;
  Value bias_, scale_;
  Dims bias_at_;  // the scores' dimension of each of the bias's
  Node* result_ = nullptr;
  Dims result_dims_;
  hlo::Values operands_;
};

std::vector<FoundAttention> found_in(const hlo::Computation& computation, const Invariants& invariants) {
  std::vector<FoundAttention> out;
  const Users users = users_of(computation);
  Matcher matcher(users, invariants);
  for (Node* n : computation.nodes()) {
    if (n->op() != Op::dot_general) continue;
    if (auto found = matcher.match(*n)) out.push_back(*std::move(found));
  }
  return out;
}

}  // namespace

std::vector<FoundAttention> find_attentions(const hlo::Computation& computation) {
  return found_in(computation, {});
}

absl::StatusOr<hlo::ComputationPtr> with_attention_calls(
    const hlo::ComputationPtr& program, absl::FunctionRef<bool(const AttentionForm&)> is_wanted) {
  std::vector<Subgraph> wanted;
  const Invariants invariants = invariants_of(program);
  const auto look_at = [&](const hlo::Computation& c) {
    for (FoundAttention& found : found_in(c, invariants))
      if (is_wanted(found.form)) wanted.push_back({found.result, found.operands});
  };
  for (const hlo::Computation* region : hlo::regions_of(*program)) look_at(*region);
  look_at(*program);
  return with_subgraph_calls(program, kAttentionTarget, wanted, invariants);
}

std::optional<AttentionForm> attention_form(const Node& node) {
  const hlo::Computation* const body = subgraph_of(node, kAttentionTarget);
  if (!body) return std::nullopt;
  const std::vector<FoundAttention> found = find_attentions(*body);
  return found.size() == 1 ? std::optional(found[0].form) : std::nullopt;
}

}  // namespace lamina::jit::cuda
