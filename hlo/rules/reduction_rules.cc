// Type and evaluation rules of reduce, reduce_window, select_and_scatter, sort and cumsum.
#include <algorithm>
#include <numeric>

#include "hlo/reduce_tree.h"
#include "hlo/reference_cumsum.h"
#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

// --- types ---

// Splits operands into arrays and initial scalars and checks both.
absl::Status check_reduction_operands(Types t, const ComputationPtr& body) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t.empty() || t.size() % 2 != 0) return invalid("needs as many initial values as arrays");
  const size_t m = t.size() / 2;
  for (size_t i = 0; i < m; ++i) {
    if (t[i]->dims != t[0]->dims)
      return invalid("arrays of shapes ", dims_to_string(t[0]->dims), " and ", dims_to_string(t[i]->dims),
                     " cannot be reduced together");
    if (t[m + i] != scalar_type(t[i]->dtype))
      return invalid("initial value ", i, " is ", to_string(*t[m + i]), " where ", info(t[i]->dtype).name,
                     "[] is needed");
  }
  return check_reduction_region(body, t.first(m));
}

absl::StatusOr<const Type*> reduced_types(Types t, const Dims& dims) {
  std::vector<const Type*> out;
  for (size_t i = 0; i < t.size() / 2; ++i) {
    TypeOr type = array_type(t[i]->dtype, dims);
    if (!type.ok()) return type;
    out.push_back(*type);
  }
  return results_type(out);
}

TypeOr reduce_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_reduction_operands(t, a.computation(Attr::body)));
  const Dims& reduced = a.ints(Attr::dimensions);
  LAMINA_RETURN_IF_ERROR(check_dims("dimensions", reduced, t[0]->rank()));
  Dims out;
  for (int64_t d = 0; d < t[0]->rank(); ++d)
    if (!contains(reduced, d)) out.push_back(t[0]->dims[d]);
  return reduced_types(t, out);
}

struct Window {
  Dims size, stride, base_dilation, dilation, padding;
};

absl::StatusOr<Window> read_window(const Attrs& a, int64_t rank) {
  auto list = [&](Attr key, size_t n, int64_t fill) {
    const Dims& v = a.ints(key);
    return v.empty() ? Dims(n, fill) : v;
  };
  Window w{a.ints(Attr::window_dimensions), list(Attr::window_strides, rank, 1),
           list(Attr::base_dilations, rank, 1), list(Attr::window_dilations, rank, 1),
           list(Attr::padding, 2 * rank, 0)};
  LAMINA_RETURN_IF_ERROR(check_length("window_dimensions", w.size, rank));
  LAMINA_RETURN_IF_ERROR(check_length("window_strides", w.stride, rank));
  LAMINA_RETURN_IF_ERROR(check_length("base_dilations", w.base_dilation, rank));
  LAMINA_RETURN_IF_ERROR(check_length("window_dilations", w.dilation, rank));
  LAMINA_RETURN_IF_ERROR(check_length("padding", w.padding, 2 * rank));
  for (int64_t i = 0; i < rank; ++i)
    for (int64_t v : {w.size[i], w.stride[i], w.base_dilation[i], w.dilation[i]})
      if (v < 1 || v > int64_t{1} << 40)
        return invalid("window sizes, strides and dilations must be at least 1 (dimension ", i, " has ", v,
                       ")");
  return w;
}

// Size of the result along one dimension.
absl::StatusOr<int64_t> window_positions(int64_t n, const Window& w, int64_t d) {
  constexpr int64_t kLimit = int64_t{1} << 58;
  if (n > 0 && n - 1 > kLimit / w.base_dilation[d])
    return invalid("dimension ", d, " is too large when dilated");
  const int64_t dilated = n == 0 ? 0 : (n - 1) * w.base_dilation[d] + 1;
  for (int64_t p : {w.padding[2 * d], w.padding[2 * d + 1]})
    if (p > kLimit || p < -kLimit) return invalid("padding ", p, " of dimension ", d, " is too large");
  const int64_t padded = dilated + w.padding[2 * d] + w.padding[2 * d + 1];
  if (w.size[d] - 1 > kLimit / w.dilation[d]) return invalid("the window of dimension ", d, " is too large");
  const int64_t span = (w.size[d] - 1) * w.dilation[d] + 1;
  return padded < span ? 0 : (padded - span) / w.stride[d] + 1;
}

absl::StatusOr<Dims> window_result(const Dims& dims, const Window& w) {
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    absl::StatusOr<int64_t> n = window_positions(dims[d], w, d);
    if (!n.ok()) return n.status();
    out.push_back(*n);
  }
  return out;
}

TypeOr reduce_window_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_reduction_operands(t, a.computation(Attr::body)));
  absl::StatusOr<Window> w = read_window(a, t[0]->rank());
  if (!w.ok()) return w.status();
  absl::StatusOr<Dims> out = window_result(t[0]->dims, *w);
  if (!out.ok()) return out.status();
  return reduced_types(t, *out);
}

TypeOr select_and_scatter_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Type* element = scalar_type(t[0]->dtype);
  if (t[1]->dtype != t[0]->dtype || t[2] != element)
    return invalid("source and initial value must have the operand's element type ", info(t[0]->dtype).name);
  absl::StatusOr<Window> w = read_window(a, t[0]->rank());
  if (!w.ok()) return w.status();
  absl::StatusOr<Dims> source = window_result(t[0]->dims, *w);
  if (!source.ok()) return source.status();
  if (t[1]->dims != *source)
    return invalid("the source has shape ", dims_to_string(t[1]->dims), " where the windows give ",
                   dims_to_string(*source));
  const Type* predicate = scalar_type(DType::kBool);
  LAMINA_RETURN_IF_ERROR(
      check_region("select", a.computation(Attr::select), {{element, element}}, {{predicate}}));
  LAMINA_RETURN_IF_ERROR(
      check_region("scatter", a.computation(Attr::scatter), {{element, element}}, {{element}}));
  return t[0];
}

TypeOr sort_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t.empty()) return invalid("needs at least one array");
  const int64_t d = a.integer(Attr::dimension);
  LAMINA_RETURN_IF_ERROR(check_dims("dimension", std::span(&d, 1), t[0]->rank()));
  std::vector<const Type*> parameters;
  for (const Type* x : t) {
    if (x->dims != t[0]->dims)
      return invalid("arrays of shapes ", dims_to_string(t[0]->dims), " and ", dims_to_string(x->dims),
                     " cannot be sorted together");
    parameters.push_back(scalar_type(x->dtype));
    parameters.push_back(scalar_type(x->dtype));
  }
  const Type* predicate = scalar_type(DType::kBool);
  LAMINA_RETURN_IF_ERROR(
      check_region("the comparator", a.computation(Attr::body), parameters, {{predicate}}));
  return results_type(t);
}

TypeOr cumsum_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  LAMINA_RETURN_IF_ERROR(check_dims("dimension", Dims{a.integer(Attr::dimension)}, t[0]->rank()));
  if (t[0]->dtype == DType::kBool) return invalid("sums numbers, not bool");
  return t[0];
}

// --- evaluation ---

// m parallel sequences of elements, combined by a region over (acc..., element...).
class Sequences {
 public:
  Sequences(const RegionRunner& body, std::span<const LiteralPtr> operands) : body_(body) {
    int64_t part = 1;
    for (const LiteralPtr& l : operands) {
      widths_.push_back(byte_size(l->dtype()));
      part = std::max(part, byte_size(part_type(l->dtype())));
    }
    lanes_ = kReduceLaneBytes / part;
    data_.resize(widths_.size());
  }

  void clear() {
    for (auto& d : data_) d.clear();
    count_ = 0;
  }
  // Appends element `at` of every operand.
  void push(std::span<const LiteralPtr> operands, int64_t at) {
    for (size_t i = 0; i < data_.size(); ++i)
      data_[i].insert(data_[i].end(), operands[i]->element(at), operands[i]->element(at) + widths_[i]);
    ++count_;
  }
  int64_t count() const { return count_; }

  // Reduces the sequence to one element by the fixed tree.
  absl::Status reduce() {
    while (count_ > 1) {
      const int64_t chunks = (count_ + kReduceChunk - 1) / kReduceChunk;
      for (int64_t c = 0; c < chunks; ++c)
        LAMINA_RETURN_IF_ERROR(
            reduce_chunk(c, c * kReduceChunk, std::min(kReduceChunk, count_ - c * kReduceChunk)));
      count_ = chunks;
    }
    return absl::OkStatus();
  }

  // Element 0 combined with initial values (tree first), or those alone; written to element `at` of the
  // results.
  absl::Status finish(std::span<const LiteralPtr> inits, EvalOut out, int64_t at) {
    std::vector<const void*> in;
    std::vector<void*> to;
    for (size_t i = 0; i < data_.size(); ++i) {
      if (count_ == 0) std::memcpy(out[i]->element(at), inits[i]->data(), widths_[i]);
      in.push_back(data_[i].data());
      to.push_back(out[i]->element(at));
    }
    if (count_ == 0) return absl::OkStatus();
    for (const LiteralPtr& init : inits) in.push_back(init->data());
    return body_.run(in, to, 1);
  }

 private:
  std::byte* at(size_t operand, int64_t element) {
    return data_[operand].data() + element * widths_[operand];
  }

  // lanes [to, to + n) = body(those, lanes [from, from + n)).
  absl::Status combine(int64_t to, int64_t from, int64_t n) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (size_t i = 0; i < data_.size(); ++i) {
      in.push_back(at(i, to));
      out.push_back(at(i, to));
    }
    for (size_t i = 0; i < data_.size(); ++i) in.push_back(at(i, from));
    return body_.run(in, out, n);
  }

  absl::Status reduce_chunk(int64_t result, int64_t begin, int64_t n) {
    for (int64_t i = lanes_; i < n; i += lanes_)
      LAMINA_RETURN_IF_ERROR(combine(begin, begin + i, std::min(lanes_, n - i)));
    int64_t held = std::min(n, lanes_);
    for (int64_t s = lanes_ / 2; s >= 1; s /= 2) {
      if (held > s) LAMINA_RETURN_IF_ERROR(combine(begin, begin + s, held - s));
      held = std::min(held, s);
    }
    for (size_t i = 0; i < data_.size(); ++i) std::memmove(at(i, result), at(i, begin), widths_[i]);
    return absl::OkStatus();
  }

  const RegionRunner& body_;
  std::vector<int64_t> widths_;
  std::vector<std::vector<std::byte>> data_;
  int64_t lanes_ = 1;
  int64_t count_ = 0;
};

absl::Status eval_reduce(const Node& n, EvalIn in, EvalOut out) {
  const size_t m = in.size() / 2;
  const RegionRunner body(*n.attrs().computation(Attr::body));
  const Dims& reduced = n.attrs().ints(Attr::dimensions);
  const Dims strides = row_major_strides(in[0]->dims());
  Dims inner_dims, inner_strides, outer_strides;
  for (int64_t d = 0; d < in[0]->type()->rank(); ++d) {
    if (contains(reduced, d)) {
      inner_dims.push_back(in[0]->dims()[d]);
      inner_strides.push_back(strides[d]);
    } else {
      outer_strides.push_back(strides[d]);
    }
  }
  Sequences sequences(body, in.first(m));
  absl::Status status;
  for_each_index(out[0]->dims(), [&](std::span<const int64_t> outer, int64_t linear) {
    if (!status.ok()) return;
    sequences.clear();
    const int64_t base = linear_index(outer, outer_strides);
    for_each_index(inner_dims, [&](std::span<const int64_t> inner, int64_t) {
      sequences.push(in.first(m), base + linear_index(inner, inner_strides));
    });
    status = sequences.reduce();
    if (status.ok()) status = sequences.finish(in.subspan(m), out, linear);
  });
  return status;
}

// Calls f(element) for the elements of `dims` under the window at `position`, in row-major window order.
template <typename F>
void for_each_in_window(const Dims& dims, const Window& w, std::span<const int64_t> position, F&& f) {
  const Dims strides = row_major_strides(dims);
  for_each_index(w.size, [&](std::span<const int64_t> offset, int64_t) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t p = position[d] * w.stride[d] + offset[d] * w.dilation[d] - w.padding[2 * d];
      if (p < 0 || p % w.base_dilation[d] != 0 || p / w.base_dilation[d] >= dims[d]) return;
      at += p / w.base_dilation[d] * strides[d];
    }
    f(at);
  });
}

absl::Status eval_reduce_window(const Node& n, EvalIn in, EvalOut out) {
  const size_t m = in.size() / 2;
  const RegionRunner body(*n.attrs().computation(Attr::body));
  absl::StatusOr<Window> w = read_window(n.attrs(), in[0]->type()->rank());
  if (!w.ok()) return w.status();
  Sequences sequences(body, in.first(m));
  absl::Status status;
  for_each_index(out[0]->dims(), [&](std::span<const int64_t> position, int64_t linear) {
    if (!status.ok()) return;
    sequences.clear();
    for_each_in_window(in[0]->dims(), *w, position, [&](int64_t at) { sequences.push(in.first(m), at); });
    status = sequences.reduce();
    if (status.ok()) status = sequences.finish(in.subspan(m), out, linear);
  });
  return status;
}

absl::Status eval_select_and_scatter(const Node& n, EvalIn in, EvalOut out) {
  const RegionRunner select(*n.attrs().computation(Attr::select));
  const RegionRunner scatter(*n.attrs().computation(Attr::scatter));
  absl::StatusOr<Window> w = read_window(n.attrs(), in[0]->type()->rank());
  if (!w.ok()) return w.status();
  const int64_t width = byte_size(out[0]->dtype());
  for (int64_t i = 0; i < out[0]->size(); ++i) std::memcpy(out[0]->element(i), in[2]->data(), width);
  absl::Status status;
  for_each_index(in[1]->dims(), [&](std::span<const int64_t> position, int64_t linear) {
    if (!status.ok()) return;
    int64_t chosen = -1;
    for_each_in_window(in[0]->dims(), *w, position, [&](int64_t at) {
      if (!status.ok()) return;
      uint8_t keep = 0;
      if (chosen >= 0) {
        void* result[] = {&keep};
        status = select.run({{in[0]->element(chosen), in[0]->element(at)}}, result, 1);
      }
      if (!keep) chosen = at;
    });
    if (chosen < 0 || !status.ok()) return;
    void* target[] = {out[0]->element(chosen)};
    status = scatter.run({{out[0]->element(chosen), in[1]->element(linear)}}, target, 1);
  });
  return status;
}

// Merge sort: stable, and total even where the comparator is not a strict order.
absl::Status eval_sort(const Node& n, EvalIn in, EvalOut out) {
  const RegionRunner body(*n.attrs().computation(Attr::body));
  const int64_t d = n.attrs().integer(Attr::dimension);
  const Dims& dims = in[0]->dims();
  const int64_t length = dims[d], step = product(std::span(dims).subspan(d + 1));
  if (in[0]->size() == 0) return absl::OkStatus();
  absl::Status status;
  auto before = [&](int64_t a, int64_t b) {
    std::vector<const void*> args;
    for (const LiteralPtr& l : in) {
      args.push_back(l->element(a));
      args.push_back(l->element(b));
    }
    uint8_t result = 0;
    void* to[] = {&result};
    if (status.ok()) status = body.run(args, to, 1);
    return result != 0;
  };
  std::vector<int64_t> order(length), merged(length);
  for (int64_t line = 0; line < in[0]->size() / length; ++line) {
    const int64_t base = line / step * step * length + line % step;
    for (int64_t i = 0; i < length; ++i) order[i] = base + i * step;
    for (int64_t width = 1; width < length; width *= 2) {
      for (int64_t lo = 0; lo < length; lo += 2 * width) {
        const int64_t mid = std::min(lo + width, length), hi = std::min(lo + 2 * width, length);
        int64_t a = lo, b = mid;
        for (int64_t k = lo; k < hi; ++k)
          merged[k] = a < mid && (b >= hi || !before(order[b], order[a])) ? order[a++] : order[b++];
      }
      order.swap(merged);
    }
    for (size_t i = 0; i < in.size(); ++i)
      for (int64_t k = 0; k < length; ++k)
        std::memcpy(out[i]->element(base + k * step), in[i]->element(order[k]), byte_size(in[i]->dtype()));
  }
  return status;
}

absl::Status eval_cumsum(const Node& n, EvalIn in, EvalOut out) {
  reference_cumsum(in[0]->dtype(), cumsum_lines(n), in[0]->data(), out[0]->element(0));
  return absl::OkStatus();
}

}  // namespace

void add_reduction_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, EvalRule eval) {
    table[op].type = type;
    table[op].eval = eval;
  };
  row(Op::reduce, reduce_type, eval_reduce);
  row(Op::reduce_window, reduce_window_type, eval_reduce_window);
  row(Op::select_and_scatter, select_and_scatter_type, eval_select_and_scatter);
  row(Op::sort, sort_type, eval_sort);
  row(Op::cumsum, cumsum_type, eval_cumsum);
}

}  // namespace lamina::hlo
