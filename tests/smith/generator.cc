#include "tests/smith/generator.h"

#include <algorithm>
#include <cstdlib>

#include "hlo/op.h"
#include "hlo/printer.h"
#include "tests/smith/text_cases.h"

namespace lamina::testing {
namespace {

using namespace hlo;

// Records one computation and, through others of its kind, the regions in it.
class Smith {
 public:
  // `space`: of a step that works element by element on arrays of these dims and on scalars; else null.
  Smith(uint64_t* state, const SmithOptions& options, int depth, const Dims* space = nullptr)
      : state_(state), options_(options), depth_(depth), space_(space) {}

  ComputationPtr program() {
    for (int i = 0; i < options_.parameters; ++i) add_parameter(random_type());
    grow(options_.operations);
    Values roots;
    for (int64_t n = 1 + pick(6); n > 0; --n) roots.push_back(recent());
    return close(roots);
  }

  // A region of given parameters; results of `results`' types, or of any if it is null (then at least one).
  ComputationPtr region(std::span<const Type* const> parameters, const std::vector<const Type*>* results) {
    for (const Type* t : parameters) add_parameter(t);
    grow(1 + static_cast<int>(pick(space_ ? 8 : 4)));
    Values roots;
    if (results) {
      for (const Type* t : *results) roots.push_back(value_of(t));
    } else {
      for (int64_t n = 1 + pick(2); n > 0; --n) roots.push_back(recent());
    }
    return close(roots);
  }

  // One attempt to record `op`; false if what was drawn does not fit.
  bool record(Op op) {
    b_ = Builder();
    Values made;
    switch (op_def(op).family) {
      case OpFamily::kStructure:
        made = structure(op);
        break;
      case OpFamily::kElementwise:
        made = elementwise(op);
        break;
      case OpFamily::kShape:
        made = shape(op);
        break;
      case OpFamily::kIndexing:
        made = indexing(op);
        break;
      case OpFamily::kReduction:
        made = reduction(op);
        break;
      case OpFamily::kLinear:
        made = linear(op);
        break;
      case OpFamily::kRandom:
        made = random_bits();
        break;
      case OpFamily::kCollective:
        break;  // no value outside a vmap
      case OpFamily::kControl:
        made = control(op);
        break;
    }
    if (!b_.ok() || made.empty()) return false;
    for (const Value& v : made)
      if (!v || !v.type()->is_array() || v.type()->num_elements > options_.max_elements || !in_space(v))
        return false;
    pool_.insert(pool_.end(), made.begin(), made.end());
    return true;
  }

 private:
  uint64_t next() {
    uint64_t z = (*state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  int64_t pick(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  int64_t between(int64_t low, int64_t high) { return low + pick(high - low + 1); }

  DType random_dtype() {
    // Half of them f32, so that values meet.
    return chance(50) ? DType::kF32 : static_cast<DType>(pick(kNumDTypes));
  }
  Dims random_dims(int64_t rank) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 3, 4, 5, 2, 3, 1, 0};
    Dims dims;
    for (int64_t i = 0; i < rank; ++i) dims.push_back(kSizes[pick(chance(90) ? 9 : 10)]);
    return dims;
  }
  const Type* random_type() {
    static constexpr int64_t kRanks[] = {0, 0, 1, 1, 2, 2, 3};
    return array_type_or_die(random_dtype(), random_dims(kRanks[pick(std::size(kRanks))]));
  }

  void add_parameter(const Type* t) {
    parameters_.push_back(make_parameter(t));
    pool_.push_back(parameters_.back());
  }
  ComputationPtr close(std::span<const Value> roots) {
    const absl::StatusOr<ComputationPtr> c = Computation::make(parameters_, roots);
    if (!c.ok()) std::abort();  // what it records is closed
    return *c;
  }

  Value any_value() {
    return pool_.empty() ? constant(random_type()) : pool_[pick(static_cast<int64_t>(pool_.size()))];
  }
  // Mostly one of the last made.
  Value recent() {
    const auto size = static_cast<int64_t>(pool_.size());
    if (size == 0) return any_value();
    return chance(70) ? pool_[size - 1 - pick(std::min<int64_t>(size, 4))] : any_value();
  }
  template <typename F>
  Value some(F&& fits, const Type* otherwise) {
    const auto size = static_cast<int64_t>(pool_.size());
    for (int i = 0; i < 8 && size > 0; ++i)
      if (const Value& v = pool_[pick(size)]; fits(v)) return v;
    return constant(otherwise);
  }
  Value constant(const Type* t) {
    Builder b;
    if (!chance(40)) return b.constant(random_literal(t, state_));
    return b.broadcast_scalar(b.constant(random_literal(scalar_type(t->dtype), state_)), t->dims);
  }
  Value value_of(const Type* t) {
    return some([t](const Value& v) { return v.type() == t; }, t);
  }
  // An array of the element type and shape.
  Value array(DType t, const Dims& dims) { return value_of(array_type_or_die(t, dims)); }
  Value index_array(const Dims& dims) {
    static constexpr DType kIndex[] = {DType::kS32, DType::kS64, DType::kU8, DType::kS16, DType::kU64};
    return array(kIndex[pick(std::size(kIndex))], dims);
  }

  void grow(int operations) {
    for (int made = 0, tries = 0; made < operations && tries < 40 * operations; ++tries) {
      const Op op = space_       ? element_op()
                    : chance(10) ? (chance(50) ? Op::while_ : Op::scan)
                                 : static_cast<Op>(pick(num_ops()));
      if (in_smith(op) && record(op)) ++made;
    }
  }

  bool in_space(const Value& v) const { return !space_ || v.rank() == 0 || v.dims() == *space_; }
  Op element_op() {
    if (depth_ > 0 && chance(25)) return chance(50) ? Op::while_ : Op::scan;
    if (depth_ > 0 && chance(15)) return Op::case_;
    if (chance(15)) return Op::broadcast_in_dim;
    while (true)
      if (const Op op = static_cast<Op>(pick(num_ops())); op_def(op).is_elementwise()) return op;
  }

  Values structure(Op op) {
    Values operands{any_value()};
    const Attrs* attrs = no_attrs();
    if (op == Op::constant) return {constant(random_type())};
    if (op == Op::optimization_barrier) {
      for (int64_t n = pick(3); n > 0; --n) operands.push_back(any_value());
      if (chance(30)) attrs = intern_attrs({{Attr::instance, pick(4)}});
    }
    return b_.make_multi(op, operands, attrs);
  }

  // Drawn from the schema.
  Values elementwise(Op op) {
    const OpDef& def = op_def(op);
    const Value x = recent();
    Values operands{x};
    while (static_cast<int>(operands.size()) < def.arity) {
      const DType t = chance(80) ? operands.back().dtype() : random_dtype();
      operands.push_back(array(t, x.dims()));
    }
    // A rule may want a condition first.
    if (def.arity > 2 && chance(50)) operands[0] = array(DType::kBool, x.dims());
    std::vector<Attrs::Entry> attrs;
    for (const AttrSpec& spec : def.attrs) {
      if (spec.optional && chance(60)) continue;
      switch (attr_kind(spec.attr)) {
        case AttrKind::kInt:
          attrs.emplace_back(spec.attr, pick(11));
          break;
        case AttrKind::kBool:
          attrs.emplace_back(spec.attr, chance(50));
          break;
        case AttrKind::kDType:
          attrs.emplace_back(spec.attr, random_dtype());
          break;
        case AttrKind::kString: {
          static constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
          const std::string_view word =
              spec.attr == Attr::compare_type ? "TOTALORDER" : kDirections[pick(std::size(kDirections))];
          attrs.emplace_back(spec.attr, std::string(word));
          break;
        }
        default:
          return {};
      }
    }
    return b_.make_multi(op, operands, intern_attrs(std::move(attrs)));
  }

  Dims shuffled(int64_t rank) {
    Dims out;
    for (int64_t i = 0; i < rank; ++i) out.insert(out.begin() + pick(i + 1), i);
    return out;
  }

  Values shape(Op op) {
    const Value x = recent();
    const int64_t rank = x.rank();
    switch (op) {
      case Op::broadcast_in_dim: {
        Dims out = random_dims(rank + pick(3)), at = shuffled(static_cast<int64_t>(out.size()));
        at.resize(rank);
        if (chance(70)) std::sort(at.begin(), at.end());
        for (int64_t i = 0; i < rank; ++i)
          if (x.dims()[i] != 1 || chance(50)) out[at[i]] = x.dims()[i];
        return {b_.broadcast_in_dim(x, out, at)};
      }
      case Op::reshape: {
        Dims out = x.dims();
        if (rank >= 2 && chance(60)) {
          const int64_t i = pick(rank - 1);
          out[i] *= out[i + 1];
          out.erase(out.begin() + i + 1);
        } else {
          out.insert(out.begin() + pick(rank + 1), 1);
        }
        return {b_.reshape(x, out)};
      }
      case Op::transpose:
        return {b_.transpose(x, shuffled(rank))};
      case Op::reverse: {
        Dims dims = shuffled(rank);
        dims.resize(pick(rank + 1));
        return {b_.reverse(x, dims)};
      }
      case Op::slice: {
        Dims start, limit, step;
        for (int64_t d : x.dims()) {
          start.push_back(pick(d + 1));
          limit.push_back(between(start.back(), d));
          step.push_back(1 + pick(3));
        }
        return {b_.slice(x, start, limit, step)};
      }
      case Op::pad: {
        Dims low, high, inner;
        for (int64_t i = 0; i < rank; ++i) {
          low.push_back(between(-1, 2));
          high.push_back(between(-1, 2));
          inner.push_back(pick(3));
        }
        return {b_.pad(x, array(x.dtype(), {}), low, high, inner)};
      }
      case Op::concatenate: {
        if (rank == 0) return {};
        const int64_t d = pick(rank);
        Values xs{x};
        for (int64_t n = pick(3); n > 0; --n) {
          Dims dims = x.dims();
          dims[d] = pick(4);
          xs.push_back(array(x.dtype(), dims));
        }
        return {b_.concatenate(xs, d)};
      }
      case Op::iota: {
        const Dims dims = random_dims(1 + pick(2));
        return {b_.iota(random_dtype(), dims, pick(static_cast<int64_t>(dims.size())))};
      }
      default:
        return {};
    }
  }

  Values indexing(Op op) {
    const Value x = recent();
    const int64_t rank = x.rank();
    Dims sizes;
    for (int64_t d : x.dims()) sizes.push_back(pick(d + 1));
    Values starts;
    for (int64_t i = 0; i < rank; ++i) starts.push_back(index_array({}));
    switch (op) {
      case Op::dynamic_slice:
        return {b_.dynamic_slice(x, starts, sizes)};
      case Op::dynamic_update_slice:
        return {b_.dynamic_update_slice(x, array(x.dtype(), sizes), starts)};
      case Op::gather:
      case Op::scatter: {
        // Rows along one dimension, or single elements, by a list of indices.
        if (rank == 0) return {};
        const int64_t d = pick(rank), count = pick(4);
        const Value indices = index_array({count, 1});
        Dims window{count}, others;
        for (int64_t i = 0; i < rank; ++i) {
          sizes[i] = i == d ? std::min<int64_t>(1, x.dims()[i]) : x.dims()[i];
          if (i != d) {
            window.push_back(sizes[i]);
            others.push_back(static_cast<int64_t>(window.size()) - 1);
          }
        }
        if (op == Op::gather)
          return b_.make_multi(op, {{x, indices}},
                               intern_attrs({{Attr::offset_dims, others},
                                             {Attr::collapsed_slice_dims, Dims{d}},
                                             {Attr::start_index_map, Dims{d}},
                                             {Attr::index_vector_dim, int64_t{1}},
                                             {Attr::slice_sizes, sizes}}));
        // The values first: attributes live only until others have been made.
        const ComputationPtr body = combiner(x.dtype());
        const Value updates = array(x.dtype(), window);
        return b_.make_multi(op, {{x, indices, updates}},
                             intern_attrs({{Attr::update_window_dims, others},
                                           {Attr::inserted_window_dims, Dims{d}},
                                           {Attr::scatter_dims_to_operand_dims, Dims{d}},
                                           {Attr::index_vector_dim, int64_t{1}},
                                           {Attr::body, body}}));
      }
      default:
        return {};
    }
  }

  // (t[], t[]) -> t[].
  ComputationPtr combiner(DType t) {
    const Type* s = scalar_type(t);
    if (chance(25)) {
      std::vector<const Type*> results{s};
      return Smith(state_, options_, 0).region({{s, s}}, &results);
    }
    static constexpr Op kOps[] = {Op::add, Op::multiply, Op::maximum, Op::minimum};
    const Op op = kOps[pick(is_complex(t) ? 2 : 4)];
    return binary_region(op, t);
  }
  ComputationPtr comparison(std::span<const Type* const> types, std::string_view direction) {
    const auto made = record_region(types, [&](Builder& b, std::span<const Value> p) {
      std::vector<std::pair<Attr, AttrValue>> attrs{{Attr::direction, std::string(direction)}};
      if (is_float(p[0].dtype()) && chance(50))
        attrs.emplace_back(Attr::compare_type, std::string("TOTALORDER"));
      return Values{b.make(Op::compare, {{p[0], p[1]}}, intern_attrs(std::move(attrs)))};
    });
    return made.ok() ? *made : nullptr;
  }

  Values reduction(Op op) {
    const Value x = recent();
    const int64_t rank = x.rank();
    const Value init = array(x.dtype(), {});
    Dims size, stride, base, hole, padding;
    for (int64_t i = 0; i < rank; ++i) {
      size.push_back(1 + pick(3));
      stride.push_back(1 + pick(2));
      base.push_back(chance(20) ? 2 : 1);
      hole.push_back(chance(20) ? 2 : 1);
      padding.push_back(pick(2));
      padding.push_back(pick(2));
    }
    switch (op) {
      case Op::reduce: {
        Dims dims = shuffled(rank);
        dims.resize(pick(rank + 1));
        return b_.reduce({{x}}, {{init}}, combiner(x.dtype()), dims);
      }
      case Op::reduce_window:
        return b_.reduce_window({{x}}, {{init}}, combiner(x.dtype()), {size, stride, base, hole, padding});
      case Op::select_and_scatter: {
        if (is_complex(x.dtype())) return {};
        // The windows' shape is that of a reduction over them.
        const Value like =
            b_.reduce_window({{x}}, {{init}}, combiner(x.dtype()), {size, stride, {}, {}, padding})[0];
        if (!like) return {};
        const Type* s = scalar_type(x.dtype());
        const Value source = array(x.dtype(), like.dims());
        return b_.make_multi(op, {{x, source, init}},
                             intern_attrs({{Attr::window_dimensions, size},
                                           {Attr::window_strides, stride},
                                           {Attr::padding, padding},
                                           {Attr::select, comparison({{s, s}}, "GE")},
                                           {Attr::scatter, binary_region(Op::add, x.dtype())}}));
      }
      case Op::sort: {
        if (rank == 0 || is_complex(x.dtype())) return {};
        Values operands{x};
        std::vector<const Type*> types(2, scalar_type(x.dtype()));
        for (int64_t n = pick(2); n > 0; --n) {
          operands.push_back(array(random_dtype(), x.dims()));
          types.insert(types.end(), 2, scalar_type(operands.back().dtype()));
        }
        return b_.make_multi(op, operands,
                             intern_attrs({{Attr::dimension, pick(rank)},
                                           {Attr::is_stable, true},
                                           {Attr::body, comparison(types, chance(50) ? "LT" : "GT")}}));
      }
      case Op::cumsum:
        if (rank == 0 || is_bool(x.dtype())) return {};
        return {b_.cumsum(x, pick(rank), chance(50))};
      default:
        return {};
    }
  }

  Values linear(Op op) {
    const Value x = recent();
    if (op == Op::dot_general) {
      // Dimensions of x in three parts: batching, contracting, its own; y has the first two and one of its
      // own.
      const Dims order = shuffled(x.rank());
      const int64_t batch = pick(x.rank() + 1), contract = pick(x.rank() - batch + 1);
      DotDims d;
      Dims dims;
      for (int64_t i = 0; i < batch + contract; ++i) {
        (i < batch ? d.lhs_batch : d.lhs_contract).push_back(order[i]);
        (i < batch ? d.rhs_batch : d.rhs_contract).push_back(i);
        dims.push_back(x.dims()[order[i]]);
      }
      if (chance(60)) dims.push_back(pick(4));
      return {b_.dot_general(x, array(x.dtype(), dims), d)};
    }
    if (op != Op::convolution || x.rank() < 2) return {};
    const int64_t spatial = x.rank() - 2;
    ConvDims c;
    const Dims xs = shuffled(x.rank()), ws = shuffled(x.rank()), os = shuffled(x.rank());
    c.input_batch = xs[0], c.input_feature = xs[1];
    c.kernel_output_feature = ws[0], c.kernel_input_feature = ws[1];
    c.output_batch = os[0], c.output_feature = os[1];
    Dims kernel(x.rank());
    kernel[ws[0]] = 1 + pick(3);
    kernel[ws[1]] = x.dims()[c.input_feature];
    for (int64_t i = 0; i < spatial; ++i) {
      c.input_spatial.push_back(xs[2 + i]);
      c.kernel_spatial.push_back(ws[2 + i]);
      c.output_spatial.push_back(os[2 + i]);
      kernel[ws[2 + i]] = 1 + pick(3);
      c.window_strides.push_back(1 + pick(2));
      c.padding.push_back(pick(3));
      c.padding.push_back(pick(3));
      c.lhs_dilation.push_back(1 + pick(2));
      c.rhs_dilation.push_back(1 + pick(2));
    }
    return {b_.convolution(x, array(x.dtype(), kernel), c)};
  }

  Values random_bits() {
    static constexpr DType kBits[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
    return b_.make_multi(Op::rng_bit_generator, {{array(DType::kU64, {2})}},
                         intern_attrs({{Attr::rng_algorithm, std::string("THREE_FRY")},
                                       {Attr::dtype, kBits[pick(4)]},
                                       {Attr::shape, random_dims(pick(3))}}));
  }

  Smith inner() { return Smith(state_, options_, depth_ - 1); }

  // A while or scan whose step works element by element: it may become one kernel.
  Values element_loop(Op op) {
    const Dims space = space_ ? *space_ : random_dims(pick(3));
    Values operands;
    std::vector<const Type*> types;
    auto add = [&](const Value& v) {
      operands.push_back(v);
      types.push_back(v.type());
    };
    const auto element_type = [&] { return array_type_or_die(random_dtype(), chance(35) ? Dims() : space); };
    if (op == Op::while_) add(b_.scalar_int(DType::kS32, pick(3)));
    for (int64_t n = 1 + pick(3); n > 0; --n) add(value_of(element_type()));
    const size_t changing = operands.size();
    for (int64_t n = pick(2); n > 0; --n) add(any_value());
    const size_t carried = operands.size();
    const int64_t length = pick(5);
    std::vector<const Type*> results = types;
    Values xs;
    if (op == Op::scan) {
      for (int64_t n = pick(3); n > 0; --n) {
        const Type* slice = element_type();
        Dims dims = slice->dims;
        dims.insert(dims.begin(), length);
        const Type* all = array_type_or_die(slice->dtype, dims);
        xs.push_back(space_ ? constant(all) : value_of(all));
        types.push_back(slice);
      }
      for (int64_t n = space_ ? 0 : pick(3); n > 0; --n) results.push_back(element_type());
    }
    const ComputationPtr step = Smith(state_, options_, depth_ - 1, &space).region(types, &results);
    const auto body = record_region(types, [&](Builder& b, std::span<const Value> p) {
      Values next = inline_computation(b, *step, p);
      if (op == Op::while_) next[0] = b.add(p[0], b.scalar_int(DType::kS32, 1));
      for (size_t i = changing; i < carried; ++i) next[i] = p[i];
      return next;
    });
    if (!body.ok()) return {};
    if (op == Op::scan) return b_.scan(*body, operands, xs, length, chance(50));
    const auto cond = record_region(types, [&](Builder& b, std::span<const Value> p) {
      return Values{b.compare(p[0], b.scalar_int(DType::kS32, length), "LT")};
    });
    return cond.ok() ? b_.while_loop(operands, *cond, *body) : Values();
  }

  Values control(Op op) {
    if (depth_ == 0) return {};
    if ((op == Op::while_ || op == Op::scan) && (space_ || chance(60))) return element_loop(op);
    Values operands;
    std::vector<const Type*> types;
    auto add = [&](const Value& v) {
      operands.push_back(v);
      types.push_back(v.type());
    };
    switch (op) {
      case Op::call: {
        for (int64_t n = pick(3); n > 0; --n) add(any_value());
        return b_.call(inner().region(types, nullptr), operands);
      }
      case Op::case_: {
        for (int64_t n = pick(3); n > 0; --n) add(any_value());
        const auto branch = [&] { return Smith(state_, options_, depth_ - 1, space_); };
        std::vector<ComputationPtr> branches{branch().region(types, nullptr)};
        const std::vector<const Type*> results = branches[0]->result_types();
        for (int64_t n = pick(3); n > 0; --n) branches.push_back(branch().region(types, &results));
        return b_.conditional(array(DType::kS32, {}), branches, operands);
      }
      case Op::while_: {
        // A counter leads.
        const Type* counter = scalar_type(DType::kS32);
        add(b_.scalar_int(DType::kS32, pick(3)));
        for (int64_t n = pick(3); n > 0; --n) add(any_value());
        const int64_t limit = pick(5);
        const auto cond = record_region(types, [&](Builder& b, std::span<const Value> p) {
          return Values{b.compare(p[0], b.scalar_int(DType::kS32, limit), "LT")};
        });
        const ComputationPtr step = inner().region(types, &types);
        const auto body = record_region(types, [&](Builder& b, std::span<const Value> p) {
          Values results = inline_computation(b, *step, p);
          results[0] = b.add(p[0], b.scalar_int(DType::kS32, 1));
          return results;
        });
        if (!cond.ok() || !body.ok() || types[0] != counter) return {};
        return b_.while_loop(operands, *cond, *body);
      }
      case Op::scan: {
        const Value x = any_value();
        const bool scans = x.rank() > 0;
        const int64_t length = scans ? x.dims()[0] : pick(4);
        for (int64_t n = pick(3); n > 0; --n) add(any_value());
        const std::vector<const Type*> carried = types;
        const Values carries = operands;
        Values xs;
        if (scans) {
          xs.push_back(x);
          types.push_back(array_type_or_die(x.dtype(), std::span(x.dims()).subspan(1)));
        }
        std::vector<const Type*> results = carried;
        for (int64_t n = pick(3); n > 0; --n) results.push_back(random_type());
        return b_.scan(inner().region(types, &results), carries, xs, length, chance(50));
      }
      default:
        return {};
    }
  }

  uint64_t* state_;
  const SmithOptions& options_;
  const int depth_;
  const Dims* const space_;
  Builder b_;
  std::vector<Value> parameters_;
  std::vector<Value> pool_;
};

}  // namespace

bool in_smith(Op op) {
  return op != Op::parameter && op != Op::leaf && op != Op::custom_call &&
         op_def(op).family != OpFamily::kCollective;
}

ComputationPtr random_program(uint64_t seed, const SmithOptions& options) {
  // Far apart, so that seeds do not share a stretch of one sequence.
  uint64_t state = (seed + 1) * 0xD1342543DE82EF95u;
  state ^= state >> 29;
  state *= 0xBF58476D1CE4E5B9u;
  return Smith(&state, options, options.depth).program();
}

}  // namespace lamina::testing
