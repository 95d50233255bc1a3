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
    for (const cluster::Group& g : cluster::make_plan(*program, costs).groups)
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
