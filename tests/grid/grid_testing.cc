#include "tests/grid/grid_testing.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "hlo/narrow.h"
#include "hlo/type.h"
#include "jit/kernel/interpret.h"

namespace lamina::grid {
namespace {

using hlo::Attr;
using hlo::Attrs;
using hlo::Op;
using hlo::OpDef;
using hlo::Type;
using jit::KernelBuilder;

constexpr char kFresh = static_cast<char>(0xa7);

using Memory = std::vector<std::vector<char>>;

Memory interpreted(const GridCase& c) {
  Memory memory = c.memory;
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  int64_t outer = 1;
  const int rank = c.kernel.parallel_rank;
  for (int d = 0; d + 1 < rank; ++d) outer *= c.args[d];
  jit::CancelQuestion question;
  question.ask = [](jit::CancelQuestion*) -> int32_t { return 0; };
  const int64_t inner = rank > 0 ? c.args[rank - 1] : 1;
  REQUIRE(interpret_kernel(c.kernel, buffers.data(), c.args.data(), 0, outer, 0, inner, &question.flag) == 0);
  return memory;
}

// Equal bits, any NaN being equal to any other.
bool same(DType t, const char* a, const char* b) {
  if (jit::same_element(t, a, b)) return true;
  return hlo::is_narrow(t) && hlo::is_float(t) && std::isnan(hlo::element_to_f32(t, a)) &&
         std::isnan(hlo::element_to_f32(t, b));
}

std::string difference(const GridCase& c, const Memory& expected, const Memory& got) {
  for (size_t b = 0; b < got.size(); ++b) {
    const DType t = c.kernel.buffers[b].type;
    const auto size = static_cast<size_t>(hlo::byte_size(t));
    for (size_t at = 0; at + size <= got[b].size(); at += size)
      if (!same(t, &expected[b][at], &got[b][at]))
        return "buffer " + std::to_string(b) + " element " + std::to_string(at / size) + " differs";
  }
  return "";
}

// The same kernel comes with other arguments next.
StandIn& stand_in(const LoopKernel& kernel, const GridSchedule& schedule) {
  static std::string last;
  static std::unique_ptr<StandIn> made;
  std::string text = to_string(kernel) + to_string(schedule);
  if (made && text == last) return *made;
  made.reset();
  // Newer chips have instructions of their own: both kinds of code are run.
  auto fresh = StandIn::make(kernel, schedule, nullptr, schedule.exact ? "sm_90" : "");
  if (!fresh.ok()) FAIL(fresh.status().message());
  made = *std::move(fresh);
  last = std::move(text);
  return *made;
}

}  // namespace

void check_grid(const GridCase& c, const GridSchedule& schedule, uint64_t seed) {
  INFO(to_string(c.kernel) << to_string(schedule));
  for (int64_t a : c.args) UNSCOPED_INFO("argument " << a);
  GridCase fresh = c;
  for (size_t b = 0; b < fresh.memory.size(); ++b)
    if (c.kernel.buffers[b].written) std::fill(fresh.memory[b].begin(), fresh.memory[b].end(), kFresh);
  StandIn& made = stand_in(c.kernel, schedule);
  const Memory expected = interpreted(fresh);
  std::mt19937_64 rng(seed);
  for (const Seed order : {Seed{0}, Seed{1 + seed}}) {
    Memory memory = fresh.memory;
    std::vector<Region> regions;
    for (size_t b = 0; b < memory.size(); ++b) {
      const int64_t skew = schedule.exact || rng() % 2
                               ? 0
                               : hlo::byte_size(c.kernel.buffers[b].type) * static_cast<int64_t>(rng() % 4);
      regions.push_back(
          {memory[b].data(), static_cast<int64_t>(memory[b].size()), c.kernel.buffers[b].written, skew});
    }
    const std::string fault = made.run(regions, c.args, order);
    CHECK(fault == "");
    CHECK(difference(c, expected, memory) == "");
  }
  if (!schedule.exact) return;
  GridSchedule anywhere = schedule;
  anywhere.exact = false;
  check_grid(c, anywhere, seed);
}

void check_grid(const GridCase& c, uint64_t seed) { check_grid(c, favoured_grid(c.kernel, c.args), seed); }

// ---- the op table

namespace {

// Values of the attributes that an elementwise op may have.
std::vector<std::vector<Attrs::Entry>> attribute_values(const OpDef& def) {
  std::vector<std::vector<Attrs::Entry>> all{{}};
  const auto extend = [&](const std::vector<Attrs::Entry>& entries) {
    std::vector<std::vector<Attrs::Entry>> longer;
    for (const auto& known : all)
      for (const Attrs::Entry& e : entries) {
        longer.push_back(known);
        longer.back().push_back(e);
      }
    all = longer;
  };
  for (const hlo::AttrSpec& spec : def.attrs) {
    std::vector<Attrs::Entry> values;
    switch (spec.attr) {
      case Attr::dtype:
        for (int t = 0; t < hlo::kNumDTypes; ++t) values.emplace_back(spec.attr, static_cast<DType>(t));
        break;
      case Attr::direction:
        for (const char* word : {"EQ", "NE", "LT", "LE", "GT", "GE"})
          values.emplace_back(spec.attr, std::string(word));
        break;
      case Attr::exponent_bits:
        values = {{spec.attr, int64_t{5}}, {spec.attr, int64_t{8}}};
        break;
      case Attr::mantissa_bits:
        values = {{spec.attr, int64_t{3}}, {spec.attr, int64_t{10}}};
        break;
      default:
        if (spec.optional) continue;
        FAIL("no values for an attribute of " << def.name);
    }
    extend(values);
  }
  return all;
}

GridCase kernel_of(const hlo::ScalarProgram& program, const std::vector<DType>& operands, DType result,
                   int64_t count, std::mt19937_64& rng) {
  KernelBuilder k(1, 0);
  GridCase c;
  const auto access = [&](DType t, bool written) {
    const DType part = hlo::part_type(t);
    const int64_t parts = hlo::num_parts(t);
    const uint32_t buffer = k.buffer(part, written);
    c.memory.push_back(jit::random_elements(part, count * parts, rng));
    std::vector<uint32_t> made;
    for (int64_t p = 0; p < parts; ++p) {
      int32_t offset = -1;
      if (p > 0) {
        offset = static_cast<int32_t>(k.arg());
        c.args.resize(k.kernel.num_args);
        c.args[static_cast<size_t>(offset)] = p;
      }
      made.push_back(k.access(buffer, {{0, static_cast<int8_t>(parts), 0}}, offset));
    }
    return made;
  };
  c.args = {count};
  std::vector<uint32_t> values;
  for (DType t : operands)
    for (uint32_t a : access(t, false)) values.push_back(k.load(a));
  for (const hlo::ScalarInstr& i : program.code) {
    jit::KernelInstr instr{jit::KernelOp::kPrim, i.prim, i.type};
    for (int o = 0; o < hlo::prim_arity(i.prim); ++o) instr.operands[o] = values[i.operands[o]];
    instr.imm = i.imm;
    values.push_back(k.add(instr));
  }
  const std::vector<uint32_t> stored = access(result, true);
  for (size_t p = 0; p < stored.size(); ++p) k.store(stored[p], values[program.outputs[p]]);
  c.kernel = k.kernel;
  c.args.resize(k.kernel.num_args);
  return c;
}

}  // namespace

std::vector<OpKernel> op_kernels(int64_t count) {
  std::vector<OpKernel> kernels;
  std::mt19937_64 rng(3);
  for (int i = 0; i < hlo::num_ops(); ++i) {
    const OpDef& def = hlo::op_def(static_cast<Op>(i));
    if (!def.is_elementwise()) continue;
    const size_t before = kernels.size();
    for (const auto& values : attribute_values(def))
      for (int t = 0; t < hlo::kNumDTypes; ++t)
        for (const bool chosen : {false, true}) {  // by a condition, of three operands
          if (chosen && def.arity < 3) continue;
          std::vector<DType> operands(static_cast<size_t>(def.arity), static_cast<DType>(t));
          if (chosen) operands[0] = DType::kBool;
          std::vector<const Type*> types;
          for (DType o : operands) types.push_back(hlo::array_type_or_die(o, {{2}}));
          const Attrs* attrs = hlo::intern_attrs(values);
          const auto type = def.type(types, *attrs);
          if (!type.ok()) continue;
          const DType result = (*type)->dtype;
          std::string name = std::string(def.name) + " " +
                             std::string(hlo::info(static_cast<DType>(t)).name) + " to " +
                             std::string(hlo::info(result).name);
          const hlo::ScalarProgram& program = hlo::scalar_program(def.op, operands, result, *attrs);
          kernels.push_back({std::move(name), kernel_of(program, operands, result, count, rng)});
        }
    INFO(def.name);
    CHECK(kernels.size() > before);
  }
  return kernels;
}

std::vector<OpKernel> prim_kernels(int64_t count) {
  std::vector<OpKernel> kernels;
  std::mt19937_64 rng(5);
  std::vector<DType> parts;
  for (int t = 0; t < hlo::kNumDTypes; ++t)
    if (!hlo::is_complex(static_cast<DType>(t))) parts.push_back(static_cast<DType>(t));
  const auto add = [&](Prim prim, DType result, const std::vector<DType>& operands) {
    hlo::ScalarProgram program;
    program.inputs = operands;
    hlo::ScalarInstr instr;
    instr.prim = prim;
    instr.type = result;
    instr.imm = prim == Prim::constant ? 1 : 0;
    for (size_t i = 0; i < operands.size(); ++i) instr.operands[i] = static_cast<uint32_t>(i);
    program.code = {instr};
    program.outputs = {static_cast<uint32_t>(operands.size())};
    GridCase c = kernel_of(program, operands, result, count, rng);
    if (!verify(c.kernel).ok()) return;
    kernels.push_back(
        {std::string(hlo::prim_name(prim)) + " to " + std::string(hlo::info(result).name), std::move(c)});
  };
  for (DType t : parts)
    for (int p = 0; p <= static_cast<int>(Prim::convert); ++p) {
      const Prim prim = static_cast<Prim>(p);
      const bool compares = prim >= Prim::eq && prim <= Prim::le;
      if (hlo::is_select(prim)) {
        add(prim, t, {DType::kBool, t, t});
      } else if (prim == Prim::convert || prim == Prim::bitcast) {
        for (DType to : parts) add(prim, to, {t});
      } else {
        add(prim, compares ? DType::kBool : t,
            std::vector<DType>(static_cast<size_t>(hlo::prim_arity(prim)), t));
      }
    }
  return kernels;
}

}  // namespace lamina::grid
