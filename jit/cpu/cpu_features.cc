#include "jit/cpu/cpu_features.h"

#include <algorithm>
#include <cstdint>
#include <set>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "absl/strings/str_split.h"
#include "hlo/isa.h"
#include "hlo/strings.h"

namespace lamina::jit {
namespace {

constexpr std::string_view kMachine = "x86_64";

// What of the registers the system must save for the feature to be of use.
enum class State : uint8_t { kAny, kAvx, kAvx512, kApx };
enum class Register : uint8_t { kEax, kEbx, kEcx, kEdx };

// Where CPUID tells of a feature.
struct Feature {
  std::string_view name;
  uint32_t leaf, subleaf;
  Register in;
  uint8_t bit;
  State state;
};
constexpr Feature kFeatures[] = {
    {"sse3", 1, 0, Register::kEcx, 0, State::kAny},
    {"ssse3", 1, 0, Register::kEcx, 9, State::kAny},
    {"fma", 1, 0, Register::kEcx, 12, State::kAvx},
    {"sse4.1", 1, 0, Register::kEcx, 19, State::kAny},
    {"sse4.2", 1, 0, Register::kEcx, 20, State::kAny},
    {"movbe", 1, 0, Register::kEcx, 22, State::kAny},
    {"popcnt", 1, 0, Register::kEcx, 23, State::kAny},
    {"avx", 1, 0, Register::kEcx, 28, State::kAvx},
    {"f16c", 1, 0, Register::kEcx, 29, State::kAvx},
    {"cmov", 1, 0, Register::kEdx, 15, State::kAny},
    {"sse", 1, 0, Register::kEdx, 25, State::kAny},
    {"sse2", 1, 0, Register::kEdx, 26, State::kAny},
    {"bmi", 7, 0, Register::kEbx, 3, State::kAny},
    {"avx2", 7, 0, Register::kEbx, 5, State::kAvx},
    {"bmi2", 7, 0, Register::kEbx, 8, State::kAny},
    {"avx512f", 7, 0, Register::kEbx, 16, State::kAvx512},
    {"avx512dq", 7, 0, Register::kEbx, 17, State::kAvx512},
    {"avx512ifma", 7, 0, Register::kEbx, 21, State::kAvx512},
    {"avx512cd", 7, 0, Register::kEbx, 28, State::kAvx512},
    {"avx512bw", 7, 0, Register::kEbx, 30, State::kAvx512},
    {"avx512vl", 7, 0, Register::kEbx, 31, State::kAvx512},
    {"avx512vbmi", 7, 0, Register::kEcx, 1, State::kAvx512},
    {"avx512vbmi2", 7, 0, Register::kEcx, 6, State::kAvx512},
    {"gfni", 7, 0, Register::kEcx, 8, State::kAny},
    {"avx512vnni", 7, 0, Register::kEcx, 11, State::kAvx512},
    {"avx512bitalg", 7, 0, Register::kEcx, 12, State::kAvx512},
    {"avx512vpopcntdq", 7, 0, Register::kEcx, 14, State::kAvx512},
    {"avx512vp2intersect", 7, 0, Register::kEdx, 8, State::kAvx512},
    {"avx512fp16", 7, 0, Register::kEdx, 23, State::kAvx512},
    {"avxvnni", 7, 1, Register::kEax, 4, State::kAvx},
    {"avx512bf16", 7, 1, Register::kEax, 5, State::kAvx512},
    {"avxifma", 7, 1, Register::kEax, 23, State::kAvx},
    {"avxvnniint8", 7, 1, Register::kEdx, 4, State::kAvx},
    {"avxneconvert", 7, 1, Register::kEdx, 5, State::kAvx},
    {"avxvnniint16", 7, 1, Register::kEdx, 10, State::kAvx},
    {"avx10.1-256", 7, 1, Register::kEdx, 19, State::kAvx512},
    {"avx10.1-512", 7, 1, Register::kEdx, 19, State::kAvx512},
    {"ccmp", 7, 1, Register::kEdx, 21, State::kApx},
    {"cf", 7, 1, Register::kEdx, 21, State::kApx},
    {"egpr", 7, 1, Register::kEdx, 21, State::kApx},
    {"ndd", 7, 1, Register::kEdx, 21, State::kApx},
    {"nf", 7, 1, Register::kEdx, 21, State::kApx},
    {"ppx", 7, 1, Register::kEdx, 21, State::kApx},
    {"push2pop2", 7, 1, Register::kEdx, 21, State::kApx},
    {"zu", 7, 1, Register::kEdx, 21, State::kApx},
    {"lzcnt", 0x80000001, 0, Register::kEcx, 5, State::kAny},
    {"sse4a", 0x80000001, 0, Register::kEcx, 6, State::kAny},
    {"xop", 0x80000001, 0, Register::kEcx, 11, State::kAvx},
    {"fma4", 0x80000001, 0, Register::kEcx, 16, State::kAvx},
    {"tbm", 0x80000001, 0, Register::kEcx, 21, State::kAny},
};

// Features whose instructions only code has that asks for them by name, which kernels do not; or that say
// nothing of instructions.
constexpr std::string_view kOthers[] = {
    "64bit",    "adx",        "aes",      "amx-bf16", "amx-complex", "amx-fp16", "amx-int8",  "amx-tile",
    "cldemote", "clflushopt", "clwb",     "crc32",    "cx16",        "clzero",   "cmpccxadd", "cx8",
    "enqcmd",   "evex512",    "fsgsbase", "fxsr",     "hreset",      "invpcid",  "kl",        "lwp",
    "mmx",      "movdir64b",  "movdiri",  "mwaitx",   "pclmul",      "pconfig",  "pku",       "prefetchi",
    "prfchw",   "ptwrite",    "raoint",   "rdpid",    "rdpru",       "rdrnd",    "rdseed",    "rtm",
    "sahf",     "serialize",  "sgx",      "sha",      "sha512",      "shstk",    "sm3",       "sm4",
    "tsxldtrk", "uintr",      "usermsr",  "vaes",     "vpclmulqdq",  "waitpkg",  "wbnoinvd",  "widekl",
    "xsave",    "xsavec",     "xsaveopt", "xsaves",
};

// Where CPUID tells of the processor's make and instructions, not of the core that asks. More than LLVM 19
// reads: what is told of later instructions lies beside.
struct Leaf {
  uint32_t leaf, subleaf;
  bool eax, ebx, ecx, edx;
};
[[maybe_unused]] constexpr Leaf kLeaves[] = {
    {0, 0, true, true, true, true},              // the vendor
    {1, 0, true, false, true, true},             // family, model, stepping; ebx: the core
    {7, 0, true, true, true, true},              //
    {7, 1, true, true, true, true},              //
    {0xd, 1, true, false, false, false},         // XSAVE
    {0x14, 0, false, true, false, false},        // PTWRITE
    {0x19, 0, false, true, false, false},        // key locker
    {0x1e, 1, true, false, false, false},        // AMX
    {0x24, 0, false, true, false, false},        // AVX10
    {0x80000001, 0, false, false, true, true},   //
    {0x80000008, 0, false, true, false, false},  // ecx: how many cores
    {0x80000021, 0, true, false, false, false},  //
};

// What the names of whole levels stand for.
struct Level {
  std::string_view cpu, features;
};
constexpr std::string_view kBaseline = "cmov sse sse2";
constexpr Level kLevels[] = {
    {"x86-64", kBaseline},
    {"x86-64-v3", "avx avx2 bmi bmi2 cmov f16c fma lzcnt movbe popcnt sse sse2 sse3 sse4.1 sse4.2 ssse3"},
    {"x86-64-v4",
     "avx avx2 avx512bw avx512cd avx512dq avx512f avx512vl bmi bmi2 cmov f16c fma lzcnt movbe popcnt "
     "sse sse2 sse3 sse4.1 sse4.2 ssse3"},
};

std::vector<std::string> words_of(std::string_view line, char at) {
  return absl::StrSplit(absl::string_view(line.data(), line.size()), at, absl::SkipEmpty());
}

#if defined(__x86_64__)
// The registers that the system saves.
uint32_t saved_registers() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool saves(State state) {
  if (state == State::kAny) return true;
  const uint32_t low = saved_registers();
  const uint32_t needed = state == State::kApx ? 1u << 19 : state == State::kAvx512 ? 0xe6u : 0x6u;
  return (low & needed) == needed;
}

bool has(const Feature& f) {
  uint32_t r[4] = {};
  return __get_cpuid_count(f.leaf, f.subleaf, &r[0], &r[1], &r[2], &r[3]) &&
         (r[static_cast<int>(f.in)] >> f.bit & 1) && saves(f.state);
}
#else
bool has(const Feature&) { return false; }
#endif

bool is_allowed(State state, hlo::Isa limit) {
  if (state == State::kAny) return true;
  return limit >= (state == State::kAvx ? hlo::Isa::kAvx2 : hlo::Isa::kAvx512);
}

}  // namespace

absl::StatusOr<std::string> machine_line(std::string_view target) {
  // "triple cpu features bits", the features "+a,-b" or nothing.
  const std::vector<std::string> parts = words_of(target, ' ');
  if (parts.size() < 3 || !parts[0].starts_with(kMachine))
    return absl::UnimplementedError(
        str_cat("machine code is kept in files on x86-64 only, not for ", parts.empty() ? "" : parts[0]));
  std::set<std::string> needed;
  const auto level =
      std::find_if(std::begin(kLevels), std::end(kLevels), [&](const Level& l) { return l.cpu == parts[1]; });
  if (level != std::end(kLevels))
    for (std::string& name : words_of(level->features, ' ')) needed.insert(std::move(name));
  else if (parts.size() < 4)
    return absl::UnimplementedError(str_cat("it is not known which features code for ", parts[1], " needs"));
  if (parts.size() == 4)
    for (const std::string& name : words_of(parts[2], ','))
      if (name.starts_with('+') &&
          std::find(std::begin(kOthers), std::end(kOthers), name.substr(1)) == std::end(kOthers))
        needed.insert(name.substr(1));
  std::string line(kMachine);
  for (const std::string& name : needed) str_append(&line, " ", name);
  return line;
}

absl::Status check_machine_line(std::string_view line) {
  const std::vector<std::string> words = words_of(line, ' ');
#if defined(__x86_64__)
  const bool is_this = !words.empty() && words[0] == kMachine;
#else
  const bool is_this = false;
#endif
  if (!is_this)
    return absl::FailedPreconditionError(str_cat("it is for the machine ", words.empty() ? "" : words[0]));
  const absl::StatusOr<hlo::Isa> limit = hlo::isa_limit();
  if (!limit.ok()) return limit.status();
  std::string missing;
  for (size_t i = 1; i < words.size(); ++i) {
    const auto f = std::find_if(std::begin(kFeatures), std::end(kFeatures),
                                [&](const Feature& known) { return known.name == words[i]; });
    if (f != std::end(kFeatures) && is_allowed(f->state, *limit) && has(*f)) continue;
    str_append(&missing, missing.empty() ? "" : ", ", words[i]);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(str_cat("this processor has no ", missing));
}

std::string processor_words() {
  std::string out;
#if defined(__x86_64__)
  out = str_cat(kMachine, " ", static_cast<int64_t>(saved_registers()));
  for (const Leaf& l : kLeaves) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(l.leaf, l.subleaf, &a, &b, &c, &d)) a = b = c = d = 0;
    str_append(&out, " ", static_cast<int64_t>(l.eax ? a : 0), ",", static_cast<int64_t>(l.ebx ? b : 0), ",",
               static_cast<int64_t>(l.ecx ? c : 0), ",", static_cast<int64_t>(l.edx ? d : 0));
  }
#endif
  return out;
}

}  // namespace lamina::jit
