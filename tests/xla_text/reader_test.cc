// XLA's text: its forms and what they mean. Values are compared with what XLA's documentation says they are.
#include "hlo/xla_text/reader.h"

#include <catch2/catch.hpp>

#include "hlo/evaluator.h"
#include "hlo/literal_text.h"
#include "hlo/location.h"
#include "hlo/strings.h"
#include "hlo/xla_text/writer.h"

namespace lamina::hlo::xla_text {
namespace {

absl::StatusOr<stablehlo::Program> read(const std::string& text) {
  absl::StatusOr<stablehlo::Module> module = parse(text);
  if (!module.ok()) return module.status();
  return module->program(*module->entry());
}

// Results of a program without parameters, as text; or its error.
std::string run(const std::string& text) {
  const absl::StatusOr<stablehlo::Program> program = read(text);
  if (!program.ok()) return std::string(program.status().message());
  const auto results = evaluate(*program->computation, {});
  if (!results.ok()) return std::string(results.status().message());
  std::string out;
  for (const LiteralPtr& r : *results) {
    str_append(&out, out.empty() ? "" : " ", to_string(*r->type()), " ");
    append_literal(&out, *r, 100);
  }
  return out;
}

// Instructions of an entry behind computations that they may call.
std::string in_entry(std::string_view body) {
  return str_cat(R"(HloModule m
add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ge_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
less_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
twice { a = f32[2] parameter(0) ROOT b = f32[2] add(a, a) }
minus { a = f32[2] parameter(0) ROOT b = f32[2] negate(a) }
ENTRY e {
)",
                 body, "\n}\n");
}
std::string run_entry(std::string_view body) { return run(in_entry(body)); }

TEST_CASE("every spelling of one program means the same", "[xla_text]") {
  const std::string want = "f32[2,3] {{2, 4, 6}, {8, 10, 12}}";
  // As XLA prints it, for a person, to be parsed again, and after scheduling.
  CHECK(run("HloModule m\nENTRY e {\n  x = f32[2,3] constant({{1,2,3},{4,5,6}})\n  ROOT y = f32[2,3] add(x, "
            "x)\n}") == want);
  CHECK(
      run("HloModule jit_f-1.2, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, "
          "entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}, frontend_attributes={a=\"}\"}, "
          "replica_count=1\n\n%unused (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}, "
          "execution_thread=\"main\"\n\n"
          "ENTRY %main.3 () -> f32[2,3] {\n"
          "  %x = f32[2,3]{1,0:T(8,128)S(1)} constant({ { 1, 2, 3 }, /*i=1*/ { 4, 5, 6 } }) // half\n"
          "  ROOT %add.2 = f32[2,3]{0,1} add(f32[2,3]{1,0} %x, /*index=1*/f32[2,3]{1,0} %x), "
          "sharding={devices=[2,1]<=[2]}, metadata={op_type=\"add\" op_name=\"f/{add\" source_file=\"x.py\" "
          "source_line=7}, backend_config={\"a\":[{\"b\":\"}\"}]}, control-predecessors={%x}\n}\n") == want);
}

TEST_CASE("places come from metadata and from tables", "[xla_text]") {
  // Shapes that no other test has: equal computations are one, with the places of the first.
  const auto place = [](const std::string& text) {
    const auto program = read(text);
    REQUIRE(program.ok());
    const Location at = location(program->computation->roots()[0].node()->location());
    return str_cat(at.file, ":", at.line, " ", at.function);
  };
  CHECK(
      place("HloModule m\nENTRY e {\n  x = f32[3,1,1,9,2] parameter(0)\n  ROOT y = f32[3,1,1,9,2] cosine(x), "
            "metadata={op_name=\"f/cos\" source_file=\"a.py\" source_line=12}\n}") == "a.py:12 f/cos");
  CHECK(place("HloModule m\n\nFileNames\n1 \"b.py\"\nFunctionNames\n1 \"g\"\nFileLocations\n"
              "1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}\nStackFrames\n"
              "4 {file_location_id=1 parent_frame_id=4}\n\nENTRY e {\n  x = f32[4,1,1,9,2] parameter(0)\n"
              "  ROOT y = f32[4,1,1,9,2] cosine(x), metadata={op_name=\"f/cos\" stack_frame_id=4}\n}") ==
        "b.py:5 g");
}

TEST_CASE("constants of every kind", "[xla_text]") {
  const auto constant = [](std::string_view type, std::string_view text) {
    return run(str_cat("HloModule m\nENTRY e { ROOT x = ", type, " constant(", text, ") }"));
  };
  CHECK(constant("f32[]", "-1.5e-3") == "f32[] -0.0015");
  CHECK(constant("f32[4]", "{inf, -inf, -0, nan}") == "f32[4] {inf, -inf, -0, nan}");
  CHECK(constant("f32[2]", "{nan(0x1), -nan}") == "f32[2] {nan:0x7f800001, nan:0xffc00000}");
  CHECK(constant("pred[4]", "{true, false, 1, 0}") == "pred[4] {true, false, true, false}");
  CHECK(constant("c64[2]", "{(1, -2), (-0, inf)}") == "c64[2] {(1, -2), (-0, inf)}");
  CHECK(constant("s8[2,1]", "{ {-128}, {127} }") == "s8[2,1] {{-128}, {127}}");
  CHECK(constant("u64[]", "18446744073709551615") == "u64[] 18446744073709551615");
  CHECK(constant("f32[2,0]", "{ {}, {} }") == run("HloModule m\nENTRY e { ROOT x = f32[2,0] constant({}) }"));
  CHECK(constant("(f32[], (s32[2], c64[]), ())", "(1, ({2, 3}, (4, 5)), ())") ==
        "f32[] 1 s32[2] {2, 3} c64[] (4, 5)");
  CHECK(constant("(f32[], s32[2])", "(1, {2})") == "2:51: expected ',', not '}'");
  CHECK(constant("(f32[], s32[])", "(1)") == "2:46: expected ',', not ')'");
  CHECK(constant("token[]", "1") == "2:16: constant: a constant is an array or a tuple of arrays");
  CHECK(constant("s8[]", "128") == "2:34: '128' is no number of type s8");
  CHECK(constant("f32[2]", "{1}") == "2:38: expected ',', not '}'");
  CHECK(constant("f32[2]", "{1, 2, 3}") == "2:41: expected '}', not ','");
  CHECK(constant("f32[2]", "{...}") ==
        "2:37: the elements were left out when this was printed; print large constants too");
  CHECK(constant("f32[100000000]", "{1}") == "2:44: the constant has fewer elements than f32[100000000]");
  CHECK(constant("f32[]", "nan(0x0)") == "2:35: 'nan' is no number of type f32");
  CHECK(constant("s32[]", "nan") == "2:35: 'nan' is no number of type s32");
}

TEST_CASE("a bitcast follows the order in memory", "[xla_text]") {
  CHECK(run_entry("x = f32[2,3]{1,0} constant({{1,2,3},{4,5,6}})\n ROOT y = f32[3,2]{1,0} bitcast(x)") ==
        "f32[3,2] {{1, 2}, {3, 4}, {5, 6}}");
  // The same bytes with the other dimension the faster one: a transpose.
  CHECK(run_entry("x = f32[2,3]{1,0} constant({{1,2,3},{4,5,6}})\n ROOT y = f32[3,2]{0,1} bitcast(x)") ==
        "f32[3,2] {{1, 4}, {2, 5}, {3, 6}}");
  CHECK(run_entry("x = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}})\n ROOT y = f32[6]{0} bitcast(x)") ==
        "f32[6] {1, 4, 2, 5, 3, 6}");
  CHECK(run_entry("x = f32[1]{0} constant({1})\n ROOT y = u32[] bitcast(x)") == "u32[] 1065353216");
  CHECK(run_entry("x = f32[2,3]{1,0} constant({{1,2,3},{4,5,6}})\n ROOT y = f32[3,2]{1} bitcast(x)") ==
        "10:19: the layout does not order the dimensions of f32[3,2]");
}

TEST_CASE("windows, paddings and ranges", "[xla_text]") {
  const std::string x = "x = f32[4] constant({1, 2, 3, 4})\n z = f32[] constant(0)\n ";
  CHECK(run_entry(x + "ROOT y = f32[2] slice(x), slice={[1:4:2]}") == "f32[2] {2, 4}");
  CHECK(run_entry(x + "ROOT y = f32[9] pad(x, z), padding=1_1_1") == "f32[9] {0, 1, 0, 2, 0, 3, 0, 4, 0}");
  CHECK(run_entry(x + "ROOT y = f32[3] pad(x, z), padding=-2_1") == "f32[3] {3, 4, 0}");
  CHECK(run_entry(x + "ROOT y = f32[4] reduce-window(x, z), window={size=3 pad=2_0}, to_apply=add_f32") ==
        "f32[4] {1, 3, 6, 9}");
  CHECK(run_entry(x + "ROOT y = f32[2] reduce-window(x, z), window={size=2 stride=1 rhs_dilate=2}, "
                      "to_apply=add_f32") == "f32[2] {4, 6}");
  CHECK(run_entry(x + "s = f32[2] constant({10, 20})\n ROOT y = f32[4] select-and-scatter(x, s, z), "
                      "window={size=2 stride=2}, select=ge_f32, scatter=add_f32") == "f32[4] {0, 10, 0, 20}");
  const std::string image =
      "x = f32[1,1,4] constant({{{1, 2, 3, 4}}})\n k = f32[2,1,1] constant({{{1}},{{10}}})\n ";
  CHECK(
      run_entry(image + "ROOT y = f32[1,1,3] convolution(x, k), window={size=2}, dim_labels=bf0_0io->bf0") ==
      "f32[1,1,3] {{{21, 32, 43}}}");
  CHECK(run_entry(image + "ROOT y = f32[1,3,1] convolution(x, k), window={size=2 rhs_reversal=1}, "
                          "dim_labels=bf0_0io->b0f") == "f32[1,3,1] {{{12}, {23}, {34}}}");
  CHECK(
      run_entry(image + "ROOT y = f32[1,1,3] convolution(x, k), window={size=3}, dim_labels=bf0_0io->bf0") ==
      "11:7: convolution: the window has size 3 in dimension 0, the kernel 2");
}

TEST_CASE("loops, branches and calls", "[xla_text]") {
  const std::string loop = R"(HloModule m
more { p = (s32[], (f32[], token[])) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
step { p = (s32[], (f32[], token[])) parameter(0) i = s32[] get-tuple-element(p), index=0
  q = (f32[], token[]) get-tuple-element(p), index=1 x = f32[] get-tuple-element(q), index=0
  t = token[] get-tuple-element(q), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[] add(x, x) u = (f32[], token[]) tuple(y, t) ROOT r = (s32[], (f32[], token[])) tuple(j, u) }
ENTRY e { i = s32[] constant(0) x = f32[] constant(1) t = token[] after-all() u = (f32[], token[]) tuple(x, t)
  p = (s32[], (f32[], token[])) tuple(i, u)
  ROOT w = (s32[], (f32[], token[])) while(p), condition=more, body=step }
)";
  CHECK(run(loop) == "s32[] 5 f32[] 32");
  const std::string x = "x = f32[2] constant({1, 2})\n y = f32[2] constant({10, 20})\n ";
  CHECK(run_entry(x +
                  "c = pred[] constant(true)\n ROOT r = f32[2] conditional(c, x, y), true_computation=twice, "
                  "false_computation=minus") == "f32[2] {2, 4}");
  CHECK(run_entry(x + "c = pred[] constant(false)\n ROOT r = f32[2] conditional(c, x, y), "
                      "branch_computations={%twice, %minus}") == "f32[2] {-10, -20}");
  // An index outside takes the last branch.
  CHECK(run_entry(x + "c = s32[] constant(-7)\n ROOT r = f32[2] conditional(c, x, y), "
                      "branch_computations={twice, minus}") == "f32[2] {-10, -20}");
  CHECK(run_entry(x + "ROOT r = f32[2] call(x), to_apply=twice") == "f32[2] {2, 4}");
  CHECK(run_entry(x + "ROOT r = f32[2] fusion(x), kind=kLoop, calls=twice") == "f32[2] {2, 4}");
  CHECK(run_entry(x +
                  "s = ((f32[2]), f32[2], s32[]) async-start(x), calls=twice\n u = ((f32[2]), f32[2], s32[]) "
                  "async-update(s)\n ROOT r = f32[2] async-done(u)") == "f32[2] {2, 4}");
  CHECK(run_entry(
            x +
            "s = ((f32[2]), f32[1], s32[]) slice-start(x), slice={[1:2]}\n ROOT r = f32[1] slice-done(s), "
            "slice={[1:2]}") == "f32[1] splat(2)");
  CHECK(run_entry(x + "s = (f32[2], f32[2], u32[]) copy-start(x)\n ROOT r = f32[2] copy-done(s)") ==
        "f32[2] {1, 2}");
}

TEST_CASE("one process alone", "[xla_text]") {
  const std::string x = "x = f32[2] constant({1, 2})\n ";
  CHECK(
      run_entry(x + "ROOT r = f32[2] all-reduce(x), replica_groups={{0}}, to_apply=add_f32, channel_id=1") ==
      "f32[2] {1, 2}");
  CHECK(run_entry(
            x +
            "s = f32[2] all-reduce-start(x), replica_groups=[1,1]<=[1], to_apply=add_f32\n ROOT r = f32[2] "
            "all-reduce-done(s)") == "f32[2] {1, 2}");
  CHECK(run_entry(x + "s = (f32[2], f32[2]) all-gather-start(x), dimensions={0}\n ROOT r = f32[2] "
                      "all-gather-done(s)") == "f32[2] {1, 2}");
  CHECK(run_entry(x + "ROOT r = f32[2] collective-permute(x), source_target_pairs={{0,0}}") ==
        "f32[2] {1, 2}");
  CHECK(run_entry("ROOT r = u32[] replica-id()") == "u32[] 0");
  CHECK(run_entry(x + "ROOT r = f32[2] all-reduce(x), replica_groups={{0,1}}, to_apply=add_f32") ==
        "10:48: more than one process takes part; one process runs this program");
  CHECK(run_entry(x + "ROOT r = f32[2] all-reduce(x), replica_groups=[2,4]<=[8], to_apply=add_f32") ==
        "10:48: more than one process takes part; one process runs this program");
}

TEST_CASE("operations with attributes of their own", "[xla_text]") {
  const std::string x = "x = f32[2,2] constant({{4, 9}, {2, 5}})\n z = f32[] constant(0)\n ";
  CHECK(run_entry(x + "ROOT y = f32[2] reduce(x, z), dimensions={1}, to_apply=add_f32") == "f32[2] {13, 7}");
  CHECK(run_entry(x + "ROOT y = f32[2,2] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}") ==
        "f32[2,2] {{20, 46}, {46, 106}}");
  CHECK(run_entry(
            x +
            "ROOT y = f32[2] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
            "rhs_contracting_dims={1}, operand_precision={highest,highest}") == "f32[2] {97, 29}");
  CHECK(run_entry(x + "ROOT y = (f32[2,1], s32[2,1]) topk(x), k=1, largest=true") ==
        "f32[2,1] {{9}, {5}} s32[2,1] splat(1)");
  CHECK(run_entry(x + "ROOT y = f32[2,2] map(x, x), dimensions={0,1}, to_apply=max_f32") ==
        "f32[2,2] {{4, 9}, {2, 5}}");
  CHECK(run_entry(
            "k = s32[3] constant({3, 1, 2})\n ROOT y = s32[3] sort(k), dimensions={0}, to_apply=less_s32") ==
        "s32[3] {1, 2, 3}");
  CHECK(run_entry(x + "ROOT y = f32[2,2] triangular-solve(x, x), left_side=true, lower=true, "
                      "transpose_a=NO_TRANSPOSE") ==
        run_entry("ROOT y = f32[2,2] constant({{1, 2.25}, {0, 0.1}})"));
  CHECK(run_entry(x + "ROOT y = s32[] get-dimension-size(x), dimensions={1}") == "s32[] 2");
  CHECK(run_entry(x + "ROOT y = u8[2,2] is-finite(x)") == "11:7: is-finite: gives pred[2,2], not u8[2,2]");
  CHECK(run_entry("i = s32[2] iota(), iota_dimension=0\n ROOT y = f32[2,2] broadcast(i), dimensions={1}") ==
        "10:7: broadcast: gives s32[2,2], not f32[2,2]");
}

TEST_CASE("what is written reads back equal", "[xla_text]") {
  for (const std::string body :
       {"x = f32[2] parameter(0)\n ROOT y = (f32[2], f32[2]) tuple(x, x)",
        "x = f32[2] parameter(0)\n c = s32[] parameter(1)\n ROOT r = f32[2] conditional(c, x, x), "
        "branch_computations={twice, minus}",
        "ROOT x = () tuple()", "ROOT x = c64[2] constant({(nan, 1), (inf, -0)})"}) {
    const auto first = read(in_entry(body));
    REQUIRE(first.ok());
    const auto text = write(*first->computation, {.module = "called_0"});
    REQUIRE(text.ok());
    const auto second = read(*text);
    INFO(*text);
    REQUIRE(second.ok());
    const auto again = write(*second->computation, {.module = "called_0"});
    CHECK(*again == *text);
  }
}

}  // namespace
}  // namespace lamina::hlo::xla_text
