// What passes do to graphs that no text can write.
#include <catch2/catch.hpp>

#include "hlo/builder.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/verifier.h"

namespace lamina::hlo {
namespace {

TEST_CASE("equal nodes that two scopes recorded become one", "[passes]") {
  GraphLock lock;
  const Value p = make_parameter(array_type_or_die(DType::kF32, {}));
  Builder b;
  const Value outside = b.scalar(DType::kF32, 2.5);
  Value inside;
  {
    FloorScope scope(fresh_stamp());
    inside = b.scalar(DType::kF32, 2.5);
  }
  REQUIRE(inside.node() != outside.node());
  const Value product = b.multiply(b.add(p, outside), inside);
  const absl::StatusOr<ComputationPtr> made = Computation::make({{p}}, {{product}});
  REQUIRE(made.ok());
  REQUIRE((*made)->nodes().size() == 5);
  for (const auto pass : {fold, simplify}) {
    const absl::StatusOr<ComputationPtr> simple = pass(*made);
    REQUIRE(simple.ok());
    CHECK((*simple)->nodes().size() == 4);
    CHECK(verify(**simple, VerifyLevel::kText).ok());
  }
}

}  // namespace
}  // namespace lamina::hlo
