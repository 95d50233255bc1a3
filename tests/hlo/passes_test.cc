// What passes do to graphs that no text can write.
#include <catch2/catch.hpp>

#include "hlo/builder.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/rewrite.h"
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

TEST_CASE("a transpose goes before what reverses its operand", "[passes]") {
  const Value p = make_parameter(array_type_or_die(DType::kF32, {{2, 3, 4}}));
  Builder b;
  const Value turned = b.transpose(b.reverse(p, Dims{0, 2}), Dims{2, 0, 1});
  const absl::StatusOr<ComputationPtr> simple = simplify(*Computation::make({{p}}, {{turned}}));
  REQUIRE(simple.ok());
  const Node* reverse = (*simple)->roots()[0].node();
  REQUIRE(reverse->op() == Op::reverse);
  CHECK(reverse->attrs().ints(Attr::dimensions) == Dims{0, 1});
  CHECK(reverse->operand(0).node()->op() == Op::transpose);
}

int g_looked_at = 0;

TEST_CASE("what rows leave as it is, they do not look at again", "[passes]") {
  const Value p = make_parameter(array_type_or_die(DType::kF32, {}));
  Builder b;
  const absl::StatusOr<ComputationPtr> made = Computation::make({{p}}, {{b.add(p, b.sine(p))}});
  REQUIRE(made.ok());
  const auto count = [](Builder&, const Node&) -> Value {
    ++g_looked_at;
    return Value();
  };
  const RewriteRow rows[] = {{"counts", Op::sine, count}}, others[] = {{"counts too", Op::sine, count}};
  g_looked_at = 0;
  {
    NormalForms known;
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<ComputationPtr> same = rewrite(*made, rows);
      REQUIRE(same.ok());
      CHECK(*same == *made);
    }
    CHECK(g_looked_at == 1);
    CHECK(rewrite(*made, others).ok());
    CHECK(g_looked_at == 2);
  }
  CHECK(rewrite(*made, rows).ok());
  CHECK(g_looked_at == 3);
}

}  // namespace
}  // namespace lamina::hlo
