// Graphs that break one rule each, made past the builder, and what the verifier says of them.
#include "hlo/verifier.h"

#include <catch2/catch.hpp>

#include "hlo/builder.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/printer.h"

namespace lamina::hlo {
namespace {

const Type* f32(std::initializer_list<int64_t> dims) {
  return array_type_or_die(DType::kF32, std::span(dims));
}

Value raw(Op op, const Type* type, std::span<const Operand> operands, const Attrs* attrs = no_attrs()) {
  GraphLock lock;
  return make_node(op, type, attrs, operands);
}

ComputationPtr close(std::span<const Value> parameters, std::span<const Value> roots) {
  absl::StatusOr<ComputationPtr> c = Computation::make(parameters, roots);
  REQUIRE(c.ok());
  return *c;
}

// The computation (p) -> (root), checked; the message.
std::string why(const Value& p, const Value& root, VerifyLevel level = VerifyLevel::kTypes) {
  const ComputationPtr c = close({{p}}, {{root}});
  return std::string(verify(*c, level).message());
}

using Catch::Matchers::Contains;

TEST_CASE("a sound computation passes every level", "[verifier]") {
  const Value p = make_parameter(f32({3}));
  Builder b;
  const Value sum = b.reduce(b.exponential(p), Op::add, b.scalar(DType::kF32, 0), {{0}});
  for (VerifyLevel level : {VerifyLevel::kStructure, VerifyLevel::kTypes, VerifyLevel::kText})
    CHECK(why(p, sum, level).empty());
}

TEST_CASE("broken structure", "[verifier]") {
  const Value p = make_parameter(f32({3})), q = make_parameter(f32({3}));
  const Operand o = p.operand();
  Builder b;

  // Of a type that no sound computation of this signature has, which would be found in place of the wrong
  // one.
  const Type* odd = f32({7, 1, 1, 3, 1});
  const Value twice = make_parameter(odd);
  CHECK_THAT(std::string(verify(*close({{twice, twice}}, {{twice}})).message()),
             Contains("parameter 1 stands in the list twice"));
  const Value constant = b.constant(std::make_shared<Literal>(odd));
  CHECK_THAT(std::string(verify(*close({{constant}}, {{constant}})).message()),
             Contains("parameter 0 is made by constant, not a parameter"));
  CHECK_THAT(why(make_parameter(tuple_type({{f32({3}), f32({3})}})), constant),
             Contains("parameter 0 is a tuple"));
  // A computation that is not closed is not even made.
  CHECK_FALSE(Computation::make({{p}}, {{b.add(p, q)}}).ok());

  CHECK_THAT(why(p, raw(Op::add, f32({3}), {{o}})),
             Contains("operation 1 (add) has 1 operands where 2 are needed"));
  CHECK_THAT(why(p, raw(Op::abs, f32({3}), {{Operand(p.node(), 4)}})),
             Contains("uses as operand 0 result 4 of parameter, which has 1"));
  CHECK_THAT(why(p, Value(b.abs(p).node(), 2)), Contains("result 0 names a result that its operation lacks"));
}

TEST_CASE("broken attributes", "[verifier]") {
  const Value p = make_parameter(f32({3}));
  const Operand o = p.operand();
  CHECK_THAT(why(p, raw(Op::convert, f32({3}), {{o}})), Contains("(convert) lacks the attribute dtype"));
  CHECK_THAT(why(p, raw(Op::abs, f32({3}), {{o}}, intern_attrs({{Attr::dimension, int64_t{1}}}))),
             Contains("(abs) has the attribute dimension, which it does not take"));
  CHECK_THAT(why(p, raw(Op::reverse, f32({3}), {{o}}, intern_attrs({{Attr::dimensions, int64_t{1}}}))),
             Contains("(reverse) has the attribute dimensions of the wrong kind"));
  CHECK_THAT(why(p, raw(Op::reduce, f32({}), {{o, o}}, intern_attrs({{Attr::dimensions, Dims{0}}}))),
             Contains("(reduce) lacks the attribute body"));
  const Value index = make_parameter(scalar_type(DType::kS32));
  const Attrs* branches = intern_attrs({{Attr::branches, std::vector<ComputationPtr>{nullptr}}});
  CHECK_THAT(why(index, raw(Op::case_, tuple_type({}), {{index.operand()}}, branches)),
             Contains("(case) has no computation where branches names one") ||
                 Contains("result 0 names a result that its operation lacks"));
}

TEST_CASE("broken types", "[verifier]") {
  const Value p = make_parameter(f32({3}));
  const Operand o = p.operand();
  CHECK_THAT(why(p, raw(Op::abs, f32({4}), {{o}})), Contains("(abs) is f32[4] where its rule gives f32[3]"));
  CHECK_THAT(why(p, raw(Op::not_, f32({3}), {{o}})),
             Contains("breaks its type rule: is defined for pred, signed"));
  CHECK_THAT(why(p, raw(Op::transpose, f32({3}), {{o}}, intern_attrs({{Attr::permutation, Dims{1}}}))),
             Contains("breaks its type rule: permutation [1] must lie in 0..0"));
  // A region of the wrong signature.
  const Type* scalar = scalar_type(DType::kF32);
  const auto body =
      record_region({{scalar}}, [](Builder&, std::span<const Value> ps) { return Values{ps[0]}; });
  REQUIRE(body.ok());
  CHECK_THAT(why(p, raw(Op::reduce, scalar, {{o, o}},
                        intern_attrs({{Attr::dimensions, Dims{0}}, {Attr::body, *body}}))),
             Contains("breaks its type rule"));
  // Level structure does not look at types.
  CHECK(why(p, raw(Op::abs, f32({4}), {{o}}), VerifyLevel::kStructure).empty());
}

TEST_CASE("a fault inside a region, with its place", "[verifier]") {
  const Value x = make_parameter(f32({}));
  Value wrong;
  {
    LocationScope scope(intern_location("model.py", 7, "step"));
    wrong = raw(Op::exponential, f32({2}), {{x.operand()}});
  }
  const ComputationPtr inner = close({{x}}, {{wrong}});
  const Value p = make_parameter(f32({}));
  const Value call = raw(Op::call, f32({2}), {{p.operand()}}, intern_attrs({{Attr::body, inner}}));
  CHECK_THAT(why(p, call),
             Contains("computation r0: operation 1 (exponential, recorded at model.py:7) is f32[2]"));
}

TEST_CASE("text that says something else is found", "[verifier]") {
  const Value p = make_parameter(f32({3}));
  // The text form has no way to write a scalar operation of constants, which the builder folds.
  const Value one = Builder().scalar(DType::kF32, 1);
  const Value sum = raw(Op::add, f32({}), {{one.operand(), one.operand()}});
  CHECK(why(p, sum, VerifyLevel::kTypes).empty());
  CHECK_THAT(why(p, sum, VerifyLevel::kText), Contains("reads back as another computation"));
}

}  // namespace
}  // namespace lamina::hlo
