// Sessions: what threads share of the graph, and what each has for itself.
#include <catch2/catch.hpp>
#include <thread>

#include "hlo/builder.h"

namespace lamina::hlo {
namespace {

struct Number final : Data {};

Value leaf() { return make_leaf(scalar_type(DType::kF32), new Number); }

template <typename F>
void elsewhere(F&& f) {
  std::thread(std::forward<F>(f)).join();
}

// An argument of a transform that this thread opens, and closes at the end.
struct Open {
  explicit Open(const Value& x) {
    const Operand operand = x.operand();
    const uint32_t stamp = fresh_stamp();
    set_lowest_open(stamp);
    argument = make_fresh_node(Op::identity, x.type(), no_attrs(), std::span(&operand, 1), stamp);
  }
  ~Open() { set_lowest_open(~uint32_t{0}); }
  Value argument;
};

bool open_now(const Value& v) {
  GraphLock lock;
  return is_open(*v.node());
}

}  // namespace

TEST_CASE("threads share no node that both record") {
  const Value x = leaf();
  Builder b;
  const Value here = b.add(x, x);
  CHECK(b.add(x, x) == here);
  elsewhere([&] {
    Builder other;
    const Value there = other.add(x, x);
    CHECK_FALSE(there == here);
    CHECK(other.add(x, x) == there);
    CHECK(there.node()->session() != here.node()->session());
  });
}

TEST_CASE("a session is taken over when its thread has ended") {
  const uint16_t here = session_number();
  uint16_t first = 0, second = 0;
  elsewhere([&] { first = session_number(); });
  elsewhere([&] { second = session_number(); });
  CHECK(first == second);
  CHECK(first != here);
}

TEST_CASE("a value belongs to the transforms of its own thread") {
  const Value x = leaf();
  const Open mine(x);
  Builder b;
  const Value y = b.add(mine.argument, x);
  elsewhere([&] {
    CHECK(open_now(y));
    Value alone, shared, closed;
    {
      const Open theirs(x);
      Builder other;
      alone = other.add(theirs.argument, x);
      shared = other.add(y, alone);
      CHECK(alone.node()->stamp() > y.node()->stamp());
      CHECK_FALSE(alone.node()->shared());
      CHECK(shared.node()->shared());
      CHECK(open_now(alone));
    }
    CHECK_FALSE(open_now(alone));  // though the other thread's transform is older
    CHECK(open_now(shared));
    GraphLock lock;
    set_data(alone.node(), new Number, open_now(alone));
    set_data(shared.node(), new Number, open_now(shared));
    CHECK(alone.node()->op() == Op::leaf);
    CHECK(alone.node()->stamp() == 0);
    CHECK(shared.node()->operands().size() == 2);
  });
}

TEST_CASE("nothing is shared with a transform that has closed") {
  const Value x = leaf();
  Value y;
  {
    const Open mine(x);
    Builder b;
    y = b.add(mine.argument, x);
  }
  elsewhere([&] {
    Builder other;
    CHECK_FALSE(other.add(y, x).node()->shared());
    CHECK_FALSE(open_now(y));
  });
}

TEST_CASE("what is made of a bound value is bound, and bound values of two devices do not meet", "[places]") {
  const Place first = place_of("test:0"), second = place_of("test:1");
  REQUIRE(first != kAnywhere);
  CHECK(place_of("test:0") == first);
  CHECK(place_name(second) == "test:1");
  const Type* const scalar = scalar_type(DType::kF32);
  const Value free = leaf(), here = make_leaf(scalar, new Number, first),
              there = make_leaf(scalar, new Number, second);
  Builder b;
  CHECK(b.add(free, free).node()->place() == kAnywhere);
  const Value sum = b.add(free, here);
  CHECK(sum.node()->place() == first);
  CHECK(b.add(sum, sum).node()->place() == first);
  REQUIRE(b.ok());
  CHECK(!b.add(sum, there));
  CHECK(b.status().message().find("f32[] on test:0 and f32[] on test:1") != absl::string_view::npos);
}

}  // namespace lamina::hlo
