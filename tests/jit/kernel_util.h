// Building kernels by hand and running them on both tiers.
#ifndef LAMINA_TESTS_JIT_KERNEL_UTIL_H_
#define LAMINA_TESTS_JIT_KERNEL_UTIL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "jit/codegen/client.h"
#include "jit/kernel/interpret.h"
#include "jit/kernel/schedule.h"
#include "tests/build_paths.h"

namespace lamina::jit {

// One generator per target for the whole test program; empty is this machine.
inline CodeGenerator& generator(const std::string& cpu = "") {
  static auto* made = new std::vector<std::pair<std::string, std::unique_ptr<CodeGenerator>>>();
  for (auto& entry : *made)
    if (entry.first == cpu) return *entry.second;
  CodeGeneratorOptions options;
  options.library_path = kCodeGenerator;
  options.cpu = cpu;
  auto created = CodeGenerator::create(options);
  if (!created.ok()) throw std::runtime_error(std::string(created.status().message()));
  made->emplace_back(cpu, std::move(*created));
  return *made->back().second;
}

// The least processor that kernels are compiled for here.
#if defined(__x86_64__)
inline constexpr const char* kLeastCpu = "x86-64-v3";
#else
inline constexpr const char* kLeastCpu = "generic";
#endif

// Machine code of a kernel for one of these targets, valid until many others were asked for. Most cases of a
// test differ in extents and strides alone, which are arguments of one kernel: it is compiled once for them.
inline absl::StatusOr<KernelEntry> compiled_entry(const LoopKernel& kernel, const Schedule& schedule = {},
                                                  const std::string& cpu = "") {
  constexpr size_t kKept = 64;
  static auto* kept = new std::deque<std::pair<std::string, CompiledKernel>>();
  const std::string text = to_string(kernel), key = cpu + "\n" + to_string(schedule) + "\n" + text;
  for (const auto& [known, code] : *kept)
    if (known == key) return code.entry();
  absl::StatusOr<CompiledKernel> made = generator(cpu).compile(text, schedule);
  if (!made.ok()) return made.status();
  if (kept->size() == kKept) kept->pop_front();
  kept->emplace_back(key, *std::move(made));
  return kept->back().second.entry();
}

// Whether print and parse are inverse for this kernel, byte for byte.
inline bool reads_back(const LoopKernel& kernel) {
  const std::string text = to_string(kernel);
  const absl::StatusOr<LoopKernel> read = parse_kernel(text);
  return read.ok() && to_string(*read) == text;
}

class KernelBuilder {
 public:
  KernelBuilder(int parallel, int reduce) {
    kernel.parallel_rank = static_cast<uint8_t>(parallel);
    kernel.reduce_rank = static_cast<uint8_t>(reduce);
    kernel.has_reduction = reduce > 0;
    kernel.num_args = static_cast<uint32_t>(parallel + reduce);
  }
  uint32_t buffer(DType t, bool written = false) {
    kernel.buffers.push_back({t, written});
    return static_cast<uint32_t>(kernel.buffers.size() - 1);
  }
  uint32_t arg() { return kernel.num_args++; }
  uint32_t access(uint32_t buffer, std::vector<AccessTerm> terms, int32_t offset_slot = -1) {
    kernel.accesses.push_back({buffer, offset_slot, std::move(terms)});
    return static_cast<uint32_t>(kernel.accesses.size() - 1);
  }
  uint32_t add(KernelInstr instr) {
    auto& section = in_epilogue ? kernel.epilogue : kernel.body;
    section.push_back(instr);
    return static_cast<uint32_t>(section.size() - 1);
  }
  uint32_t load(uint32_t access) {
    KernelInstr i{KernelOp::kLoad, hlo::Prim::constant, kernel.buffers[kernel.accesses[access].buffer].type};
    i.imm = access;
    return add(i);
  }
  uint32_t prim(hlo::Prim p, DType t, std::initializer_list<uint32_t> operands, uint64_t imm = 0) {
    KernelInstr i{KernelOp::kPrim, p, t};
    int k = 0;
    for (uint32_t o : operands) i.operands[k++] = o;
    i.imm = imm;
    return add(i);
  }
  void store(uint32_t access, uint32_t value) { kernel.stores.push_back({access, value}); }

  LoopKernel kernel;
  bool in_epilogue = false;
};

// Elements of any type with the values that go wrong first.
inline std::vector<char> random_elements(DType t, int64_t n, std::mt19937_64& rng) {
  const int64_t size = hlo::byte_size(t);
  std::vector<char> bytes(static_cast<size_t>(n * size));
  static constexpr double kSpecial[] = {
      0.0,          -0.0,          1.0,          -1.0,   0.5,      1.5,       2.5,   -2.5,
      127.5,        128.0,         -129.0,       255.9,  256.0,    65504,     65520, -65536,
      2147483647.0, -2147483649.0, 4294967296.0, 9.3e18, -9.3e18,  1.9e19,    1e-40, 6e-8,
      2.98e-8,      3.4e38,        1e300,        1e-310, INFINITY, -INFINITY, NAN};
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = rng();
    const int kind = static_cast<int>(rng() % 4);
    if (t == DType::kBool) {
      bits &= 1;
    } else if (hlo::byte_size(t) >= 4 && rng() % 4 == 0) {
      // Just beside or on the middle of two neighbours of a narrower float: where rounding twice goes wrong.
      static constexpr int kDigits[] = {8, 11, 24};
      const int digits = kDigits[rng() % 3];
      const uint64_t middle =
          (((rng() % (uint64_t{1} << (digits - 1))) | (uint64_t{1} << (digits - 1))) << 1) | 1;
      const int64_t beside = static_cast<int64_t>(rng() % 3) - 1;
      if (hlo::is_float(t)) {
        const double v = std::ldexp(static_cast<double>(middle), static_cast<int>(rng() % 60) - 40 - digits);
        std::memcpy(&bits, &v, 8);
        bits += static_cast<uint64_t>(beside);
        if (t == DType::kF32) {
          const float f = static_cast<float>(v);
          std::memcpy(&bits, &f, 4);
          bits += static_cast<uint64_t>(beside);
        }
      } else {
        const int room = hlo::bit_width(t) - digits - 2;
        bits = (middle << (room > 0 ? rng() % static_cast<uint64_t>(room + 1) : 0)) +
               static_cast<uint64_t>(beside);
        if (rng() % 2) bits = uint64_t{0} - bits;
      }
    } else if (t == DType::kF64 && kind != 0) {
      const double v = kind == 1 ? kSpecial[rng() % std::size(kSpecial)]
                                 : (static_cast<double>(rng() % 20001) - 10000) / (kind == 2 ? 8 : 1000);
      std::memcpy(&bits, &v, 8);
    } else if (t == DType::kF32 && kind != 0) {
      const float v = static_cast<float>(kind == 1 ? kSpecial[rng() % std::size(kSpecial)]
                                                   : (static_cast<double>(rng() % 20001) - 10000) /
                                                         (kind == 2 ? 8 : 1000));
      std::memcpy(&bits, &v, 4);
    } else if (hlo::is_integer(t) && kind == 1) {
      static constexpr uint64_t kInts[] = {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100};
      bits = kInts[rng() % std::size(kInts)] * (rng() % 2 ? 1 : ~uint64_t{0});
    } else if (hlo::is_integer(t) && kind == 2) {
      bits = (uint64_t{1} << (rng() % 64)) - rng() % 2;
    }
    std::memcpy(bytes.data() + i * size, &bits, static_cast<size_t>(size));
  }
  return bytes;
}

// Equal bits, any NaN being equal to any other.
inline bool same_element(DType t, const char* a, const char* b) {
  const size_t size = static_cast<size_t>(hlo::byte_size(t));
  if (std::memcmp(a, b, size) == 0) return true;
  uint64_t x = 0, y = 0;
  std::memcpy(&x, a, size);
  std::memcpy(&y, b, size);
  auto nan = [&](uint64_t v) {
    switch (t) {
      case DType::kF16:
        return (v & 0x7fff) > 0x7c00;
      case DType::kBF16:
        return (v & 0x7fff) > 0x7f80;
      case DType::kF32:
        return (v & 0x7fffffff) > 0x7f800000;
      case DType::kF64:
        return (v & 0x7fffffffffffffff) > 0x7ff0000000000000;
      default:
        return false;
    }
  };
  return nan(x) && nan(y);
}

}  // namespace lamina::jit

#endif  // LAMINA_TESTS_JIT_KERNEL_UTIL_H_
