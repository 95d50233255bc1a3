// Ops with routines of their own against the evaluator: the same bits, over types, shapes and odd operands.
#include "jit/cpu/native_op.h"

#include "tests/jit/native_op_testing.h"

namespace lamina::testing {
namespace {

TEST_CASE("Slices at run-time offsets are clamped", "[native]") {
  for (const char* t : kTypes) {
    check(
        with("computation main(p0: $t[4,5,3], p1: s32[], p2: s64[], p3: s8[], p4: $t[2,5,2]) -> ($t[2,4,3], "
             "$t[4,5,3]) {\n"
             "  v0 = $t[2,4,3] dynamic_slice(p0, p1, p2, p3), slice_sizes=[2,4,3]\n"
             "  v1 = $t[4,5,3] dynamic_update_slice(p0, p4, p1, p2, p3)\n  return (v0, v1)\n}\n",
             {{"t", t}}));
  }
  check(
      "computation main(p0: f32[], p1: f32[]) -> (f32[], f32[]) {\n"
      "  v0 = f32[] dynamic_slice(p0)\n  v1 = f32[] dynamic_update_slice(p0, p1)\n  return (v0, v1)\n}\n");
  check(
      "computation main(p0: f32[0,3], p1: u64[], p2: u64[]) -> (f32[0,2]) {\n"
      "  v0 = f32[0,2] dynamic_slice(p0, p1, p2), slice_sizes=[0,2]\n  return (v0)\n}\n");
}

TEST_CASE("Gathers of every layout are the evaluator's", "[native]") {
  for (const char* t : kTypes)
    for (const char* index : {"s32", "s64", "u8", "u64", "s16"}) {
      // Rows, single elements, pairs of indices.
      check(
          with("computation main(p0: $t[7,4], p1: $i[6,1]) -> ($t[6,4]) {\n  v0 = $t[6,4] gather(p0, p1), "
               "slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
               "index_vector_dim=1\n  return (v0)\n}\n",
               {{"t", t}, {"i", index}}));
      check(
          with("computation main(p0: $t[7], p1: $i[3,5]) -> ($t[3,5]) {\n  v0 = $t[3,5] gather(p0, p1), "
               "slice_sizes=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=2\n  return "
               "(v0)\n}\n",
               {{"t", t}, {"i", index}}));
      check(
          with("computation main(p0: $t[4,3,5], p1: $i[2,6]) -> ($t[6,3]) {\n  v0 = $t[6,3] gather(p0, p1), "
               "slice_sizes=[1,3,1], offset_dims=[1], collapsed_slice_dims=[0,2], start_index_map=[2,0], "
               "index_vector_dim=0\n  return (v0)\n}\n",
               {{"t", t}, {"i", index}}));
      // Columns, and runs in the middle.
      check(
          with("computation main(p0: $t[5,7], p1: $i[6]) -> ($t[5,6]) {\n  v0 = $t[5,6] gather(p0, p1), "
               "slice_sizes=[5,1], offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[1], "
               "index_vector_dim=1\n  return (v0)\n}\n",
               {{"t", t}, {"i", index}}));
      check(
          with("computation main(p0: $t[2,5,7,4], p1: $i[3,2]) -> ($t[2,5,3,2,3]) {\n  v0 = $t[2,5,3,2,3] "
               "gather(p0, p1), slice_sizes=[2,5,1,3], offset_dims=[0,1,4], collapsed_slice_dims=[2], "
               "start_index_map=[2], index_vector_dim=2\n  return (v0)\n}\n",
               {{"t", t}, {"i", index}}));
    }
  // Slices before batch dimensions, and partial slices.
  check(
      "computation main(p0: f32[6,5], p1: s32[3,2]) -> (f32[2,3,4]) {\n  v0 = f32[2,3,4] gather(p0, p1), "
      "slice_sizes=[2,4], offset_dims=[0,2], start_index_map=[0,1], index_vector_dim=1\n  return (v0)\n}\n");
  // Batching dimensions.
  check(
      "computation main(p0: f32[2,5,4], p1: s64[3,2]) -> (f32[3,2,4]) {\n  v0 = f32[3,2,4] gather(p0, p1), "
      "slice_sizes=[1,1,4], offset_dims=[2], collapsed_slice_dims=[1], operand_batching_dims=[0], "
      "start_indices_batching_dims=[1], start_index_map=[1], index_vector_dim=2\n  return (v0)\n}\n");
  // Nothing to gather, and a gather of everything.
  check(
      "computation main(p0: f32[7,4], p1: s32[0,1]) -> (f32[0,4]) {\n  v0 = f32[0,4] gather(p0, p1), "
      "slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
      "index_vector_dim=1\n  "
      "return (v0)\n}\n");
  check(
      "computation main(p0: f32[3,2], p1: s32[0]) -> (f32[3,2]) {\n  v0 = f32[3,2] gather(p0, p1), "
      "slice_sizes=[3,2], offset_dims=[0,1], index_vector_dim=0\n  return (v0)\n}\n");
}

TEST_CASE("A large gather on several threads is that on one", "[native]") {
  check(
      "computation main(p0: f32[500,64], p1: s32[20000]) -> (f32[20000,64]) {\n  v0 = f32[20000,64] "
      "gather(p0, p1), "
      "slice_sizes=[1,64], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
      "index_vector_dim=1\n  "
      "return (v0)\n}\n",
      -20, 600);
  check(
      "computation main(p0: f32[500,300], p1: s32[1300]) -> (f32[500,1300]) {\n  v0 = f32[500,1300] "
      "gather(p0, p1), slice_sizes=[500,1], offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[1], "
      "index_vector_dim=1\n  return (v0)\n}\n",
      -20, 400);
}

TEST_CASE("Scatters apply updates in order and skip what lies outside", "[native]") {
  for (const char* t : kTypes)
    for (const char* op : {"add", "multiply", "maximum", "minimum", "divide"}) {
      if (std::string(t) == "pred" && std::string(op) == "divide") continue;
      const std::string body = binary_body(op, t);
      check(body +
            with("computation main(p0: $t[5,4], p1: s32[9,1], p2: $t[9,4]) -> ($t[5,4]) {\n  v0 = $t[5,4] "
                 "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
                 "scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n",
                 {{"t", t}}));
      check(body + with("computation main(p0: $t[5], p1: s64[11], p2: $t[11]) -> ($t[5]) {\n  v0 = $t[5] "
                        "scatter(p0, p1, p2), index_vector_dim=1, inserted_window_dims=[0], "
                        "scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n",
                        {{"t", t}}));
    }
  for (const char* op : {"add", "subtract"}) {
    const std::string body = binary_body(op, "f32");
    // Windows that overhang, in both orders of window and batch dimensions.
    check(body +
          "computation main(p0: f32[5,6], p1: s32[4,2], p2: f32[4,2,3]) -> (f32[5,6]) {\n  v0 = f32[5,6] "
          "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1,2], "
          "scatter_dims_to_operand_dims=[0,1], body=r0\n  return (v0)\n}\n");
    check(body +
          "computation main(p0: f32[5,6], p1: s32[4,2], p2: f32[2,4,3]) -> (f32[5,6]) {\n  v0 = f32[5,6] "
          "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[0,2], "
          "scatter_dims_to_operand_dims=[0,1], body=r0\n  return (v0)\n}\n");
    check(body +
          "computation main(p0: f32[5,6], p1: s8[4], p2: f32[6,4]) -> (f32[5,6]) {\n  v0 = f32[5,6] "
          "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[0], inserted_window_dims=[0], "
          "scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n");
    check(body +
          "computation main(p0: f32[2,5], p1: s32[3,2], p2: f32[3,2]) -> (f32[2,5]) {\n  v0 = f32[2,5] "
          "scatter(p0, p1, p2), index_vector_dim=2, inserted_window_dims=[1], input_batching_dims=[0], "
          "scatter_indices_batching_dims=[1], scatter_dims_to_operand_dims=[1], body=r0\n  return (v0)\n}\n");
    check(body +
          "computation main(p0: f32[5], p1: s32[0], p2: f32[0]) -> (f32[5]) {\n  v0 = f32[5] "
          "scatter(p0, p1, p2), index_vector_dim=1, inserted_window_dims=[0], "
          "scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n");
  }
}

TEST_CASE("Gathers and scatters count negative indices from the end by themselves", "[native]") {
  // Indices of the type `i` and the shape `shape`, the negative ones moved to where they count from the end.
  const auto moved = [](const std::string& i, const std::string& shape, const std::string& size) {
    return with(
        "  z = $i[] constant(0)\n  zs = $i[$s] broadcast_in_dim(z), shape=[$s]\n"
        "  n = pred[$s] compare(p1, zs), direction=\"LT\"\n  c = $i[] constant($n)\n"
        "  cs = $i[$s] broadcast_in_dim(c), shape=[$s]\n  a = $i[$s] add(p1, cs)\n"
        "  w = $i[$s] select(n, a, p1)\n",
        {{"i", i}, {"s", shape}, {"n", size}});
  };
  const auto steps = [](const ComputationPtr& c) {
    auto made = jit::Executable::compile(jit::host_device(), c);
    REQUIRE(made.ok());
    return (*made)->steps().size();
  };
  const auto check_one = [&](const std::string& text) {
    check(text, -13, 13);
    CHECK(steps(parsed(text)) == 1);
  };
  const std::string add = binary_body("add", "f32");
  for (const char* i : {"s32", "s64"}) {
    check_one(add +
              with("computation main(p0: f32[9], p1: $i[600], p2: f32[600]) -> (f32[9]) {\n", {{"i", i}}) +
              moved(i, "600", "9") +
              with("  x = $i[600,1] reshape(w), shape=[600,1]\n  v0 = f32[9] scatter(p0, x, p2), "
                   "index_vector_dim=1, inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n"
                   "  return (v0)\n}\n",
                   {{"i", i}}));
    check_one(
        add +
        with("computation main(p0: f32[9,4], p1: $i[7,1], p2: f32[4,7]) -> (f32[9,4]) {\n", {{"i", i}}) +
        moved(i, "7,1", "9") +
        "  v0 = f32[9,4] scatter(p0, w, p2), index_vector_dim=1, update_window_dims=[0], "
        "inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n");
    check_one(
        add +
        with("computation main(p0: f32[2,9], p1: $i[3,2], p2: f32[3,2]) -> (f32[2,9]) {\n", {{"i", i}}) +
        moved(i, "3,2", "9") +
        "  v0 = f32[2,9] scatter(p0, w, p2), index_vector_dim=2, inserted_window_dims=[1], "
        "input_batching_dims=[0], scatter_indices_batching_dims=[1], scatter_dims_to_operand_dims=[1], "
        "body=r0\n  return (v0)\n}\n");
    check_one(with("computation main(p0: f32[9,4], p1: $i[7]) -> (f32[7,2,4]) {\n", {{"i", i}}) +
              moved(i, "7", "9") +
              "  v0 = f32[7,2,4] gather(p0, w), index_vector_dim=1, offset_dims=[1,2], start_index_map=[0], "
              "slice_sizes=[2,4]\n  return (v0)\n}\n");
    check_one(with("computation main(p0: f32[3,9], p1: $i[7]) -> (f32[3,7]) {\n", {{"i", i}}) +
              moved(i, "7", "9") +
              "  v0 = f32[3,7] gather(p0, w), index_vector_dim=1, offset_dims=[0], collapsed_slice_dims=[1], "
              "start_index_map=[1], slice_sizes=[3,1]\n  return (v0)\n}\n");
  }
  // Indices that are one of several results of a loop.
  const std::string of_loop =
      add +
      "computation r1(p0: s32[], p1: s32[]) -> (s32[], s32[]) {\n  v0 = s32[] add(p0, p1)\n  return (v0, "
      "v0)\n}\n"
      "computation main(p0: f32[9], p2: s32[7], p3: f32[7]) -> (f32[9]) {\n  z0 = s32[] constant(-9)\n"
      "  (s, p1) = scan(z0, p2), body=r1, num_carry=1, length=7\n" +
      moved("s32", "7", "9") +
      "  x = s32[7,1] reshape(w), shape=[7,1]\n  v0 = f32[9] scatter(p0, x, p3), index_vector_dim=1, "
      "inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n";
  check(of_loop, 0, 3);
  CHECK(steps(parsed(of_loop)) == 2);
  // Where the sums are not those of the dimension, the indices are made first.
  const std::string other =
      "computation main(p0: f32[9,4], p1: s32[7]) -> (f32[7,4]) {\n" + moved("s32", "7", "8") +
      "  v0 = f32[7,4] gather(p0, w), index_vector_dim=1, offset_dims=[1], collapsed_slice_dims=[0], "
      "start_index_map=[0], slice_sizes=[1,4]\n  return (v0)\n}\n";
  check(other, -13, 13);
  CHECK(steps(parsed(other)) == 2);
}

TEST_CASE("Updates of one target after the other are added up in order", "[native]") {
  for (const char* t : kTypes)
    for (const char* op : {"add", "multiply", "maximum", "minimum"})
      check(binary_body(op, t) +
                with("computation main(p0: $t[3], p1: s32[600,1], p2: $t[600]) -> ($t[3]) {\n  v0 = $t[3] "
                     "scatter(p0, p1, p2), index_vector_dim=1, inserted_window_dims=[0], "
                     "scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n",
                     {{"t", t}}),
            -1, 3);
}

TEST_CASE("Scatters replace, and update several arrays at once", "[native]") {
  check(
      "computation r0(p0: f64[], p1: f64[]) -> (f64[]) {\n  return (p1)\n}\n"
      "computation main(p0: f64[5,4], p1: s32[6,2], p2: f64[6]) -> (f64[5,4]) {\n  v0 = f64[5,4] scatter(p0, "
      "p1, "
      "p2), index_vector_dim=1, inserted_window_dims=[0,1], scatter_dims_to_operand_dims=[1,0], body=r0\n  "
      "return "
      "(v0)\n}\n",
      -2, 6);
  check(
      "computation r0(p0: f32[], p1: s32[], p2: f32[], p3: s32[]) -> (f32[], s32[]) {\n"
      "  v0 = pred[] compare(p0, p2), direction=\"GE\"\n  v1 = f32[] select(v0, p0, p2)\n"
      "  v2 = s32[] select(v0, p1, p3)\n  return (v1, v2)\n}\n"
      "computation main(p0: f32[5,3], p1: s32[5,3], p2: s32[7], p3: f32[7,3], p4: s32[7,3]) -> (f32[5,3], "
      "s32[5,3]) {\n  (v0, v1) = (f32[5,3], s32[5,3]) scatter(p0, p1, p2, p3, p4), index_vector_dim=1, "
      "update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n  return "
      "(v0, "
      "v1)\n}\n");
}

std::string window_text(const std::string& t, const std::string& in, const std::string& out,
                        const std::string& window) {
  return with(
      "computation main(p0: $t[$in], p1: $t[]) -> ($t[$out]) {\n  v0 = $t[$out] reduce_window(p0, p1), $w, "
      "body=r0\n  return (v0)\n}\n",
      {{"t", t}, {"in", in}, {"out", out}, {"w", window}});
}

TEST_CASE("Windows are reduced in the evaluator's order", "[native][heavy]") {
  for (const char* t : kTypes)
    for (const char* op : {"add", "multiply", "maximum", "minimum", "divide"}) {
      if (std::string(t) == "pred" && std::string(op) == "divide") continue;
      const std::string body = binary_body(op, t);
      check(body + window_text(t, "3,8,9", "3,4,4", "window_dimensions=[1,2,3], window_strides=[1,2,2]"));
      check(body + window_text(t, "2,7,5", "2,6,7", "window_dimensions=[1,4,3], padding=[0,0,1,1,2,2]"));
    }
  // Rows longer than a vector, positions side by side, two, three and four apart; more elements than fold at
  // once.
  for (const char* t : {"f32", "f64", "s32", "s8"})
    for (const char* op : {"add", "multiply", "maximum", "minimum"}) {
      const std::string body = binary_body(op, t);
      check(body + window_text(t, "6,140", "6,140", "window_dimensions=[3,3], padding=[1,1,1,1]"));
      check(body + window_text(t, "6,140", "3,70",
                               "window_dimensions=[3,3], window_strides=[2,2], padding=[1,0,1,0]"));
      check(body + window_text(t, "9,50", "3,16", "window_dimensions=[3,5], window_strides=[3,3]"));
      check(body + window_text(t, "9,50", "9,12", "window_dimensions=[1,5], window_strides=[1,4]"));
      check(body + window_text(t, "9,50", "3,44", "window_dimensions=[7,7]"));
    }
  for (const char* op : {"add", "maximum", "divide"}) {
    const std::string body = binary_body(op, "f32");
    // Dilated windows and arrays, cropping, windows larger than the array, windows that see nothing.
    check(body + window_text("f32", "9,40", "3,34",
                             "window_dimensions=[3,4], window_strides=[2,1], "
                             "window_dilations=[2,2]"));
    check(body + window_text("f32", "5,6", "2,3",
                             "window_dimensions=[2,3], window_strides=[2,3], "
                             "base_dilations=[1,2], window_dilations=[2,1], padding=[1,0,0,0]"));
    check(body + window_text("f32", "20", "10", "window_dimensions=[3], padding=[-4,-4]"));
    check(body + window_text("f32", "3,4", "8,2", "window_dimensions=[1,3], padding=[2,3,0,0]"));
    check(body + window_text("f32", "300", "300", "window_dimensions=[300], padding=[299,0]"));
    check(body + window_text("f32", "0,4", "2,4", "window_dimensions=[1,1], padding=[1,1,0,0]"));
    check(body + window_text("f32", "2,4", "2,0", "window_dimensions=[1,5]"));
    // As many elements as lanes, and one more; windows of one element.
    check(body + window_text("f32", "200", "137", "window_dimensions=[64]"));
    check(body + window_text("f32", "201", "137", "window_dimensions=[65]"));
    check(body + window_text("f32", "5,40", "3,40", "window_dimensions=[1,1], window_strides=[2,1]"));
    // Positions along the first dimension, and a tree of several chunks.
    check(body + window_text("f32", "60,3,2", "58,1,2", "window_dimensions=[3,3,1]"));
    check(body + window_text("f32", "40000", "3", "window_dimensions=[39998]"));
    check(with(body +
                   "computation main(p0: f32[], p1: f32[]) -> (f32[]) {\n  v0 = f32[] reduce_window(p0, p1), "
                   "body=r0\n  return (v0)\n}\n",
               {}));
  }
  // Large enough for several tasks.
  check(binary_body("add", "f32") +
        window_text("f32", "16,100,3,100", "16,99,3,98", "window_dimensions=[1,2,1,3]"));
}

TEST_CASE("Windows reduce several arrays at once", "[native]") {
  check(
      "computation r0(p0: f32[], p1: s32[], p2: f32[], p3: s32[]) -> (f32[], s32[]) {\n"
      "  v0 = pred[] compare(p0, p2), direction=\"GE\"\n  v1 = f32[] select(v0, p0, p2)\n"
      "  v2 = s32[] select(v0, p1, p3)\n  return (v1, v2)\n}\n"
      "computation main(p0: f32[6,90], p1: s32[6,90], p2: f32[], p3: s32[]) -> (f32[5,45], s32[5,45]) {\n"
      "  (v0, v1) = (f32[5,45], s32[5,45]) reduce_window(p0, p1, p2, p3), window_dimensions=[2,70], "
      "window_strides=[1,2], padding=[0,0,68,0], body=r0\n  return (v0, v1)\n}\n");
}

TEST_CASE("The gradient of pooling goes where the evaluator's goes", "[native]") {
  for (const char* t : kTypes)
    for (const char* direction : {"GE", "GT", "LE"}) {
      if (std::string(t) == "c64" || std::string(t) == "c128") continue;
      const std::string regions = with(
          "computation r0(p0: $t[], p1: $t[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
          "direction=\"$d\"\n  "
          "return (v0)\n}\ncomputation r1(p0: $t[], p1: $t[]) -> ($t[]) {\n  v0 = $t[] add(p0, p1)\n  return "
          "(v0)\n}\n",
          {{"t", t}, {"d", direction}});
      check(regions +
            with("computation main(p0: $t[2,6,9], p1: $t[2,3,4], p2: $t[]) -> ($t[2,6,9]) {\n  v0 = "
                 "$t[2,6,9] select_and_scatter(p0, p1, p2), window_dimensions=[1,2,3], "
                 "window_strides=[1,2,2], select=r0, scatter=r1\n  return (v0)\n}\n",
                 {{"t", t}}));
      check(regions +
            with("computation main(p0: $t[40,5], p1: $t[41,2], p2: $t[]) -> ($t[40,5]) {\n  v0 = "
                 "$t[40,5] select_and_scatter(p0, p1, p2), window_dimensions=[2,3], "
                 "window_strides=[1,2], padding=[1,1,0,0], select=r0, scatter=r1\n  return (v0)\n}\n",
                 {{"t", t}}));
    }
}

// Sorts p0 (and positions) by a comparator of p0, p1; on a shape and dimension. Gives the report of its step.
std::string sorted(const std::string& t, const std::string& dims, int dimension,
                   const std::string& comparator) {
  const std::string text = with(
      "computation r0(p0: $t[], p1: $t[], p2: s32[], p3: s32[]) -> (pred[]) {\n$c}\n"
      "computation main(p0: $t[$n]) -> ($t[$n], s32[$n]) {\n  v0 = s32[$n] iota(), shape=[$n], dtype=s32, "
      "iota_dimension=$d\n  (v1, v2) = ($t[$n], s32[$n]) sort(p0, v0), dimension=$d, is_stable=true, "
      "body=r0\n  return (v1, v2)\n}\n",
      {{"c", comparator}, {"t", t}, {"n", dims}, {"d", std::to_string(dimension)}});
  check(text);
  return (*Executable::compile(jit::host_device(), parsed(text)))->describe();
}

TEST_CASE("Sorts by a key are stable and the evaluator's", "[native]") {
  using Catch::Contains;
  for (const char* t : kTypes) {
    if (std::string(t) == "c64" || std::string(t) == "c128") continue;
    for (const char* direction : {"LT", "GT"}) {
      const std::string plain =
          with("  v0 = pred[] compare(p0, p1), direction=\"$d\"\n  return (v0)\n", {{"d", direction}});
      for (const char* dims : {"1", "37", "300"}) CHECK_THAT(sorted(t, dims, 0, plain), Contains("1 keys"));
      CHECK_THAT(sorted(t, "5,60", 1, plain), Contains("1 keys"));
      CHECK_THAT(sorted(t, "60,5", 0, plain), Contains("1 keys"));
      CHECK_THAT(sorted(t, "0,5", 0, plain), Contains("1 keys"));
    }
    if (!is_float(*parse_dtype(t))) continue;
    const std::string total =
        "  v0 = pred[] compare(p0, p1), direction=\"LT\", compare_type=\"TOTALORDER\"\n  return (v0)\n";
    CHECK_THAT(sorted(t, "300", 0, total), Contains("1 keys"));
    // NaN last, in both ways of writing it, and NaN first.
    CHECK_THAT(sorted(t, "300", 0,
                      "  v0 = pred[] compare(p0, p1), direction=\"LT\"\n"
                      "  v1 = pred[] compare(p0, p0), direction=\"NE\"\n"
                      "  v2 = pred[] compare(p1, p1), direction=\"NE\"\n  v3 = pred[] not(v1)\n"
                      "  v4 = pred[] and(v2, v3)\n  v5 = pred[] or(v0, v4)\n  return (v5)\n"),
               Contains("1 keys"));
    CHECK_THAT(sorted(t, "300", 0,
                      "  v0 = pred[] compare(p0, p1), direction=\"GT\"\n"
                      "  v1 = pred[] compare(p0, p0), direction=\"NE\"\n"
                      "  v2 = pred[] compare(p1, p1), direction=\"EQ\"\n"
                      "  v4 = pred[] and(v1, v2)\n  v5 = pred[] or(v0, v4)\n  return (v5)\n"),
               Contains("1 keys"));
    // By a function of the key.
    CHECK_THAT(sorted(t, "300", 0,
                      with("  v0 = $t[] abs(p0)\n  v1 = $t[] abs(p1)\n  v2 = pred[] compare(v1, v0), "
                           "direction=\"LT\"\n  return (v2)\n",
                           {{"t", t}})),
               Contains("1 keys"));
  }
}

TEST_CASE("Sorts that are cancelled say so, whatever their lines are", "[native]") {
  std::atomic<int32_t> cancel = 1;
  for (const auto& [dims, dimension] : {std::pair("300,9", 1), {"300,9", 0}, {"4,3000", 1}, {"9000", 0}})
    for (const char* direction : {"LT", "LE"}) {
      const ComputationPtr c = parsed(with(
          "computation r0(p0: f32[], p1: f32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
          "direction=\"$r\"\n  return (v0)\n}\ncomputation main(p0: f32[$n]) -> (f32[$n]) {\n  v0 = f32[$n] "
          "sort(p0), dimension=$d, is_stable=true, body=r0\n  return (v0)\n}\n",
          {{"n", dims}, {"d", std::to_string(dimension)}, {"r", direction}}));
      const Node& sort = *c->roots()[0].node();
      std::vector<float> from(9000 * 2, 1), to(from.size());
      const void* const in[] = {from.data()};
      void* const out[] = {to.data()};
      for (const jit::Isa isa : {jit::Isa::kPortable, jit::best_isa()}) {
        jit::KernelContext context;
        context.scratch = &jit::host_device().memory();
        context.cancel = &cancel;
        context.isa = isa;
        INFO(dims << " " << direction);
        CHECK(jit::native_op(sort).run(in, out, context).code() == absl::StatusCode::kCancelled);
      }
    }
}

TEST_CASE("Comparators that are no strict order of keys keep the evaluator's merges", "[native]") {
  using Catch::Contains;
  for (const char* direction : {"LE", "GE", "EQ", "NE"})
    CHECK_THAT(
        sorted("f32", "130", 0,
               with("  v0 = pred[] compare(p0, p1), direction=\"$d\"\n  return (v0)\n", {{"d", direction}})),
        Contains("comparator"));
  // One side is changed: not a comparison of the same key.
  CHECK_THAT(sorted("f32", "130", 0,
                    "  v0 = f32[] abs(p0)\n  v1 = pred[] compare(v0, p1), direction=\"LT\"\n  return (v1)\n"),
             Contains("comparator"));
  CHECK_THAT(sorted("s32", "130", 0,
                    "  v0 = s32[] constant(2)\n  v1 = s32[] remainder(p0, v0)\n  v2 = s32[] "
                    "remainder(p1, v0)\n  v3 = pred[] compare(v1, v2), direction=\"LT\"\n"
                    "  return (v3)\n"),
             Contains("1 keys"));
}

// Of a sort of p0 [300,7] along the first dimension: rows 2 ... rows-1 of the values, all before `rows` of
// the positions.
std::string first_of_sorted(const std::string& t, const std::string& rows, const std::string& comparator) {
  const std::string text = with(
      "computation r0(p0: $t[], p1: $t[], p2: s32[], p3: s32[]) -> (pred[]) {\n$c}\n"
      "computation main(p0: $t[300,7]) -> ($t[$k,7], s32[$n,7]) {\n  v0 = s32[300,7] iota(), "
      "shape=[300,7], dtype=s32, iota_dimension=0\n  (v1, v2) = ($t[300,7], s32[300,7]) sort(p0, v0), "
      "dimension=0, is_stable=true, body=r0\n  v3 = $t[$k,7] slice(v1), start_indices=[2,0], "
      "limit_indices=[$n,7], strides=[1,1]\n  v4 = s32[$n,7] slice(v2), start_indices=[0,0], "
      "limit_indices=[$n,7], strides=[1,1]\n  return (v3, v4)\n}\n",
      {{"c", comparator}, {"t", t}, {"n", rows}, {"k", std::to_string(std::stoi(rows) - 2)}});
  check(text);
  return (*Executable::compile(jit::host_device(), parsed(text)))->describe();
}

TEST_CASE("Of a sort no more is made than is read", "[native][heavy]") {
  using Catch::Contains;
  for (const char* t : kTypes) {
    if (std::string(t) == "c64" || std::string(t) == "c128") continue;
    for (const char* direction : {"LT", "GT"}) {
      const std::string plain =
          with("  v0 = pred[] compare(p0, p1), direction=\"$d\"\n  return (v0)\n", {{"d", direction}});
      // So few that they are selected, and more.
      for (const char* rows : {"2", "3", "10", "37", "38", "200"})
        CHECK_THAT(first_of_sorted(t, rows, plain),
                   Contains(std::string("the first ") + rows + " of 7 lines"));
    }
    if (!is_float(*parse_dtype(t))) continue;
    CHECK_THAT(first_of_sorted(t, "10",
                               "  v0 = pred[] compare(p0, p1), direction=\"GT\", "
                               "compare_type=\"TOTALORDER\"\n  return (v0)\n"),
               Contains("1 keys"));
  }
  CHECK_THAT(first_of_sorted("f32", "10", "  v0 = pred[] compare(p0, p1), direction=\"LE\"\n  return (v0)\n"),
             Contains("comparator"));
  // A reader of all of it.
  const std::string all =
      "computation r0(p0: f32[], p1: f32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), "
      "direction=\"LT\"\n  return (v0)\n}\ncomputation main(p0: f32[300]) -> (f32[10], f32[300]) {\n  "
      "v0 = f32[300] sort(p0), dimension=0, body=r0\n  v1 = f32[10] slice(v0), start_indices=[0], "
      "limit_indices=[10], strides=[1]\n  v2 = f32[300] negate(v0)\n  return (v1, v2)\n}\n";
  check(all);
  CHECK_THAT((*Executable::compile(jit::host_device(), parsed(all)))->describe(), !Contains("the first"));
}

TEST_CASE("Sorts by several keys take them in order", "[native]") {
  using Catch::Contains;
  const std::string two =
      "computation r0(p0: s8[], p1: s8[], p2: f32[], p3: f32[], p4: u64[], p5: u64[]) -> (pred[]) {\n"
      "  v0 = pred[] compare(p0, p1), direction=\"GT\"\n  v1 = pred[] compare(p0, p1), direction=\"EQ\"\n"
      "  v2 = pred[] compare(p2, p3), direction=\"LT\", compare_type=\"TOTALORDER\"\n  v3 = pred[] and(v1, "
      "v2)\n"
      "  v4 = pred[] or(v0, v3)\n  return (v4)\n}\n"
      "computation main(p0: s8[4,90], p1: f32[4,90], p2: u64[4,90]) -> (s8[4,90], f32[4,90], u64[4,90]) {\n"
      "  (v0, v1, v2) = (s8[4,90], f32[4,90], u64[4,90]) sort(p0, p1, p2), dimension=1, body=r0\n"
      "  return (v0, v1, v2)\n}\n";
  check(two, -2, 2);
  CHECK_THAT((*Executable::compile(jit::host_device(), parsed(two)))->describe(), Contains("2 keys"));
  const std::string complex =
      "computation r0(p0: c64[], p1: c64[]) -> (pred[]) {\n"
      "  v0 = f32[] real(p0)\n  v1 = f32[] real(p1)\n  v2 = f32[] imag(p0)\n  v3 = f32[] imag(p1)\n"
      "  v4 = pred[] compare(v0, v1), direction=\"LT\"\n  v5 = pred[] compare(v0, v1), direction=\"EQ\"\n"
      "  v6 = pred[] compare(v2, v3), direction=\"LT\"\n  v7 = pred[] and(v5, v6)\n  v8 = pred[] or(v4, v7)\n"
      "  return (v8)\n}\ncomputation main(p0: c64[300]) -> (c64[300]) {\n  v0 = c64[300] sort(p0), "
      "dimension=0, "
      "body=r0\n  return (v0)\n}\n";
  check(complex);
}

TEST_CASE("A long sort on several threads is the evaluator's", "[native]") {
  sorted("f32", "4,6000", 1,
         "  v0 = pred[] compare(p0, p1), direction=\"LT\", compare_type=\"TOTALORDER\"\n"
         "  return (v0)\n");
  sorted("f64", "20000", 0,
         "  v0 = pred[] compare(p0, p1), direction=\"LT\", compare_type=\"TOTALORDER\"\n"
         "  return (v0)\n");
}

TEST_CASE("Random bits are the evaluator's", "[native]") {
  for (const char* t : {"u8", "u16", "u32", "u64"})
    for (const char* shape : {"", "0", "1", "2,3", "1001", "300000"})
      check(with(
          "computation main(p0: u64[2]) -> (u64[2], $t[$n]) {\n  (v0, v1) = (u64[2], $t[$n]) "
          "rng_bit_generator(p0), rng_algorithm=\"THREE_FRY\", shape=[$n], dtype=$t\n  return (v0, v1)\n}\n",
          {{"n", shape}, {"t", t}}));
}

TEST_CASE("Running sums are the evaluator's, however their lines lie", "[native][heavy]") {
  using Catch::Contains;
  const auto summed = [](const std::string& t, const std::string& shape, int dimension) {
    for (const char* reverse : {"false", "true"})
      check(
          with("computation main(p0: $t[$s]) -> ($t[$s]) {\n  v0 = $t[$s] cumsum(p0), dimension=$d, "
               "reverse=$r\n  return (v0)\n}\n",
               {{"t", t}, {"s", shape}, {"d", std::to_string(dimension)}, {"r", reverse}}));
  };
  for (const std::string t : kTypes) {
    if (t == "pred") continue;
    for (const char* length : {"0", "1", "15", "16", "17", "255", "256", "257", "4113"}) {
      summed(t, length, 0);
      summed(t, std::string("3,") + length, 1);
      summed(t, length + std::string(",5"), 0);
      summed(t, std::string("2,") + length + ",9", 1);
    }
    // More lanes than go together.
    summed(t, "37,150", 0);
  }
  // Lines that threads share by their segments.
  for (const char* t : {"f32", "f64", "c64", "s32"}) {
    summed(t, "199999", 0);
    summed(t, "1179648", 0);
  }
  const auto report = [](const std::string& t) {
    return (*Executable::compile(jit::host_device(),
                                 parsed("computation main(p0: " + t + "[40]) -> (" + t +
                                        "[40]) {\n  v0 = " + t + "[40] cumsum(p0)\n  return (v0)\n}\n")))
        ->describe();
  };
  CHECK_THAT(report("c64"), Contains("native cumsum, sums of 2 lines of 40 elements"));
  CHECK_THAT(report("f16"), !Contains("native cumsum"));
}

TEST_CASE("Running sums and other scans of elementwise bodies are the evaluator's", "[native][heavy]") {
  using Catch::Contains;
  for (const char* t : kTypes)
    for (const char* op : {"add", "multiply", "maximum", "minimum", "divide"})
      for (const char* reverse : {"true", "false"}) {
        if (std::string(t) == "pred" && std::string(op) == "divide") continue;
        for (const char* shape : {"", "3", "2,700"}) {
          const std::string scanned = std::string(shape).empty() ? "40" : std::string("40,") + shape;
          const std::string text = with(
              "computation b(p0: $t[$s], p1: $t[$s]) -> ($t[$s], $t[$s]) {\n  v0 = $t[$s] $op(p0, p1)\n  "
              "return (v0, v0)\n}\n"
              "computation main(p0: $t[$s], p1: $t[$n]) -> ($t[$s], $t[$n]) {\n  (v0, v1) = ($t[$s], $t[$n]) "
              "scan(p0, p1), num_carry=1, length=40, reverse=$r, body=b\n  return (v0, v1)\n}\n",
              {{"t", t}, {"s", shape}, {"n", scanned}, {"op", op}, {"r", reverse}});
          check(text);
          if (std::string(t) != "f32") continue;
          const std::string report = (*Executable::compile(jit::host_device(), parsed(text)))->describe();
          CHECK_THAT(report, Contains(std::string(op) == "divide" ? "in steps" : "native scan"));
        }
      }
  const std::string two =
      "computation b(p0: f32[5], p1: c64[5], p2: f32[5]) -> (f32[5], c64[5], c64[5], f32[5]) {\n"
      "  v0 = f32[] constant(0.5)\n  v1 = f32[5] broadcast_in_dim(v0), shape=[5]\n  v2 = f32[5] multiply(p0, "
      "v1)\n"
      "  v3 = f32[5] add(v2, p2)\n  v4 = c64[5] complex(v3, p2)\n  return (v3, v4, p1, p0)\n}\n"
      "computation main(p0: f32[5], p1: c64[5], p2: f32[30,5]) -> (f32[5], c64[5], c64[30,5], f32[30,5]) {\n"
      "  (v0, v1, v2, v3) = (f32[5], c64[5], c64[30,5], f32[30,5]) scan(p0, p1, p2), num_carry=2, length=30, "
      "body=b\n"
      "  return (v0, v1, v2, v3)\n}\n";
  check(two);
  CHECK_THAT((*Executable::compile(jit::host_device(), parsed(two)))->describe(), Contains("in steps"));
  // No steps, and no elements.
  check(
      "computation b(p0: f32[], p1: f32[]) -> (f32[], f32[]) {\n  v0 = f32[] add(p0, p1)\n  return (v0, "
      "v0)\n}\n"
      "computation main(p0: f32[], p1: f32[0]) -> (f32[], f32[0]) {\n  (v0, v1) = (f32[], f32[0]) scan(p0, "
      "p1), "
      "num_carry=1, body=b\n  return (v0, v1)\n}\n");
  check(
      "computation b(p0: f32[0], p1: f32[0]) -> (f32[0], f32[0]) {\n  v0 = f32[0] add(p0, p1)\n  return (v0, "
      "v0)\n}\ncomputation main(p0: f32[0], p1: f32[3,0]) -> (f32[0], f32[3,0]) {\n  (v0, v1) = (f32[0], "
      "f32[3,0]) scan(p0, p1), num_carry=1, length=3, body=b\n  return (v0, v1)\n}\n");
}

TEST_CASE("A region that loops is applied element by element", "[native]") {
  check(
      "computation c0(p0: s32[], p1: s32[]) -> (pred[]) {\n  v0 = pred[] compare(p0, p1), direction=\"LT\"\n "
      " "
      "return (v0)\n}\n"
      "computation b0(p0: s32[], p1: s32[]) -> (s32[], s32[]) {\n  v0 = s32[] constant(3)\n  v1 = s32[] "
      "add(p0, "
      "v0)\n  return (v1, p1)\n}\n"
      "computation r0(p0: s32[], p1: s32[]) -> (s32[]) {\n  (v0, v1) = (s32[], s32[]) while(p0, p1), "
      "cond=c0, "
      "body=b0\n  return (v0)\n}\n"
      "computation main(p0: s32[5], p1: s32[9], p2: s32[9]) -> (s32[5]) {\n  v0 = s32[5] scatter(p0, p1, "
      "p2), "
      "index_vector_dim=1, inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n  return "
      "(v0)\n}\n");
}

TEST_CASE("An update happens in place where the array has no other use", "[native]") {
  const auto exe = Executable::compile(
      jit::host_device(),
      parsed("computation r0(p0: f32[], p1: f32[]) -> (f32[]) {\n  v0 = f32[] add(p0, p1)\n  return (v0)\n}\n"
             "computation main(p0: s32[], p1: f32[10], p2: s32[3], p3: f32[3]) -> (f32[100000]) {\n"
             "  v0 = f32[100000] iota(), shape=[100000], dtype=f32\n"
             "  v1 = f32[100000] dynamic_update_slice(v0, p1, p0)\n"
             "  v2 = f32[100000] scatter(v1, p2, p3), index_vector_dim=1, inserted_window_dims=[0], "
             "scatter_dims_to_operand_dims=[0], body=r0\n  return (v2)\n}\n"));
  REQUIRE(exe.ok());
  std::vector<BufferRef> in, out;
  for (int64_t bytes : {4, 40, 12, 12}) {
    in.push_back(*jit::host_device().memory().allocate(bytes));
    std::memset(host_data(in.back()), 0, bytes);
  }
  const int64_t before = jit::host_device().memory().stats().live_bytes;
  jit::host_device().memory().reset_peak();
  REQUIRE((*exe)->run(in, out).ok());
  CHECK(jit::host_device().memory().stats().peak_bytes - before < 450'000);
  CHECK(static_cast<const float*>(host_data(out[0]))[99'999] == 99'999.0F);
}

TEST_CASE("A loop updates its carry in place", "[native]") {
  const ComputationPtr c = parsed(
      "computation c0(p0: s32[], p1: f32[100000]) -> (pred[]) {\n  v0 = s32[] constant(50)\n  v1 = pred[] "
      "compare(p0, v0), direction=\"LT\"\n  return (v1)\n}\n"
      "computation b0(p0: s32[], p1: f32[100000]) -> (s32[], f32[100000]) {\n  v0 = s32[] constant(1)\n  v1 "
      "= s32[] "
      "add(p0, v0)\n  v2 = f32[] convert(p0), dtype=f32\n  v3 = f32[1] reshape(v2), shape=[1]\n  v4 = "
      "f32[100000] "
      "dynamic_update_slice(p1, v3, p0)\n  return (v1, v4)\n}\n"
      "computation main(p0: s32[], p1: f32[100000]) -> (f32[100000]) {\n  (v0, v1) = (s32[], f32[100000]) "
      "while(p0, p1), cond=c0, body=b0\n  return (v1)\n}\n");
  const auto exe = Executable::compile(jit::host_device(), c);
  REQUIRE(exe.ok());
  std::vector<BufferRef> in{*jit::host_device().memory().allocate(4),
                            *jit::host_device().memory().allocate(400'000)},
      out;
  std::memset(host_data(in[0]), 0, 4);
  std::memset(host_data(in[1]), 0, 400'000);
  const int64_t before = jit::host_device().memory().stats().live_bytes;
  jit::host_device().memory().reset_peak();
  REQUIRE((*exe)->run(in, out).ok());
  // The argument is copied once, then written over.
  CHECK(jit::host_device().memory().stats().peak_bytes - before < 500'000);
  CHECK(static_cast<const float*>(host_data(in[1]))[7] == 0);
  CHECK(static_cast<const float*>(host_data(out[0]))[49] == 49);
  CHECK(static_cast<const float*>(host_data(out[0]))[50] == 0);
}

TEST_CASE("An update leaves arguments, constants and arrays read later alone", "[native]") {
  check(
      "computation main(p0: f32[6], p1: f32[2], p2: s32[]) -> (f32[6], f32[6]) {\n"
      "  v0 = f32[6] dynamic_update_slice(p0, p1, p2)\n  return (p0, v0)\n}\n");
  check(
      "computation main(p0: f32[6], p2: s32[]) -> (f32[6], f32[6]) {\n"
      "  v0 = f32[6] negate(p0)\n  v1 = f32[6] dynamic_update_slice(v0, v0, p2)\n"
      "  v2 = f32[6] dynamic_update_slice(v1, v0, p2)\n  v3 = f32[6] reverse(v1), dimensions=[0]\n"
      "  return (v2, v3)\n}\n");
}

}  // namespace
}  // namespace lamina::testing
