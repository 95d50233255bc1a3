// Library ops as loop kernels on CUDA devices: the evaluator's bits, and nothing goes to the host.
#include <random>

#include "hlo/parser.h"
#include "tests/jit/executable_testing.h"
#include "tests/jit/kernel_testing.h"

namespace lamina::testing {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// Integers in [low, high], floats of mixed size.
LiteralPtr argument(const Type* type, int64_t low, int64_t high, std::mt19937_64& rng) {
  if (is_inexact(type->dtype))
    return Literal::copy_of(
        type, reinterpret_cast<const std::byte*>(random_array(type->dtype, type->num_elements, rng).data()));
  auto made = std::make_shared<Literal>(type);
  const int64_t width = byte_size(type->dtype);
  for (int64_t i = 0; i < type->num_elements; ++i) {
    const int64_t v = low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
    std::memcpy(static_cast<std::byte*>(made->data()) + i * width,
                Literal::scalar_int(type->dtype, is_bool(type->dtype) ? v & 1 : v)->data(),
                static_cast<size_t>(width));
  }
  return made;
}

// The steps that the program has there.
std::string steps_of(const std::string& text, int64_t low = -9, int64_t high = 9) {
  INFO(text);
  const auto program = parse(text);
  INFO(program.status());
  REQUIRE(program.ok());
  std::mt19937_64 rng(7);
  std::vector<LiteralPtr> arguments;
  for (const Type* t : (*program)->parameter_types()) arguments.push_back(argument(t, low, high, rng));
  const auto want = evaluate(**program, arguments);
  REQUIRE(want.ok());
  return check_on_cuda(*program, arguments, *want);
}
void check_whole(const std::string& text, int64_t low = -9, int64_t high = 9) {
  const std::string steps = steps_of(text, low, high);
  INFO(steps);
  CHECK_FALSE(has(steps, "on the host"));
  CHECK(has(steps, "schedule grid"));
}

std::string one(const std::string& parameters, const std::string& result, const std::string& node) {
  return "computation main(" + parameters + ") -> (" + result + ") {\n  v0 = " + result + " " + node +
         "\n  return (v0)\n}\n";
}
std::string body(const std::string& op, const std::string& t) {
  return "computation r0(p0: " + t + "[], p1: " + t + "[]) -> (" + t + "[]) {\n  v0 = " + t + "[] " + op +
         "(p0, p1)\n  return (v0)\n}\n";
}

}  // namespace

TEST_CASE("products are loops of CUDA devices, with the bits of the chain", "[cuda][cuda_calls]") {
  for (const std::string t : {"f32", "f64", "f16", "bf16", "s8", "u32", "s64", "c64", "c128"}) {
    check_whole(one("p0: " + t + "[7,5], p1: " + t + "[5,3]", t + "[7,3]",
                    "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]"));
    // Blocks of 256 terms, the last of them short.
    check_whole(one("p0: " + t + "[2,700], p1: " + t + "[3,700]", t + "[2,3]",
                    "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[1]"));
    check_whole(one("p0: " + t + "[2,4,3,6], p1: " + t + "[6,5,4,2]", t + "[2,3,5]",
                    "dot_general(p0, p1), lhs_batching_dimensions=[0], rhs_batching_dimensions=[3], "
                    "lhs_contracting_dimensions=[3,1], rhs_contracting_dimensions=[0,2]"));
  }
  check_whole(one("p0: f32[30,20], p1: f32[20,30]", "f32[]",
                  "dot_general(p0, p1), lhs_contracting_dimensions=[0,1], rhs_contracting_dimensions=[1,0]"));
  // Nothing to add is 0; zeros keep their sign where there is one term.
  check_whole(one("p0: f32[3,0], p1: f32[0,4]", "f32[3,4]",
                  "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]"));
  check_whole(one("p0: f32[40,1], p1: f32[1,40]", "f32[40,40]",
                  "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]"));
}

TEST_CASE("convolutions are loops of CUDA devices", "[cuda][cuda_calls]") {
  const std::string plain =
      "input_batch_dimension=0, input_feature_dimension=1, input_spatial_dimensions=[2,3], "
      "kernel_input_feature_dimension=1, kernel_output_feature_dimension=0, kernel_spatial_dimensions=[2,3], "
      "output_batch_dimension=0, output_feature_dimension=1, output_spatial_dimensions=[2,3], ";
  const std::string alone = "feature_group_count=1, batch_group_count=1";
  for (const std::string t : {"f32", "bf16", "c64", "s32"}) {
    check_whole(one("p0: " + t + "[2,3,7,6], p1: " + t + "[4,3,3,2]", t + "[2,4,5,5]",
                    "convolution(p0, p1), " + plain + alone));
    check_whole(one("p0: " + t + "[2,3,7,6], p1: " + t + "[4,3,3,2]", t + "[2,4,4,8]",
                    "convolution(p0, p1), window_strides=[2,1], padding=[1,1,2,1], " + plain + alone));
  }
  // More than a block of terms; holes in the input and the filter; groups of either kind.
  check_whole(one("p0: f32[1,40,5,5], p1: f32[3,40,3,3]", "f32[1,3,5,5]",
                  "convolution(p0, p1), padding=[1,1,1,1], " + plain + alone));
  check_whole(one(
      "p0: f32[2,3,4,5], p1: f32[2,3,3,2]", "f32[2,2,7,8]",
      "convolution(p0, p1), padding=[2,2,1,1], lhs_dilation=[2,2], rhs_dilation=[2,3], " + plain + alone));
  check_whole(one("p0: f32[2,6,5,5], p1: f32[4,3,2,2]", "f32[2,4,4,4]",
                  "convolution(p0, p1), " + plain + "feature_group_count=2, batch_group_count=1"));
  check_whole(one("p0: f32[4,3,5,5], p1: f32[6,3,2,2]", "f32[2,6,4,4]",
                  "convolution(p0, p1), " + plain + "feature_group_count=1, batch_group_count=2"));
}

TEST_CASE("sorts are sorts and merges of tiles on CUDA devices", "[cuda][cuda_calls]") {
  const std::string less =
      "computation r0(p0: s32[], p1: s32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
      "direction=\"LT\"\n  return (v0)\n}\n";
  for (const int64_t n : {1, 2, 3, 8, 9, 100, 1000}) {
    const std::string type = "s32[3," + std::to_string(n) + "]";
    const std::string text = less + one("p0: " + type, type, "sort(p0), dimension=1, body=r0");
    check_whole(text, -50, 50);
    if (n == 1000) CHECK(has(steps_of(text), "sort as loop 3 x 1000 sorting"));
  }
  // By the second array, backwards, along the first dimension, of one array twice.
  check_whole(
      "computation r0(p0: f32[], p1: f32[], p2: s16[], p3: s16[], p4: f32[], p5: f32[]) -> (pred[]) {\n  v0 "
      "= pred[] compare(p2, p3), direction=\"GT\"\n  return (v0)\n}\n"
      "computation main(p0: f32[77,2], p1: s16[77,2]) -> (f32[77,2], s16[77,2], f32[77,2]) {\n  (v0, v1, v2) "
      "= (f32[77,2], s16[77,2], f32[77,2]) sort(p0, p1, p0), dimension=0, body=r0\n  return (v0, v1, "
      "v2)\n}\n",
      -4, 4);
  // Where NaN has no place, the order of a merge is that of one thread.
  CHECK(has(steps_of("computation r0(p0: f32[], p1: f32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
                     "direction=\"LT\"\n  return (v0)\n}\n" +
                     one("p0: f32[9]", "f32[9]", "sort(p0), body=r0")),
            "on the host: a sort by an order with no place for NaN has no form as loops"));
}

TEST_CASE("scatters of many vectors are sorted on CUDA devices", "[cuda][cuda_calls]") {
  for (const std::string op : {"add", "subtract", "maximum"}) {
    for (const std::string t : {"f32", "bf16", "s64"}) {
      check_whole(body(op, t) + one("p0: " + t + "[13], p1: s32[200,1], p2: " + t + "[200]", t + "[13]",
                                    "scatter(p0, p1, p2), index_vector_dim=1, inserted_window_dims=[0], "
                                    "scatter_dims_to_operand_dims=[0], body=r0"),
                  -2, 14);
      // Two dimensions of vectors, and windows that are narrower than the array.
      check_whole(
          body(op, t) + one("p0: " + t + "[6,5,4], p1: s32[2,9,3], p2: " + t + "[3,9,3]", t + "[6,5,4]",
                            "scatter(p0, p1, p2), index_vector_dim=0, update_window_dims=[0], "
                            "inserted_window_dims=[0,2], scatter_dims_to_operand_dims=[0,2], body=r0"),
          -1, 6);
      // A few windows that are moved.
      check_whole(body(op, t) + one("p0: " + t + "[6,5], p1: s32[30], p2: " + t + "[30,2,5]", t + "[6,5]",
                                    "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1,2], "
                                    "scatter_dims_to_operand_dims=[0], body=r0"),
                  -1, 6);
    }
  }
  // The last one stays.
  check_whole("computation r0(p0: f64[], p1: f64[]) -> (f64[]) {\n  return (p1)\n}\n" +
                  one("p0: f64[5,4], p1: s64[60,2], p2: f64[60]", "f64[5,4]",
                      "scatter(p0, p1, p2), index_vector_dim=1, inserted_window_dims=[0,1], "
                      "scatter_dims_to_operand_dims=[1,0], body=r0"),
              -1, 4);
  // Batches.
  check_whole(body("add", "f32") + one("p0: f32[3,7], p1: s32[20,3], p2: f32[20,3]", "f32[3,7]",
                                       "scatter(p0, p1, p2), index_vector_dim=2, inserted_window_dims=[1], "
                                       "input_batching_dims=[0], scatter_indices_batching_dims=[1], "
                                       "scatter_dims_to_operand_dims=[1], body=r0"),
              -1, 7);
}

TEST_CASE("other library ops are loops of CUDA devices", "[cuda][cuda_calls]") {
  check_whole(
      one("p0: f32[9,8], p1: s32[], p2: u8[]", "f32[3,8]", "dynamic_slice(p0, p1, p2), slice_sizes=[3,8]"));
  check_whole(one("p0: c64[9,8], p1: c64[2,3], p2: s64[], p3: s64[]", "c64[9,8]",
                  "dynamic_update_slice(p0, p1, p2, p3)"));
  check_whole(one("p0: f32[50,8], p1: s32[40,1]", "f32[40,8]",
                  "gather(p0, p1), slice_sizes=[1,8], offset_dims=[1], collapsed_slice_dims=[0], "
                  "start_index_map=[0], index_vector_dim=1"),
              -3, 60);
  check_whole(body("add", "f32") + one("p0: f32[2,8,8,3], p1: f32[]", "f32[2,4,4,3]",
                                       "reduce_window(p0, p1), window_dimensions=[1,2,2,1], "
                                       "window_strides=[1,2,2,1], body=r0"));
  check_whole(body("add", "f32") + one("p0: f32[2,8,7], p1: f32[]", "f32[2,8,7]",
                                       "reduce_window(p0, p1), window_dimensions=[1,3,3], "
                                       "padding=[0,0,1,1,1,1], body=r0"));
  check_whole(body("maximum", "f32") + one("p0: f32[90], p1: f32[]", "f32[90]",
                                           "reduce_window(p0, p1), window_dimensions=[90], "
                                           "padding=[89,0], body=r0"));
  check_whole(
      "computation r0(p0: f32[], p1: f32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
      "direction=\"GE\"\n  return (v0)\n}\ncomputation r1(p0: f32[], p1: f32[]) -> (f32[]) {\n  v0 = f32[] "
      "add(p0, p1)\n  return (v0)\n}\n" +
      one("p0: f32[2,6,9], p1: f32[2,5,6], p2: f32[]", "f32[2,6,9]",
          "select_and_scatter(p0, p1, p2), window_dimensions=[1,3,4], window_strides=[1,1,2], "
          "padding=[0,0,1,0,2,3], select=r0, scatter=r1"));
  for (const std::string t : {"u8", "u32", "u64"})
    for (const std::string shape : {"", "1", "7", "0,3", "5,4"})
      check_whole("computation main(p0: u64[2]) -> (u64[2], " + t + "[" + shape +
                  "]) {\n  (v0, v1) = (u64[2], " + t + "[" + shape +
                  "]) rng_bit_generator(p0), rng_algorithm=\"THREE_FRY\", dtype=" + t + ", shape=[" + shape +
                  "]\n  return (v0, v1)\n}\n");
}

TEST_CASE("running sums are loops of CUDA devices for each power of 16", "[cuda][cuda_calls]") {
  for (const std::string t : {"f32", "f64", "f16", "bf16", "c64", "s8", "u64"})
    for (const std::string reverse : {"false", "true"}) {
      const auto summed = [&](const std::string& shape, int dimension) {
        check_whole(one("p0: " + t + shape, t + shape,
                        "cumsum(p0), dimension=" + std::to_string(dimension) + ", reverse=" + reverse));
      };
      summed("[1]", 0);
      summed("[16]", 0);
      summed("[3,17]", 1);
      summed("[2,300,3]", 1);
      summed("[4200]", 0);
    }
  CHECK(has(steps_of(one("p0: f32[4200]", "f32[4200]", "cumsum(p0), dimension=0")), "the last of 5 kernels"));
  CHECK(has(steps_of(one("p0: f32[0]", "f32[0]", "cumsum(p0), dimension=0")), "on the host"));
}

TEST_CASE("windows over arrays without elements stay on the host", "[cuda][cuda_calls]") {
  const std::string picked =
      "computation r0(p0: f32[], p1: f32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
      "direction=\"GE\"\n  return (v0)\n}\ncomputation r1(p0: f32[], p1: f32[]) -> (f32[]) {\n  v0 = f32[] "
      "add(p0, p1)\n  return (v0)\n}\n" +
      one("p0: f32[1,1], p1: f32[1,0], p2: f32[]", "f32[1,1]",
          "select_and_scatter(p0, p1, p2), window_dimensions=[1,3], window_strides=[1,1], "
          "padding=[0,0,0,0], select=r0, scatter=r1");
  const std::string padded =
      body("add", "f32") + one("p0: f32[0,3], p1: f32[]", "f32[1,3]",
                               "reduce_window(p0, p1), window_dimensions=[2,1], padding=[1,1,0,0], body=r0");
  for (const std::string& text : {picked, padded}) CHECK(has(steps_of(text), "of an array without elements"));
}

}  // namespace lamina::testing
