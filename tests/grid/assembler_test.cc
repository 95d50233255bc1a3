// Every kernel through NVIDIA's assembler: what the stand-in cannot show, that code is selected and
// assembled, and fits the registers of a thread.
//
// Run only where the Python environment has the assembler (tests/CMakeLists.txt).
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "jit/codegen/ptx.h"
#include "jit/kernel/grid_tiles.h"
#include "tests/build_paths.h"
#include "tests/grid/grid_testing.h"
#include "tests/grid/row_programs.h"
#include "tests/jit/random_kernel.h"
#include "tests/jit/random_repeats.h"

namespace lamina::grid {
namespace {

constexpr const char* kChips[] = {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
// PTX is made for what LLVM knows and is of use for all that came later.
constexpr const char* kMadeFor[] = {"sm_75", "sm_80", "sm_90", "sm_90", "sm_90"};

// Of what an entry keeps in memory: kernels that use a fifth of the registers there are have some words there
// (the assembler does not say which). Values that found no register are hundreds of bytes.
constexpr unsigned kFewBytes = 64;

const jit::PtxGenerator& generator() {
  static const auto made = jit::PtxGenerator::create(kCodeGenerator);
  if (!made.ok()) throw std::runtime_error(std::string(made.status().message()));
  return *made;
}

std::string ptx_of(const std::string& kernels, const std::string& schedules, int chip) {
  const auto ptx = generator().ptx(kernels, schedules, kMadeFor[chip]);
  INFO(kernels << schedules);
  if (!ptx.ok()) FAIL(ptx.status().message());
  return *ptx;
}

// Many kernels in one text: names are made different, and there is one head.
class Assembly {
 public:
  explicit Assembly(int chip) : chip_(chip) {}

  void add(const GridCase& c, const GridSchedule& schedule) { add(to_string(c.kernel), to_string(schedule)); }
  void add(const std::string& kernels, const std::string& schedules) {
    const std::string ptx = ptx_of(kernels, schedules, chip_);
    const size_t head = ptx.find(".address_size 64");
    const size_t body = ptx.find('\n', head) + 1;
    if (text_.empty()) text_ = ptx.substr(0, body);
    static const std::regex names(
        "\\b(lamina_(kernel|chain|chunks|partials|splits|finish)|rare[0-9]*|lanes|table_\\$_f[0-9]+_\\$_[0-9]+)\\b");
    text_ += std::regex_replace(ptx.substr(body), names, "k" + std::to_string(kernels_++) + "_$&");
  }

  // Fails where it is not assembled, or a kernel's values go to memory for want of registers.
  void check() const {
    if (kernels_ == 0) return;
    namespace fs = std::filesystem;
    const fs::path folder = fs::temp_directory_path() / ("lamina_grid_" + std::to_string(getpid()));
    fs::create_directories(folder);
    const std::string source = (folder / "kernels.ptx").string(), log = (folder / "log").string();
    std::ofstream(source) << text_;
    const std::string command = std::string(kPtxas) + " -v -arch=" + kChips[chip_] + " " + source +
                                " -o /dev/null > " + log + " 2>&1";
    const int status = std::system(command.c_str());
    std::stringstream said;
    said << std::ifstream(log).rdbuf();
    const std::string words = said.str();
    INFO(kChips[chip_]);
    if (status != 0) FAIL(words);
    size_t entries = 0;
    std::string line, name;
    while (std::getline(said, line)) {
      if (const size_t at = line.find("Function properties for "); at != std::string::npos)
        name = line.substr(at);
      unsigned stack = 0, stores = 0, loads = 0;
      if (std::sscanf(line.c_str(), " %u bytes stack frame, %u bytes spill stores, %u bytes spill loads",
                      &stack, &stores, &loads) != 3)
        continue;
      // What rare cases call saves the registers of its caller.
      if (name.find("lamina_") == std::string::npos) continue;
      ++entries;
      INFO(name << line);
      CHECK(stores + loads <= kFewBytes);
    }
    CHECK(entries >= kernels_);
    fs::remove_all(folder);
  }

 private:
  int chip_;
  size_t kernels_ = 0;
  std::string text_;
};

using Cases = std::vector<std::pair<GridCase, GridSchedule>>;

// Each for one chip, by turns, or all for each.
void check_all(const Cases& cases, bool everywhere) {
  constexpr size_t kNumChips = std::size(kChips);
  for (size_t chip = 0; chip < kNumChips; ++chip) {
    Assembly assembly(static_cast<int>(chip));
    for (size_t i = 0; i < cases.size(); ++i)
      if (everywhere || i % kNumChips == chip) assembly.add(cases[i].first, cases[i].second);
    assembly.check();
  }
}

// One of `step` kernels, with the schedule of long rows.
Cases kernels_of_ops(size_t step) {
  Cases cases;
  size_t number = 0;
  for (const auto& list : {prim_kernels(1), op_kernels(1)})
    for (const OpKernel& k : list) {
      if (number++ % step != 0) continue;
      std::vector<int64_t> args = k.c.args;
      args[0] = 65536;
      cases.emplace_back(k.c, favoured_grid(k.c.kernel, args));
    }
  return cases;
}

}  // namespace

TEST_CASE("kernels of ops and element types are assembled without spills", "[.][assembler]") {
  check_all(kernels_of_ops(11), false);
}

TEST_CASE("all of them are, for every chip", "[.][assembler_full]") { check_all(kernels_of_ops(1), true); }

TEST_CASE("random kernels, repeats and reductions are assembled", "[.][assembler]") {
  Cases cases;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int reduce = static_cast<int>(seed % 3);
    const jit::Case made = jit::RandomKernel(seed + 900).make(1 + static_cast<int>(seed % 3), reduce);
    const GridCase c{made.kernel, made.args, made.memory};
    GridSchedule schedule = favoured_grid(c.kernel, c.args);
    if (reduce > 0 && seed % 4 == 0) schedule.form = GridForm::kChunks;
    if (reduce > 0 && seed % 4 == 0) schedule.lanes = static_cast<uint32_t>(jit::row_lanes(c.kernel));
    if (reduce > 0 && seed % 4 == 1) schedule = {GridForm::kColumns, 4, 1, 64};
    if (reduce > 0 && seed % 8 == 2) schedule = {GridForm::kColumnChunks, 4, 2, 64};
    if (schedule.rows > tree_lanes(c.kernel)) schedule.rows = static_cast<uint32_t>(tree_lanes(c.kernel));
    cases.emplace_back(c, schedule);
  }
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const jit::Case made = jit::RandomKernel(seed).make(2 + static_cast<int>(seed % 3), 0);
    const GridSchedule tiles{GridForm::kTiles, 1u << seed % 3, 1u << seed / 3 % 2, seed % 3 ? 32u : 8u};
    if (takes_tiles(made.kernel, tiles).ok()) cases.push_back({{made.kernel, made.args, made.memory}, tiles});
  }
  for (const DType t : {DType::kBool, DType::kS16, DType::kF32, DType::kF64}) {
    const jit::Case made = jit::RandomKernel(1).turned(t, {64, 64, 64}, 1, 2);
    const GridCase c{made.kernel, made.args, made.memory};
    std::vector<int64_t> args = c.args;
    args[1] = args[2] = 4096;
    cases.emplace_back(c, favoured_grid(c.kernel, args));
  }
  for (uint64_t seed = 0; seed < 20; ++seed) {
    testing::RandomRepeats made(seed);
    made.make();
    const GridCase c{made.kernel, made.args, made.memory};
    cases.emplace_back(c, favoured_grid(c.kernel, c.args));
  }
  check_all(cases, false);
}

namespace {

Cases sorts() {
  const auto sort = [](const std::vector<DType>& types, bool nans_last) {
    jit::KernelBuilder k(1, 0);
    hlo::ScalarProgram before;
    for (int side = 0; side < 2; ++side)
      before.inputs.insert(before.inputs.end(), types.begin(), types.end());
    const auto add = [&](Prim p, DType t, uint32_t a, uint32_t b) {
      before.code.push_back({p, t, {a, b}});
      return static_cast<uint32_t>(before.inputs.size() + before.code.size() - 1);
    };
    uint32_t x = 0, y = static_cast<uint32_t>(types.size());
    if (hlo::byte_size(types[0]) < 4) {
      x = add(Prim::convert, DType::kF32, x, 0);
      y = add(Prim::convert, DType::kF32, y, 0);
    }
    uint32_t is_less = add(Prim::lt, DType::kBool, x, y);
    if (nans_last) {
      const uint32_t x_is_nan = add(Prim::ne, DType::kBool, x, x),
                     y_is_nan = add(Prim::ne, DType::kBool, y, y);
      is_less = add(Prim::bit_or, DType::kBool, is_less, add(Prim::lt, DType::kBool, x_is_nan, y_is_nan));
    }
    before.outputs = {is_less};
    for (const DType t : types)
      k.store(k.access(k.buffer(t, true), {{0, 1, 0}}), k.load(k.access(k.buffer(t), {{0, 1, 0}})));
    k.kernel.before = before;
    return GridCase{k.kernel, {1}, {}};
  };
  Cases cases;
  for (const auto& [types, nans_last] : std::vector<std::pair<std::vector<DType>, bool>>{
           {{DType::kF32}, true},
           {{DType::kF32, DType::kS32}, true},
           {{DType::kBF16}, true},
           {{DType::kF64, DType::kS64}, true},
           {{DType::kU8}, false},
           {{DType::kS32, DType::kF32, DType::kF32, DType::kF16}, false}}) {
    const GridCase c = sort(types, nans_last);
    for (const int64_t length : {10, 3000, 1000000}) {
      std::vector<int64_t> args{length};
      cases.emplace_back(c, favoured_grid(c.kernel, args));
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("sorts are assembled without spills", "[.][assembler]") { check_all(sorts(), false); }

TEST_CASE("chains that hold their rows are assembled without spills", "[.][assembler]") {
  std::vector<std::pair<std::string, std::string>> chains;
  for (const DType t : {DType::kBF16, DType::kF32, DType::kF64})
    for (const int64_t length : {200, 512, 1024})
      for (auto& chain : row_chains(t, {64, length})) chains.push_back(std::move(chain));
  for (size_t chip = 0; chip < std::size(kChips); ++chip) {
    Assembly assembly(static_cast<int>(chip));
    for (size_t i = chip; i < chains.size(); i += std::size(kChips))
      assembly.add(chains[i].first, chains[i].second);
    assembly.check();
  }
}

TEST_CASE("they are for every chip", "[.][assembler_full]") { check_all(sorts(), true); }

}  // namespace lamina::grid
