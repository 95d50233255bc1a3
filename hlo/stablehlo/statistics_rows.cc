// Rows of batch normalization and of random numbers, and of collectives among the one process that runs.
#include <numbers>

#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// --- batch normalization: x normalized over all dimensions but the feature's ---

struct Norm {
  OpReader& r;
  Value x;
  int64_t feature;
  Dims others;
  double count = 1;

  static std::optional<Norm> of(OpReader& r) {
    Norm n{r, r.in(0), r.integer({"feature_index"}), {}};
    if (!n.x) return std::nullopt;
    if (n.feature < 0 || n.feature >= n.x.rank() || !is_float(n.x.dtype())) {
      r.fail(str_cat("there is no feature dimension ", n.feature, " of floats in ",
                     hlo::to_string(*n.x.type())));
      return std::nullopt;
    }
    for (int64_t d = 0; d < n.x.rank(); ++d)
      if (d != n.feature) {
        n.others.push_back(d);
        n.count *= static_cast<double>(n.x.dims()[d]);
      }
    return n;
  }

  // One value per feature over the whole array.
  Value spread(const Value& v) const { return r.b.broadcast_in_dim(v, x.dims(), Dims{feature}); }
  Value sum(const Value& v) const { return others.empty() ? v : r.b.reduce_sum(v, others); }
  Value mean(const Value& v) const {
    const Value s = sum(v);
    return r.b.divide(s, r.b.full_like(s, count));
  }
  Value epsilon(const Value& like) const { return r.b.full_like(like, r.real({"epsilon"}, 0)); }
  Value inverse_deviation(const Value& variance) const {
    return r.b.rsqrt(r.b.add(variance, epsilon(variance)));
  }
  Value normalized(const Value& scale, const Value& offset, const Value& mean, const Value& variance) const {
    Builder& b = r.b;
    const Value deviation = b.sqrt(b.add(variance, epsilon(variance)));
    const Value unit = b.divide(b.subtract(x, spread(mean)), spread(deviation));
    return b.add(b.multiply(unit, spread(scale)), spread(offset));
  }
};

void batch_norm_inference(OpReader& r) {
  if (const auto n = Norm::of(r)) r.yield(n->normalized(r.in(1), r.in(2), r.in(3), r.in(4)));
}

void batch_norm_training(OpReader& r) {
  const auto n = Norm::of(r);
  if (!n) return;
  const Value mean = n->mean(n->x);
  const Value centered = r.b.subtract(n->x, n->spread(mean));
  const Value variance = n->mean(r.b.multiply(centered, centered));
  r.yield_all({{n->normalized(r.in(1), r.in(2), mean, variance), mean, variance}});
}

// Cotangents of operand, scale and offset.
void batch_norm_grad(OpReader& r) {
  const auto n = Norm::of(r);
  if (!n) return;
  Builder& b = r.b;
  const Value scale = r.in(1), mean = r.in(2), variance = r.in(3), bar = r.in(4);
  if (!r.ok()) return;
  const Value centered = b.subtract(n->x, n->spread(mean)), inverse = n->inverse_deviation(variance);
  const Value offset_bar = n->sum(bar), along = n->sum(b.multiply(bar, centered));
  const Value scale_bar = b.multiply(along, inverse);
  const Value part = b.divide(b.multiply(along, b.multiply(inverse, inverse)), b.full_like(along, n->count));
  const Value even = b.divide(offset_bar, b.full_like(offset_bar, n->count));
  const Value left = b.subtract(b.subtract(bar, n->spread(even)), b.multiply(centered, n->spread(part)));
  r.yield_all({{b.multiply(left, n->spread(b.multiply(scale, inverse))), scale_bar, offset_bar}});
}

// --- numbers of a hidden state: one stream per operation, the same in every run ---

void rng(OpReader& r) {
  Builder& b = r.b;
  const Dims shape = r.constant_ints(2);
  const Value low = r.in(0), high = r.in(1);
  std::string distribution = r.word({"rng_distribution", "distribution"});
  if (!r.ok()) return;
  const DType t = low.dtype();
  if (is_complex(t)) return r.fail("is not defined for complex numbers");
  auto uniform = [&](uint64_t stream, DType as) {
    auto state = std::make_shared<Literal>(array_type_or_die(DType::kU64, Dims{2}));
    state->as<uint64_t>()[0] = r.tree().at;
    state->as<uint64_t>()[1] = stream << 60;
    const Values made =
        b.make_multi(Op::rng_bit_generator, {{b.constant(std::move(state))}},
                     intern_attrs({{Attr::rng_algorithm, std::string("DEFAULT")},
                                   {Attr::dtype, as == DType::kF64 ? DType::kU64 : DType::kU32},
                                   {Attr::shape, shape}}));
    if (!r.ok()) return Value();
    // As many leading bits as the fraction has, so that 1 is never reached.
    const DType wide = made[1].dtype();
    const int64_t drop = wide == DType::kU64 ? 11 : 8;
    const Value bits = b.shift_right_logical(made[1], b.broadcast_scalar(b.scalar_int(wide, drop), shape));
    const DType real = wide == DType::kU64 ? DType::kF64 : DType::kF32;
    const Value number = b.convert(bits, real);
    return b.multiply(number, b.full_like(number, wide == DType::kU64 ? 0x1p-53 : 0x1p-24));
  };
  const DType work = t == DType::kF64 || byte_size(t) == 8 ? DType::kF64 : DType::kF32;
  auto over = [&](const Value& scalar) { return b.broadcast_scalar(b.convert(scalar, work), shape); };
  const Value u = uniform(0, work);
  if (!u) return;
  if (distribution == "NORMAL") {
    // sqrt(-2 log(1 - u)) cos(2 pi v); low is the mean, high the deviation.
    const Value radius = b.sqrt(b.multiply(b.full_like(u, -2), b.log_plus_one(b.negate(u))));
    const Value v = uniform(1, work);
    const Value wave = b.cosine(b.multiply(v, b.full_like(v, 2 * std::numbers::pi)));
    return r.yield(b.convert(b.add(over(low), b.multiply(over(high), b.multiply(radius, wave))), t));
  }
  if (distribution != "UNIFORM")
    return r.fail(str_cat("the distribution is UNIFORM or NORMAL, not ", in_quotes(distribution)));
  Value spread = b.add(over(low), b.multiply(u, b.subtract(over(high), over(low))));
  if (!is_float(t)) spread = b.floor(spread);
  r.yield(is_bool(t) ? b.compare(u, b.full_like(u, 0.5), "LT") : b.convert(spread, t));
}

// --- collectives: with one process every group is that process ---

void alone(OpReader& r) {
  const AttrTree* groups = r.find({"replica_groups"});
  if (groups && groups->kind == AttrTree::Kind::kDense && r.ints(*groups).size() > 1)
    return r.fail("more than one process takes part; one process runs this program");
  const Values xs = r.ins();
  if (xs.size() != r.num_results()) return r.fail("gives as many arrays as it takes");
  r.yield_all(xs);
}

// Without a group to send it the array is zero.
void collective_broadcast(OpReader& r) {
  const AttrTree* groups = r.find({"replica_groups"});
  if (groups && groups->kind == AttrTree::Kind::kDense && r.ints(*groups).empty())
    return r.yield(r.b.zeros_like(r.in(0)));
  alone(r);
}

// [[0, 0]] keeps the array; without a source it is zero.
void collective_permute(OpReader& r) {
  const Dims pairs = r.ints({"source_target_pairs"});
  const Value x = r.in(0);
  for (const int64_t p : pairs)
    if (p != 0) return r.fail("more than one process takes part; one process runs this program");
  r.yield(pairs.empty() ? r.b.zeros_like(x) : x);
}

constexpr NamedRow kStatisticsRows[] = {
    {"stablehlo.batch_norm_inference", batch_norm_inference},
    {"stablehlo.batch_norm_training", batch_norm_training},
    {"stablehlo.batch_norm_grad", batch_norm_grad},
    {"stablehlo.rng", rng},
    {"stablehlo.all_gather", alone},
    {"stablehlo.all_reduce", alone},
    {"stablehlo.all_to_all", alone},
    {"stablehlo.reduce_scatter", alone},
    {"stablehlo.collective_broadcast", collective_broadcast},
    {"stablehlo.cross-replica-sum", alone},
    {"stablehlo.collective_permute", collective_permute},
};

}  // namespace

std::span<const NamedRow> statistics_rows() { return kStatisticsRows; }

}  // namespace lamina::hlo::stablehlo
