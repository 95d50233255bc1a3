// Costs decide what is fused, and nothing else.
#include "cluster/costs.h"

#include <catch2/catch.hpp>

#include "cluster/fuse.h"
#include "hlo/builder.h"

using namespace lamina;
using namespace lamina::hlo;

TEST_CASE("A kernel grows up to the size that the target's costs say", "[cluster]") {
  const Type* type = array_type_or_die(DType::kF32, {{64}});
  const Value x = make_parameter(type);
  Builder b;
  Values results;
  Value v = x;
  for (int i = 0; i < 12; ++i) results.push_back(v = b.sine(v));
  const auto program = *Computation::make({{x}}, results);
  const auto kernels = [&](const cluster::Costs& costs) {
    size_t loops = 0;
    for (const cluster::Group& g : cluster::make_fusion_plan(*program, costs).groups)
      loops += g.kind == cluster::GroupKind::kLoop;
    return loops;
  };
  cluster::Costs costs;
  CHECK(kernels(costs) == 1);
  costs.max_group_anchors = 4;
  CHECK(kernels(costs) == 3);
  costs.max_group_anchors = 1;
  CHECK(kernels(costs) == 12);
}

TEST_CASE("A large transpose gets its own kernel where its reader could not turn it by tiles", "[cluster]") {
  const auto kernels = [&](int64_t side, auto make) {
    const Value x = make_parameter(array_type_or_die(DType::kF32, {{side, side}})),
                y = make_parameter(x.type()),
                factor = make_parameter(array_type_or_die(DType::kF32, {{side}}));
    Builder b;
    const Value result =
        make(b, x, b.transpose(y, Dims{1, 0}), b.broadcast_in_dim(factor, Dims{side, side}, Dims{1}));
    return cluster::make_fusion_plan(**Computation::make({{x, y, factor}}, {{result}}), cluster::Costs())
        .groups.size();
  };
  const auto total = [](Builder& b, Value v) {
    return b.reduce(v, Op::add, b.scalar(DType::kF32, 0), Dims{1});
  };
  const auto sum = [&](Builder& b, Value x, Value turned, Value) {
    return total(b, b.add(b.sine(turned), x));
  };
  const auto concatenated = [](Builder& b, Value x, Value turned, Value) {
    return b.concatenate({{turned, x}}, 0);
  };
  const auto lines_backwards = [](Builder& b, Value, Value turned, Value) {
    return b.reverse(turned, Dims{1});
  };
  const auto elements_backwards = [](Builder& b, Value, Value turned, Value) {
    return b.reverse(turned, Dims{0});
  };
  const auto one_order = [&](Builder& b, Value, Value turned, Value factor) {
    return total(b, b.multiply(turned, factor));
  };
  const auto elementwise = [](Builder& b, Value x, Value turned, Value) { return b.add(turned, x); };
  CHECK(kernels(256, sum) == 2);
  CHECK(kernels(256, concatenated) == 2);
  CHECK(kernels(256, elements_backwards) == 2);
  CHECK(kernels(256, lines_backwards) == 1);
  CHECK(kernels(256, one_order) == 1);
  CHECK(kernels(256, elementwise) == 1);
  CHECK(kernels(32, sum) == 1);
  CHECK(kernels(32, concatenated) == 1);
}

TEST_CASE("Large concatenations of many pieces are copied, not computed piece by piece", "[cluster]") {
  const auto groups = [](int64_t size, int pieces) {
    Values parameters, parts;
    Builder b;
    for (int i = 0; i < pieces; ++i) {
      parameters.push_back(make_parameter(array_type_or_die(DType::kF32, {{size}})));
      parts.push_back(i == 0 ? b.negate(parameters[0]) : parameters.back());
    }
    const Value result = b.sqrt(b.concatenate(parts, 0));
    return cluster::make_fusion_plan(**Computation::make(parameters, {{result}}), cluster::Costs())
        .groups.size();
  };
  CHECK(groups(20, 10) == 1);
  CHECK(groups(20000, 3) == 1);
  CHECK(groups(20000, 10) == 3);  // the piece that is computed, the copy, its square root
}

TEST_CASE(
    "Few columns side by side are one kernel with what they are made of, where that is over their elements",
    "[cluster]") {
  cluster::Costs costs;
  const auto kernels = [&](int64_t columns, auto use) {
    Builder b;
    Values parameters, pieces;
    for (int64_t c = 0; c < columns; ++c) {
      const Value x = make_parameter(array_type_or_die(DType::kF32, {{1000, 1}}));
      Value piece = x;
      for (int64_t i = 0; i < 8; ++i) piece = b.add(b.multiply(piece, x), x);
      parameters.push_back(x);
      pieces.push_back(piece);
    }
    const Value result = use(b, b.concatenate(pieces, 1));
    size_t loops = 0;
    for (const cluster::Group& g :
         cluster::make_fusion_plan(**Computation::make(parameters, {{result}}), costs).groups)
      loops += g.kind == cluster::GroupKind::kLoop;
    return loops;
  };
  const auto alone = [](Builder&, Value v) { return v; };
  const auto scaled = [](Builder& b, Value v) { return b.add(b.sine(v), v); };
  const auto total = [](Builder& b, Value v) {
    return b.reduce(v, Op::add, b.scalar(DType::kF32, 0), Dims{1});
  };
  CHECK(kernels(4, alone) == 1);
  CHECK(kernels(3, scaled) == 1);
  CHECK(kernels(3, total) > 1);
  CHECK(kernels(8, alone) == 1);
  CHECK(kernels(8, scaled) == 1);
  CHECK(kernels(9, alone) > 1);
  costs.most_columns = 1;
  CHECK(kernels(3, alone) > 1);
}

TEST_CASE(
    "What is spread and reshaped is computed again where its few operations are, for each of its readers",
    "[cluster]") {
  // The forces between all pairs of points: their differences, 12 bytes each, are read by two sums.
  const Type* const points = array_type_or_die(DType::kF32, {{500, 3}});
  const auto kernels = [&](int64_t dear) {
    const Value p = make_parameter(points);
    Builder b;
    const Dims all = {500, 500, 3};
    const auto side = [&](Dims shape) { return b.broadcast_in_dim(b.reshape(p, shape), all, Dims{0, 1, 2}); };
    Value difference = b.subtract(side({1, 500, 3}), side({500, 1, 3}));
    for (int64_t i = 0; i < dear; ++i) difference = b.multiply(difference, side({1, 500, 3}));
    const Value zero = b.scalar(DType::kF32, 0);
    const Value square = b.reduce(b.multiply(difference, difference), Op::add, zero, Dims{2});
    const Value factor = b.broadcast_in_dim(b.rsqrt(square), all, Dims{0, 1});
    const Value force = b.reduce(b.multiply(difference, factor), Op::add, zero, Dims{1});
    return cluster::make_fusion_plan(**Computation::make({{p}}, {{force}}), cluster::Costs()).groups.size();
  };
  CHECK(kernels(0) == 2);  // distances, forces
  CHECK(kernels(8) == 3);  // and the differences
}
