// Merging and removing operations that only move elements, and windows that are blocks.
#include <algorithm>

#include "hlo/match.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/rewrite.h"

namespace lamina::hlo {
namespace {

const Dims& ints(const Node& n, Attr key) { return n.attrs().ints(key); }

// The scalar of which `v` is a broadcast; null if it is none.
Value broadcast_scalar_of(const Value& v) {
  const Node& n = *v.node();
  return n.op() == Op::broadcast_in_dim && n.operand_type(0)->is_scalar() ? n.operand_value(0) : Value();
}

// Moving the elements of a broadcast scalar gives a broadcast of it; pad and concatenate need the same scalar
// in all operands.
Value move_of_broadcast_scalar(Builder& b, const Node& n) {
  if (n.op() == Op::iota || n.operands().empty() || n.op() == Op::broadcast_in_dim) return {};
  const Value scalar = broadcast_scalar_of(first(n));
  if (!scalar) return {};
  for (size_t i = 1; i < n.operands().size(); ++i) {
    const Value other = n.operand_value(i);
    if (other != scalar && broadcast_scalar_of(other) != scalar) return {};
  }
  return b.broadcast_scalar(scalar, n.type()->dims);
}

// What elements compute from nothing but numbers that they share is computed once.
Value elementwise_of_broadcast_scalars(Builder& b, const Node& n) {
  if (n.type()->num_elements <= 1) return {};
  Values scalars;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    scalars.push_back(broadcast_scalar_of(n.operand_value(i)));
    if (!scalars.back()) return {};
  }
  return b.broadcast_scalar(b.make(n.op(), scalars, &n.attrs()), n.type()->dims);
}

Value broadcast_of_broadcast(Builder& b, const Node& n) {
  const Dims& dims = ints(n, Attr::broadcast_dimensions);
  Value x = first(n);
  if (x.node()->op() == Op::broadcast_in_dim) {
    Dims through;
    for (int64_t d : ints(*x.node(), Attr::broadcast_dimensions)) through.push_back(dims[d]);
    return b.broadcast_in_dim(x.node()->operand_value(0), n.type()->dims, through);
  }
  if (x.node()->op() == Op::reshape && x.node()->operand_type(0)->is_scalar())
    return b.broadcast_scalar(x.node()->operand_value(0), n.type()->dims);
  const Value same = b.broadcast_in_dim(x, n.type()->dims, dims);
  return same == x ? x : Value();
}

Value reshape_of_reshape(Builder& b, const Node& n) {
  Value x = first(n);
  if (x.type() == n.type()) return x;
  if (x.node()->op() != Op::reshape) return {};
  return b.reshape(x.node()->operand_value(0), n.type()->dims);
}

Value transpose_row(Builder& b, const Node& n) {
  const Value x = first(n);
  const Dims& perm = ints(n, Attr::permutation);
  // The order of the dimensions that are longer than 1 is all there is to a transpose.
  int64_t last = -1;
  bool in_order = true;
  for (int64_t p : perm) {
    if (x.dims()[p] == 1) continue;
    in_order &= p > last;
    last = p;
  }
  if (in_order) return b.reshape(x, n.type()->dims);
  if (x.node()->op() == Op::transpose) {
    const Dims& inner = ints(*x.node(), Attr::permutation);
    Dims through;
    for (int64_t p : perm) through.push_back(inner[p]);
    return b.transpose(x.node()->operand_value(0), through);
  }
  // The transpose goes first: lines in the opposite order are read as fast as in order, elements of a line
  // are not.
  if (x.node()->op() == Op::reverse) {
    const Dims& reversed = ints(*x.node(), Attr::dimensions);
    Dims through;
    for (size_t i = 0; i < perm.size(); ++i)
      if (std::find(reversed.begin(), reversed.end(), perm[i]) != reversed.end())
        through.push_back(static_cast<int64_t>(i));
    return b.reverse(b.transpose(x.node()->operand_value(0), perm), through);
  }
  if (x.node()->op() == Op::broadcast_in_dim) {
    Dims inverse(perm.size()), through;
    for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
    for (int64_t d : ints(*x.node(), Attr::broadcast_dimensions)) through.push_back(inverse[d]);
    return b.broadcast_in_dim(x.node()->operand_value(0), n.type()->dims, through);
  }
  return {};
}

Value reverse_row(Builder& b, const Node& n) {
  const Value x = first(n);
  const Dims& dims = ints(n, Attr::dimensions);
  Dims left;
  for (int64_t d : dims)
    if (x.dims()[d] > 1) left.push_back(d);
  if (x.node()->op() == Op::reverse) {
    // What both reverse stays as it was.
    for (int64_t d : ints(*x.node(), Attr::dimensions)) {
      const auto it = std::find(left.begin(), left.end(), d);
      if (it == left.end()) {
        left.push_back(d);
      } else {
        left.erase(it);
      }
    }
    std::sort(left.begin(), left.end());
    return b.reverse(x.node()->operand_value(0), left);
  }
  std::sort(left.begin(), left.end());
  return left != dims ? b.reverse(x, left) : Value();
}

Value slice_row(Builder& b, const Node& n) {
  const Value x = first(n);
  const Dims &start = ints(n, Attr::start_indices), &limit = ints(n, Attr::limit_indices),
             &step = ints(n, Attr::strides);
  // Nothing is left out (where the range is the whole dimension, a stride matters unless its length is 1).
  if (x.type() == n.type()) return x;
  if (n.type()->num_elements == 0) return {};
  const Node& inner = *x.node();
  if (inner.op() == Op::slice) {
    const Dims &start0 = ints(inner, Attr::start_indices), &step0 = ints(inner, Attr::strides);
    Dims from, to, by;
    for (size_t d = 0; d < start.size(); ++d) {
      const int64_t size = n.type()->dims[d];
      from.push_back(start0[d] + start[d] * step0[d]);
      by.push_back(size > 1 ? step[d] * step0[d] : 1);
      to.push_back(from[d] + (size - 1) * by[d] + 1);
    }
    return b.slice(inner.operand_value(0), from, to, by);
  }
  if (inner.op() == Op::concatenate) {
    // A range within one of the arrays joined.
    const int64_t d = inner.attrs().integer(Attr::dimension);
    int64_t begin = 0;
    for (size_t i = 0; i < inner.operands().size(); ++i) {
      const int64_t size = inner.operand_type(i)->dims[d];
      if (start[d] >= begin && limit[d] <= begin + size) {
        Dims from = start, to = limit;
        from[d] -= begin;
        to[d] -= begin;
        return b.slice(inner.operand_value(i), from, to, step);
      }
      begin += size;
    }
  }
  return {};
}

// Padding of what is padded with the same number, as one; null if elements that the first takes away, or gaps
// that the second makes in the padding of the first, are in the way.
Value pad_of_pad(Builder& b, const Node& n) {
  const Node& m = *first(n).node();
  if (m.op() != Op::pad || m.operand(1) != n.operand(1)) return {};
  constexpr int64_t kMost = int64_t{1} << 56;
  Dims low = ints(m, Attr::edge_padding_low), high = ints(m, Attr::edge_padding_high),
       inner = ints(m, Attr::interior_padding);
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t more_low = ints(n, Attr::edge_padding_low)[d],
                  more_high = ints(n, Attr::edge_padding_high)[d],
                  more_inner = ints(n, Attr::interior_padding)[d];
    if (more_low == 0 && more_high == 0 && more_inner == 0) continue;
    if (low[d] < 0 || high[d] < 0) return {};
    if (more_inner != 0 && (low[d] != 0 || high[d] != 0 || inner[d] != 0)) return {};
    if (std::max({low[d], high[d], std::abs(more_low), std::abs(more_high)}) > kMost) return {};
    low[d] += more_low;
    high[d] += more_high;
    inner[d] += more_inner;
  }
  return b.pad(m.operand_value(0), n.operand_value(1), low, high, inner);
}

Value pad_row(Builder& b, const Node& n) {
  if (const Value one = pad_of_pad(b, n)) return one;
  const Value x = first(n);
  if (x.type() != n.type()) return {};
  const Dims &low = ints(n, Attr::edge_padding_low), &inner = ints(n, Attr::interior_padding);
  for (size_t d = 0; d < low.size(); ++d)
    if (low[d] != 0 || (inner[d] != 0 && x.dims()[d] > 1)) return {};
  return x;
}

// Two slices that follow each other in one array along `d`, as one; null if they are not.
Value joined_slices(Builder& b, const Value& x, const Value& y, int64_t d) {
  const Node &p = *x.node(), &q = *y.node();
  if (p.op() != Op::slice || q.op() != Op::slice || p.operand(0) != q.operand(0)) return {};
  const Dims &p0 = ints(p, Attr::start_indices), &p1 = ints(p, Attr::limit_indices),
             &ps = ints(p, Attr::strides);
  const Dims &q0 = ints(q, Attr::start_indices), &q1 = ints(q, Attr::limit_indices),
             &qs = ints(q, Attr::strides);
  for (size_t k = 0; k < p0.size(); ++k) {
    const bool along = static_cast<int64_t>(k) == d;
    if (along ? (ps[k] != 1 || qs[k] != 1 || q0[k] != p1[k])
              : (p0[k] != q0[k] || p1[k] != q1[k] || ps[k] != qs[k]))
      return {};
  }
  Dims limit = p1;
  limit[d] = q1[d];
  return b.slice(p.operand_value(0), p0, limit, ps);
}

Value concatenate_row(Builder& b, const Node& n) {
  const int64_t d = n.attrs().integer(Attr::dimension);
  Values pieces;
  bool changed = false;
  auto add = [&](const Value& v) {
    if (v.dims()[d] == 0 && n.type()->dims[d] != 0) {
      changed = true;
      return;
    }
    if (!pieces.empty()) {
      if (const Value joined = joined_slices(b, pieces.back(), v, d)) {
        pieces.back() = joined;
        changed = true;
        return;
      }
    }
    pieces.push_back(v);
  };
  constexpr size_t kMaxPieces = 4096;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    const Value v = n.operand_value(i);
    const Node& inner = *v.node();
    if (inner.op() == Op::concatenate && inner.attrs().integer(Attr::dimension) == d &&
        pieces.size() + inner.operands().size() + n.operands().size() < kMaxPieces) {
      for (size_t k = 0; k < inner.operands().size(); ++k) add(inner.operand_value(k));
      changed = true;
    } else {
      add(v);
    }
  }
  if (pieces.size() == 1) return pieces[0];
  return changed ? b.concatenate(pieces, d) : Value();
}

// Whether the operands from `first` on are made of parameters and numbers by a few steps, none of which asks
// the host: checks of indices do, and stay where what they return is used.
bool asks_nobody(const Node& n, size_t first) {
  constexpr size_t kFew = 32;
  return made_by_few(n.operands().subspan(first), kFew, [](const Node& m) {
    constexpr Op kMade[] = {Op::parameter,        Op::constant, Op::iota,
                            Op::broadcast_in_dim, Op::reshape,  Op::slice};
    return m.def().is_elementwise() ||
           std::find(std::begin(kMade), std::end(kMade), m.op()) != std::end(kMade);
  });
}

Value dynamic_slice_row(Builder& b, const Node& n) {
  const Value x = first(n), scalar = broadcast_scalar_of(x);
  if ((x.type() == n.type() || scalar) && asks_nobody(n, 1))
    return scalar ? b.broadcast_scalar(scalar, n.type()->dims) : x;
  Dims from, to;
  for (size_t d = 0; d + 1 < n.operands().size(); ++d) {
    const Literal* literal = match::uniform_literal(n.operand_value(d + 1));
    if (!literal) return {};
    int64_t start = literal->int_at(0);
    if (literal->dtype() == DType::kU64 && start < 0) start = std::numeric_limits<int64_t>::max();
    const int64_t size = n.type()->dims[d];
    from.push_back(std::clamp<int64_t>(start, 0, x.dims()[d] - size));
    to.push_back(from.back() + size);
  }
  return b.slice(x, from, to);
}

Value dynamic_update_slice_row(Builder&, const Node& n) {
  const Value x = first(n), update = n.operand_value(1);
  if (update.type() == x.type() && asks_nobody(n, 2)) return update;
  if (update.type()->num_elements == 0 && asks_nobody(n, 2)) return x;
  return {};
}

// Windows that lie side by side are the blocks of a reshaped array: their elements come in the same order,
// and loops over rows of results take the place of a walk from window to window.
Value reduce_window_row(Builder& b, const Node& n) {
  if (n.operands().size() != 2) return {};
  const auto all = [&](Attr key, int64_t value) {
    return std::ranges::all_of(ints(n, key), [&](int64_t v) { return v == value; });
  };
  if (!all(Attr::padding, 0) || !all(Attr::base_dilations, 1) || !all(Attr::window_dilations, 1)) return {};
  const Value x = first(n);
  const Dims &sizes = ints(n, Attr::window_dimensions), &strides = ints(n, Attr::window_strides);
  const Dims& positions = n.type()->dims;
  Dims used, blocks, inside;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (positions[d] > 1 && (strides.empty() ? 1 : strides[d]) != sizes[d]) return {};
    used.push_back(positions[d] * sizes[d]);
    blocks.push_back(positions[d]);
    if (sizes[d] == 1) continue;
    inside.push_back(static_cast<int64_t>(blocks.size()));
    blocks.push_back(sizes[d]);
  }
  const Value kept = b.slice(x, Dims(sizes.size(), 0), used);
  return b.reduce({{b.reshape(kept, blocks)}}, {{n.operand_value(1)}}, n.attrs().computation(Attr::body),
                  inside)[0];
}

const RewriteRow kShapeRows[] = {
    {"move of a broadcast scalar", OpFamily::kShape, move_of_broadcast_scalar},
    {"elementwise of broadcast scalars", OpFamily::kElementwise, elementwise_of_broadcast_scalars},
    {"broadcast of broadcast", Op::broadcast_in_dim, broadcast_of_broadcast},
    {"reshape of reshape", Op::reshape, reshape_of_reshape},
    {"transpose", Op::transpose, transpose_row},
    {"reverse", Op::reverse, reverse_row},
    {"slice", Op::slice, slice_row},
    {"pad by nothing or of a pad", Op::pad, pad_row},
    {"concatenate", Op::concatenate, concatenate_row},
    {"dynamic_slice at a known place or of one number", Op::dynamic_slice, dynamic_slice_row},
    {"windows side by side", Op::reduce_window, reduce_window_row},
    {"dynamic_update_slice of all or nothing", Op::dynamic_update_slice, dynamic_update_slice_row},
};

}  // namespace

absl::StatusOr<ComputationPtr> simplify_shapes(const ComputationPtr& computation) {
  return rewrite(computation, kShapeRows);
}

}  // namespace lamina::hlo
