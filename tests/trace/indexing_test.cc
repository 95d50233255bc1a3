#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::Attr;
using hlo::Op;

TEST_CASE("derivatives of dynamic slices", "[trace]") {
  Numbers n;
  // The starts 3 and -1 are clamped.
  for (int32_t start : {1, 3, -1}) {
    check_grads(
        [](Builder& b, std::span<const Value> x) {
          return Values{b.dynamic_slice(x[0], {{x[1], b.scalar_int(DType::kS32, 1)}}, {{2, 2}})};
        },
        {n.array({4, 3}), integers({}, {start})});
    check_grads(
        [](Builder& b, std::span<const Value> x) {
          return Values{b.dynamic_update_slice(x[0], x[1], {{x[2], b.scalar_int(DType::kS32, 1)}})};
        },
        {n.array({4, 3}), n.array({2, 2}), integers({}, {start})});
  }
}

TEST_CASE("small index types reach as far as they can", "[trace]") {
  // Starts of type u8 in 300 elements: the clamp to 298 does not fit the type.
  const uint8_t starts[] = {0, 7, 255};
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.dynamic_slice(x[0], {{x[1]}}, {{2}})};
  };
  Numbers n;
  const LiteralPtr data = n.array({300}),
                   index = hlo::Literal::copy_of(hlo::array_type_or_die(DType::kU8, {{3}}), starts);
  const auto out = run(vmap_of(f, {false, true}, 3), {data, index})[0];
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < 2; ++i) CHECK(out->as<double>()[2 * k + i] == data->as<double>()[starts[k] + i]);
}

TEST_CASE("derivatives of gathers", "[trace]") {
  Numbers n;
  auto gather = [](std::vector<hlo::Attrs::Entry> a) -> Fn {
    const hlo::Attrs* attrs = hlo::intern_attrs(std::move(a));
    return [=](Builder& b, std::span<const Value> x) {
      return Values{b.make(Op::gather, {{x[0], x[1]}}, attrs)};
    };
  };
  // Rows, with a repeated and two clamped ones.
  check_grads(gather({{Attr::offset_dims, Dims{1}},
                      {Attr::collapsed_slice_dims, Dims{0}},
                      {Attr::start_index_map, Dims{0}},
                      {Attr::index_vector_dim, int64_t{1}},
                      {Attr::slice_sizes, Dims{1, 3}}}),
              {n.array({4, 3}), integers({5}, {2, 0, 2, 9, -4})});
  // Windows by index pairs along dimension 0 of the indices, output dims interleaved.
  check_grads(gather({{Attr::offset_dims, Dims{0, 2}},
                      {Attr::start_index_map, Dims{1, 0}},
                      {Attr::index_vector_dim, int64_t{0}},
                      {Attr::slice_sizes, Dims{2, 2}}}),
              {n.array({4, 5}), integers({2, 3}, {1, 4, 0, 2, 1, 3})});
  // One gather per batch.
  check_grads(gather({{Attr::offset_dims, Dims{2}},
                      {Attr::collapsed_slice_dims, Dims{1}},
                      {Attr::operand_batching_dims, Dims{0}},
                      {Attr::start_indices_batching_dims, Dims{1}},
                      {Attr::start_index_map, Dims{1}},
                      {Attr::index_vector_dim, int64_t{2}},
                      {Attr::slice_sizes, Dims{1, 1, 2}}}),
              {n.array({2, 3, 3}), integers({2, 2}, {1, 2, 0, 1})});
}

Fn scatter(hlo::ComputationPtr body, std::vector<hlo::Attrs::Entry> a) {
  a.emplace_back(Attr::body, std::move(body));
  return [a = std::move(a)](Builder& b, std::span<const Value> x) {
    return b.make_multi(Op::scatter, {{x[0], x[1], x[2]}}, hlo::intern_attrs(a));
  };
}

hlo::ComputationPtr replace() {
  auto region = hlo::record_region({{f64({}), f64({})}},
                                   [](Builder&, std::span<const Value> p) { return Values{p[1]}; });
  REQUIRE(region.ok());
  return *region;
}

TEST_CASE("derivatives of scatters", "[trace]") {
  Numbers n;
  for (const auto& body :
       {hlo::binary_region(Op::add, DType::kF64), hlo::binary_region(Op::maximum, DType::kF64),
        hlo::binary_region(Op::minimum, DType::kF64), replace()}) {
    // Rows: one written twice, two outside.
    check_grads(scatter(body, {{Attr::update_window_dims, Dims{1}},
                               {Attr::inserted_window_dims, Dims{0}},
                               {Attr::scatter_dims_to_operand_dims, Dims{0}},
                               {Attr::index_vector_dim, int64_t{1}}}),
                {n.array({4, 3}), integers({5}, {2, 0, 2, 9, -4}), n.array({5, 3})});
    // Windows that overlap and that lie partly outside.
    check_grads(scatter(body, {{Attr::update_window_dims, Dims{0, 2}},
                               {Attr::scatter_dims_to_operand_dims, Dims{1, 0}},
                               {Attr::index_vector_dim, int64_t{0}}}),
                {n.array({4, 5}), integers({2, 3}, {1, 4, 0, 2, 3, -1}), n.array({2, 3, 2})});
    check_grads(scatter(body, {{Attr::inserted_window_dims, Dims{1}},
                               {Attr::input_batching_dims, Dims{0}},
                               {Attr::scatter_indices_batching_dims, Dims{1}},
                               {Attr::scatter_dims_to_operand_dims, Dims{1}},
                               {Attr::index_vector_dim, int64_t{2}}}),
                {n.array({2, 3}), integers({2, 2}, {1, 2, 0, 1}), n.array({2, 2})});
  }
}

TEST_CASE("derivatives of a scattered product, of elements met once", "[trace]") {
  Numbers n;
  check_grads(
      scatter(hlo::binary_region(Op::multiply, DType::kF64), {{Attr::update_window_dims, Dims{1}},
                                                              {Attr::inserted_window_dims, Dims{0}},
                                                              {Attr::scatter_dims_to_operand_dims, Dims{0}},
                                                              {Attr::index_vector_dim, int64_t{1}},
                                                              {Attr::unique_indices, true}}),
      {n.array({4, 3}), integers({4}, {2, 0, 9, -4}), n.array({4, 3})});
}

TEST_CASE("a scatter whose body has no derivative here is refused in words", "[trace]") {
  const Fn f =
      scatter(hlo::binary_region(Op::divide, DType::kF64), {{Attr::inserted_window_dims, Dims{0}},
                                                            {Attr::scatter_dims_to_operand_dims, Dims{0}},
                                                            {Attr::index_vector_dim, int64_t{1}}});
  const absl::Status s = record_status(grad_of(f, 3), {f64({3}), s32({2}), f64({2})});
  CHECK(s.code() == absl::StatusCode::kUnimplemented);
  CHECK(std::string(s.message()).find("scatter") != std::string::npos);
}

}  // namespace
}  // namespace lamina::trace::test
