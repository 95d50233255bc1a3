// Every kernel through NVIDIA's assembler: what the stand-in cannot show, that code is selected and
// assembled, and fits the registers of a thread.
//
// Run only where the Python environment has the assembler (tests/CMakeLists.txt).
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "absl/functional/function_ref.h"
#include "hlo/strings.h"
#include "jit/codegen/ptx.h"
#include "jit/kernel/grid_chain.h"
#include "jit/kernel/grid_tiles.h"
#include "tests/build_paths.h"
#include "tests/grid/grid_testing.h"
#include "tests/grid/row_programs.h"
#include "tests/jit/random_kernel.h"
#include "tests/jit/random_repeats.h"

namespace lamina::grid {
namespace {

constexpr const char* kChips[] = {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
constexpr size_t kNumChips = std::size(kChips);
// PTX is made for what LLVM knows and is of use for all that came later.
constexpr const char* kMadeFor[] = {"sm_75", "sm_80", "sm_90", "sm_90", "sm_90"};

// Of what an entry keeps in memory, and registers of the 255 that it has. The assembler moves a few words
// there by itself, so that more threads find room: kernels with 36 to 80 registers have some, sorts
// with 128, chains of kernels twice as many. Values that found no register are hundreds of bytes.
constexpr unsigned kFewBytes = 64, kManyRegisters = 128;

const jit::PtxGenerator& generator() {
  static const auto made = jit::PtxGenerator::create(kCodeGenerator);
  if (!made.ok()) throw std::runtime_error(std::string(made.status().message()));
  return *made;
}

std::string ptx_of(const std::string& kernels, const std::string& schedules, size_t chip) {
  const auto ptx = generator().ptx(kernels, schedules, kMadeFor[chip]);
  INFO(kernels << schedules);
  if (!ptx.ok()) FAIL(ptx.status().message());
  return *ptx;
}

// How many instructions of 16 bytes the code of each entry has, in a cubin: an ELF file whose section of an
// entry is named after it.
std::map<std::string, size_t> instructions_of(const std::string& cubin) {
  const auto get = [&](size_t at, auto out) {
    if (at + sizeof out > cubin.size()) throw std::runtime_error("a cubin that ends early");
    std::memcpy(&out, &cubin[at], sizeof out);
    return out;
  };
  const size_t sections = get(40, uint64_t{}), size = get(58, uint16_t{}), count = get(60, uint16_t{}),
               names = get(sections + get(62, uint16_t{}) * size + 24, uint64_t{});
  std::map<std::string, size_t> out;
  for (size_t i = 0; i < count; ++i) {
    const size_t section = sections + i * size;
    const std::string name = &cubin.at(names + get(section, uint32_t{}));
    if (name.starts_with(".text.")) out[name.substr(6)] = get(section + 32, uint64_t{}) / 16;
  }
  return out;
}

// Many kernels in one text: names are made different, and there is one head. Equal code is there once.
class Assembly {
 public:
  // For this chip and those that code is made for in the same way.
  explicit Assembly(size_t chip) : chip_(chip) {}

  // Its entry may have so many instructions; `name` is for people.
  struct Budget {
    std::string name;
    size_t most;
  };
  void add(const GridCase& c, const GridSchedule& schedule, const std::optional<Budget>& budget = {}) {
    add(to_string(c.kernel), to_string(schedule), "lamina_kernel", budget);
  }
  void add_chain(const std::string& kernels, const std::string& schedules, size_t most) {
    add(kernels, schedules, std::string(jit::kGridChain), Budget{"a chain", most});
  }

  // Fails where it is not assembled, or a kernel's values go to memory for want of registers.
  void check() const { check(chip_); }
  void check(size_t chip) const {
    if (numbers_.empty()) return;
    namespace fs = std::filesystem;
    const fs::path folder = fs::temp_directory_path() / ("lamina_grid_" + std::to_string(getpid()));
    fs::create_directories(folder);
    const std::string source = (folder / "kernels.ptx").string(), log = (folder / "log").string(),
                      cubin = (folder / "cubin").string();
    std::ofstream(source) << text_;
    const std::string command = std::string(kPtxas) + " -v -arch=" + kChips[chip] + " " + source + " -o " +
                                cubin + " > " + log + " 2>&1";
    const int status = std::system(command.c_str());
    std::stringstream said;
    said << std::ifstream(log).rdbuf();
    const std::string words = said.str();
    INFO(kChips[chip]);
    if (status != 0) FAIL(words);
    size_t entries = 0;
    std::string line, name;
    while (std::getline(said, line)) {
      if (const size_t at = line.find("Function properties for "); at != std::string::npos)
        name = line.substr(at);
      unsigned stack = 0, stores = 0, loads = 0, registers = 0;
      if (std::sscanf(line.c_str(), " %u bytes stack frame, %u bytes spill stores, %u bytes spill loads",
                      &stack, &stores, &loads) != 3)
        continue;
      // What rare cases call saves the registers of its caller.
      if (name.find("lamina_") == std::string::npos) continue;
      ++entries;
      std::getline(said, line);
      REQUIRE(std::sscanf(line.c_str(), "ptxas info : Used %u registers", &registers) == 1);
      INFO(name << line);
      CHECK((stores + loads == 0 || registers <= kManyRegisters));
      CHECK(stores + loads <= (name.find(jit::kGridChain) == std::string::npos ? kFewBytes : 2 * kFewBytes));
    }
    CHECK(entries >= numbers_.size());
    std::stringstream made;
    made << std::ifstream(cubin, std::ios::binary).rdbuf();
    for (const auto& [entry, count] : instructions_of(made.str())) {
      const auto budget = budgets_.find(entry);
      if (budget == budgets_.end()) continue;
      INFO(entry << ", " << budget->second.name);
      CHECK(count <= budget->second.most);
    }
    fs::remove_all(folder);
  }

 private:
  void add(const std::string& kernels, const std::string& schedules, const std::string& entry,
           const std::optional<Budget>& budget) {
    const std::string ptx = ptx_of(kernels, schedules, chip_);
    const size_t head = ptx.find(".address_size 64");
    const size_t body = ptx.find('\n', head) + 1;
    if (text_.empty()) text_ = ptx.substr(0, body);
    const auto [known, is_new] = numbers_.try_emplace(ptx.substr(body), numbers_.size());
    const std::string prefix = str_cat("k", known->second, "_");
    if (is_new) {
      static const std::regex names(
          "\\b(lamina_(kernel|chain|chunks|partials|splits|finish)|rare[0-9]*|lanes|table_\\$_f[0-9]+_\\$_[0-"
          "9]+)\\b");
      text_ += std::regex_replace(known->first, names, prefix + "$&");
    }
    if (!budget) return;
    const auto [least, is_first] = budgets_.try_emplace(prefix + entry, *budget);
    if (!is_first && budget->most < least->second.most) least->second = *budget;
  }

  size_t chip_;
  std::map<std::string, size_t> numbers_;  // by code
  std::map<std::string, Budget> budgets_;  // by entry
  std::string text_;
};

using Cases = std::vector<std::pair<GridCase, GridSchedule>>;

// Each for one chip, by turns.
void check_by_turns(const Cases& cases) {
  for (size_t chip = 0; chip < kNumChips; ++chip) {
    Assembly assembly(chip);
    for (size_t i = chip; i < cases.size(); i += kNumChips) assembly.add(cases[i].first, cases[i].second);
    assembly.check();
  }
}

// What `add` puts there, for every chip.
void check_everywhere(absl::FunctionRef<void(Assembly&)> add) {
  for (size_t chip = 0; chip < kNumChips;) {
    Assembly assembly(chip);
    add(assembly);
    const std::string made_for = kMadeFor[chip];
    for (; chip < kNumChips && kMadeFor[chip] == made_for; ++chip) assembly.check(chip);
  }
}

// How many instructions an op may have for each element that a thread makes at a time, rare cases and what is
// done once for a row with it. A device has time for 64 while it reads and writes an element of f32;
// functions of elements take longer, most so where a reference in f64 is rounded once, and functions of
// complex numbers are several of real ones. Of f64 divisions and roots are many instructions.
struct OpBudget {
  std::string_view op;
  size_t real, complex;
};
constexpr OpBudget kBudgets[] = {
    {"abs", 64, 192},
    {"acos", 320, 1952},
    {"acosh", 512, 1952},
    {"asin", 320, 1952},
    {"asinh", 576, 1984},
    {"atan", 288, 960},
    {"atan2", 352, 1632},
    {"atanh", 256, 960},
    {"cbrt", 256, 80},
    {"clamp", 128, 80},
    {"cosh", 192, 1472},
    {"cosine", 320, 1472},
    {"digamma", 1472, 80},
    {"divide", 96, 416},
    {"erf", 448, 80},
    {"erf_inv", 960, 80},
    {"erfc", 224, 80},
    {"exponential", 64, 1152},
    {"exponential_minus_one", 64, 1760},
    {"lgamma", 1312, 80},
    {"log", 128, 992},
    {"log_plus_one", 192, 1184},
    {"logistic", 128, 2208},
    {"power", 1056, 2144},
    {"remainder", 608, 80},
    {"rsqrt", 96, 608},
    {"sign", 64, 448},
    {"sine", 320, 1472},
    {"sinh", 288, 1472},
    {"sqrt", 64, 480},
    {"tan", 416, 1664},
    {"tanh", 192, 1664},
};
constexpr size_t kRealBudget = 64, kComplexBudget = 80;

size_t most_per_element(const OpKernel& k) {
  const std::string_view name = k.name, op = name.substr(0, name.find(' '));
  const bool is_complex = name.find(" c64") != name.npos || name.find(" c128") != name.npos;
  for (const OpBudget& b : kBudgets)
    if (b.op == op) return is_complex ? b.complex : b.real;
  return is_complex ? kComplexBudget : kRealBudget;
}

// Long rows, with the schedule of such.
GridSchedule of_long_rows(const GridCase& c) {
  std::vector<int64_t> args = c.args;
  args[0] = 65536;
  return favoured_grid(c.kernel, args);
}

}  // namespace

TEST_CASE("kernels of ops and element types are assembled without spills, within budgets of instructions",
          "[.][assembler_ops]") {
  check_everywhere([](Assembly& assembly) {
    for (const OpKernel& k : prim_kernels(1)) assembly.add(k.c, of_long_rows(k.c));
    for (const OpKernel& k : op_kernels(1)) {
      const GridSchedule schedule = of_long_rows(k.c);
      assembly.add(k.c, schedule,
                   Assembly::Budget{k.name, most_per_element(k) * schedule.lanes * schedule.vectors});
    }
  });
}

TEST_CASE("numbers are rounded to 16 bits by the instruction for two, where a chip has it", "[grid]") {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    jit::KernelBuilder k(1, 0);
    const uint32_t x = k.load(k.access(k.buffer(DType::kF32), {{0, 1, 0}}));
    k.store(k.access(k.buffer(t, true), {{0, 1, 0}}), k.prim(Prim::convert, t, {x}));
    const GridCase c{k.kernel, {4096}, {}};
    const auto has = [&](size_t chip, const std::string& instruction) {
      const std::string ptx = ptx_of(to_string(c.kernel), to_string(of_long_rows(c)), chip);
      return ptx.find(instruction) != std::string::npos;
    };
    const std::string type = t == DType::kF16 ? "f16" : "bf16";
    for (size_t chip = 0; chip < kNumChips; ++chip) {
      CHECK(has(chip, "cvt.rn." + type + "x2.f32") == (chip > 0));
      CHECK(has(chip, "cvt.rn." + type + ".f32") == (chip == 0 && t == DType::kF16));
    }
  }
}

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
  check_by_turns(cases);
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

TEST_CASE("sorts are assembled without spills", "[.][assembler]") {
  check_everywhere([](Assembly& assembly) {
    for (const auto& [c, schedule] : sorts()) assembly.add(c, schedule);
  });
}

namespace {

// How many instructions a chain's code may have, with all that is done once for a row: for each element that
// a thread of one of its kernels makes at a time so many as a device has time for while it reads and writes
// one of f32. Where rows have ends that fill no vector, or are not held, there is code for more than one
// case.
size_t most_instructions(std::span<const jit::GridPart> chain) {
  size_t elements = 0;
  bool is_simple = jit::holds_rows(chain);
  for (const jit::GridPart& part : chain) {
    elements += size_t{part.schedule.lanes} * part.schedule.vectors;
    is_simple &= part.schedule.exact;
  }
  return (is_simple ? 64 : 192) * elements;
}

}  // namespace

TEST_CASE("chains of rows are assembled without spills, within a budget of instructions", "[.][assembler]") {
  size_t held = 0, others = 0;
  std::vector<std::pair<std::string, std::string>> chains;
  for (const DType t : {DType::kBF16, DType::kF32, DType::kF64})
    for (const int64_t length : {200, 512, 1024, 4096})
      for (auto& chain : row_chains(t, {64, length})) chains.push_back(std::move(chain));
  for (size_t chip = 0; chip < kNumChips; ++chip) {
    Assembly assembly(chip);
    for (size_t i = chip; i < chains.size(); i += kNumChips) {
      const auto parts = jit::parse_grid_parts(chains[i].first, chains[i].second);
      REQUIRE(parts.ok());
      ++(jit::holds_rows(*parts) ? held : others);
      assembly.add_chain(chains[i].first, chains[i].second, most_instructions(*parts));
    }
    assembly.check();
  }
  CHECK(held > 40);
  CHECK(others > 0);
}

}  // namespace lamina::grid
