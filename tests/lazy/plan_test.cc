// Plan files from C++: saved, loaded, called; errors that name the file, the array, the line.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api_testing.h"

using namespace lamina;
using namespace lamina::testing;
namespace fs = std::filesystem;

namespace {

struct Directory {
  Directory() {
    std::string name = (fs::temp_directory_path() / "lamina_plan_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

std::vector<Tensor> layer(const std::vector<Tensor>& x) {
  const Tensor y = tanh(matmul(x[0], x[1]));
  return {y, sum(y * y)};
}

}  // namespace

#if defined(__x86_64__)  // machine code is kept for it only

TEST_CASE("a plan gives the bits of the function that was saved") {
  const Directory d;
  const std::string path = d.path / "layer.plan";
  const std::vector<Tensor> arguments{arange(12).astype(DType::float32).reshape({3, 4}) * 0.1f,
                                      arange(8).astype(DType::float32).reshape({4, 2}) - 3.0f};
  save_plan(path, layer, arguments);
  const Plan plan = Plan::load(path);
  CHECK(plan.name() == "layer");
  CHECK(plan.slow().empty());
  REQUIRE(plan.arguments().size() == 2);
  CHECK(plan.arguments()[1].shape == Shape{4, 2});
  REQUIRE(plan.results().size() == 2);
  CHECK(plan.results()[0].dtype == DType::float32);
  const std::vector<Tensor> wanted = jit(layer)(arguments), got = plan(arguments);
  REQUIRE(got.size() == 2);
  for (size_t i = 0; i < got.size(); ++i) CHECK(floats(got[i]) == floats(wanted[i]));
}

TEST_CASE("what a plan cannot take is said") {
  const Directory d;
  const std::string path = d.path / "layer.plan";
  save_plan(path, layer, {ones({3, 4}), ones({4, 2})});
  const Plan plan = Plan::load(path);
  CHECK(contains(error_of(
                     [&] {
                       plan({ones({3, 5}), ones({4, 2})});
                     },
                     ErrorKind::kType),
                 "saved for f32[3,4] as argument 0, not f32[3,5]"));
  CHECK(contains(error_of([&] { plan({}); }, ErrorKind::kType), "for 2 arrays, not 0"));
  const auto loss = [&](const Tensor& x) { return plan({x, ones({4, 2})})[1]; };
  CHECK(contains(error_of([&] { grad(loss)(ones({3, 4})); }, ErrorKind::kType), "no derivative"));
  CHECK(contains(error_of([&] { Plan::load(d.path / "none"); }, ErrorKind::kRuntime), "cannot be read"));
  std::ofstream(path, std::ios::binary | std::ios::app) << "more";
  const std::string error = error_of([&] { Plan::load(path); }, ErrorKind::kValue);
  CHECK(contains(error, "layer.plan: the plan file is longer than it was"));
  CHECK(contains(error, "plan_test.cc"));
}

#else

TEST_CASE("machine code is not kept for this machine") {
  const Directory d;
  CHECK(contains(error_of(
                     [&] {
                       save_plan(d.path / "f", layer, {ones({3, 4}), ones({4, 2})});
                     },
                     ErrorKind::kNotImplemented),
                 "x86-64 only"));
}

#endif
