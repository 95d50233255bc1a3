// The reader of kernel texts. The text is canonical, so the reader takes one form of everything: what it
// accepts prints back byte for byte.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "jit/kernel/kernel.h"

namespace lamina::jit {
namespace {

using hlo::Prim;
using hlo::ScalarInstr;

std::optional<Prim> parse_prim(std::string_view name) {
  for (int p = 0; p <= static_cast<int>(Prim::convert); ++p)
    if (hlo::prim_name(static_cast<Prim>(p)) == name) return static_cast<Prim>(p);
  return std::nullopt;
}

// What follows the result's type of an instruction, by its first word; other words are primitives.
struct Form {
  std::string_view word;
  KernelOp op;
};
constexpr Form kKernelForms[] = {
    {"load", KernelOp::kLoad},        {"load_at", KernelOp::kLoadAt},  {"index", KernelOp::kIndex},
    {"arg", KernelOp::kArg},          {"reduced", KernelOp::kReduced}, {"repeat", KernelOp::kRepeat},
    {"store_at", KernelOp::kStoreAt}, {"copy", KernelOp::kCopy},       {"repeated", KernelOp::kRepeated},
    {"carried", KernelOp::kCarried},  {"outer", KernelOp::kOuter},
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<LoopKernel> run() {
    if (text_.size() > kMaxKernelText)
      return absl::InvalidArgumentError("1:1: a kernel text of more than 1 MiB");
    LoopKernel kernel;
    read(kernel);
    if (fault_.empty() && at_ != text_.size()) fail("text after the end");
    if (fault_.empty()) return kernel;
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = at_ - (before.rfind('\n') + 1) + 1;
    return absl::InvalidArgumentError(absl::StrCat(line, ":", column, ": ", fault_));
  }

 private:
  // The first fault stays; after it nothing is read any more.
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  bool sees(std::string_view word) const { return fault_.empty() && text_.substr(at_, word.size()) == word; }
  bool take(std::string_view word) {
    if (!sees(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!fault_.empty() || take(word)) return;
    if (word == "\n") return fail("the line should end here");
    fail(absl::StrCat("expected '", absl::string_view(word.data(), word.size()), "'"));
  }

  // Decimal, without leading zeros.
  uint64_t number(uint64_t most = std::numeric_limits<uint32_t>::max()) {
    if (!fault_.empty()) return 0;
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && value <= most)
      value = value * 10 + static_cast<uint64_t>(text_[at_++] - '0');
    if (at_ == begin || (text_[begin] == '0' && at_ > begin + 1) || value > most) {
      at_ = begin;
      fail(absl::StrCat("expected a number up to ", most));
      return 0;
    }
    return value;
  }
  uint32_t index(std::string_view sigil) {
    expect(sigil);
    return static_cast<uint32_t>(number());
  }
  // The number that this place asks for: things are numbered in order.
  void in_order(std::string_view sigil, size_t expected) {
    const size_t begin = at_;
    if (index(sigil) == expected || !fault_.empty()) return;
    at_ = begin;
    fail(absl::StrCat("expected '", absl::string_view(sigil.data(), sigil.size()), expected, "'"));
  }
  uint64_t hex() {
    expect("0x");
    if (!fault_.empty()) return 0;
    const size_t begin = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && at_ < begin + 16; ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value << 4 | static_cast<uint64_t>(digit);
    }
    if (at_ == begin || (text_[begin] == '0' && at_ > begin + 1)) {
      at_ = begin;
      fail("expected a hexadecimal number without leading zeros");
    }
    return value;
  }
  std::string_view word() {
    const size_t begin = at_;
    while (fault_.empty() && at_ < text_.size() &&
           ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= 'A' && text_[at_] <= 'Z') ||
            (text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '_'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  DType type() {
    const size_t begin = at_;
    const std::string_view name = word();
    const std::optional<DType> found = hlo::parse_dtype(name);
    // A type has one name in kernels and maybe another one elsewhere.
    if (found && hlo::info(*found).name == name) return *found;
    if (fault_.empty()) at_ = begin;
    fail("expected an element type");
    return DType::kBool;
  }

  // " %1, %2"; nothing where there is none.
  std::vector<uint32_t> values() {
    std::vector<uint32_t> result;
    if (!sees(" %")) return result;
    do result.push_back(index(" %"));
    while (take(","));
    return result;
  }
  void operands(Prim prim, uint32_t* to) {
    for (int k = 0; k < hlo::prim_arity(prim); ++k) to[k] = index(k ? ", %" : " %");
  }

  bool count_instr() {
    if (++instrs_ > kMaxKernelInstrs) fail(absl::StrCat("more than ", kMaxKernelInstrs, " instructions"));
    return fault_.empty();
  }

  // "%7 = f32 ", and the word that follows, which is given.
  std::string_view result(size_t number, DType* type_of) {
    in_order("  %", number);
    expect(" = ");
    *type_of = type();
    expect(" ");
    return word();
  }

  void section(std::vector<KernelInstr>* code) {
    while (sees("  %") && count_instr()) {
      KernelInstr i{};
      const std::string_view name = result(code->size(), &i.type);
      const auto* const form = std::find_if(std::begin(kKernelForms), std::end(kKernelForms),
                                            [&](const Form& f) { return f.word == name; });
      if (form != std::end(kKernelForms)) {
        i.op = form->op;
        rest(&i);
      } else if (const std::optional<Prim> prim = parse_prim(name)) {
        i.op = KernelOp::kPrim;
        primitive(*prim, &i.prim, i.operands, &i.imm);
      } else if (fault_.empty()) {
        at_ -= name.size();
        fail("no such instruction");
      }
      expect("\n");
      code->push_back(i);
    }
  }

  void primitive(Prim prim, Prim* to, uint32_t* operands_to, uint64_t* imm) {
    *to = prim;
    operands(prim, operands_to);
    if (hlo::has_immediate(prim)) {
      expect(" ");
      *imm = hex();
    }
  }

  void rest(KernelInstr* i) {
    const auto condition = [&](int k) {
      if (!take(" if")) return;
      i->predicated = true;
      i->operands[k] = index(" %");
    };
    switch (i->op) {
      case KernelOp::kLoad:
        i->imm = index(" x");
        return condition(0);
      case KernelOp::kLoadAt:
        i->imm = index(" b");
        i->operands[0] = index(" %");
        return condition(1);
      case KernelOp::kStoreAt:
        i->imm = index(" b");
        i->operands[0] = index(" %");
        i->operands[1] = index(" %");
        return condition(2);
      case KernelOp::kCopy: {
        const uint32_t to = index(" b");
        i->imm = copy_of(index(" b"), to);
        i->operands[0] = index(" %");
        return;
      }
      case KernelOp::kIndex:
        i->imm = index(" i");
        return;
      case KernelOp::kArg:
        i->imm = index(" a");
        return;
      case KernelOp::kReduced:
        i->imm = index(" r");
        return;
      case KernelOp::kRepeat:
        i->imm = index(" p");
        return;
      case KernelOp::kRepeated:
        i->operands[0] = index(" %");
        i->imm = index(" c");
        return;
      case KernelOp::kCarried:
        i->imm = index(" c");
        return;
      case KernelOp::kOuter:
        i->imm = index(" %");
        return;
      case KernelOp::kPrim:
        return;
    }
  }

  void stores(std::vector<Store>* to) {
    while (sees("  x") && count_instr()) {
      const uint32_t access = index("  x");
      const uint32_t value = index(" = %");
      expect("\n");
      to->push_back({access, value});
    }
  }

  Access access() {
    Access a;
    a.buffer = index("b");
    expect("[");
    if (!take("0")) a.offset_slot = static_cast<int32_t>((expect("a"), number(kMaxArgs)));
    if (take("+")) {
      a.beside = static_cast<uint8_t>(number(kMostKnownStride - 1));
      if (a.beside == 0) fail("a zero that is not written");
    }
    while (take(" + i")) {
      AccessTerm term{static_cast<uint8_t>(number(kMaxLoopRank - 1)), 1, 0};
      if (take("*a")) {
        term.unit = 0;
        term.stride_slot = static_cast<uint32_t>(number(kMaxArgs));
      } else if (take("*")) {
        const int8_t sign = take("-") ? -1 : 1;
        term.unit = static_cast<int8_t>(sign * static_cast<int8_t>(number(kMostKnownStride)));
        if (term.unit == 0 || term.unit == 1) fail("a known stride that is written otherwise");
      }
      a.terms.push_back(term);
    }
    expect("]");
    return a;
  }

  void scalar_program(std::string_view head, hlo::ScalarProgram* program) {
    expect(head);
    do program->inputs.push_back(type());
    while (take(", "));
    expect(")\n");
    while (sees("  %") && count_instr()) {
      ScalarInstr i{};
      const std::string_view name = result(program->inputs.size() + program->code.size(), &i.type);
      if (const std::optional<Prim> prim = parse_prim(name)) {
        primitive(*prim, &i.prim, i.operands, &i.imm);
      } else if (fault_.empty()) {
        at_ -= name.size();
        fail("no such primitive");
      }
      expect("\n");
      program->code.push_back(i);
    }
    expect("  return");
    program->outputs = values();
    expect("\n");
  }

  void repeat(size_t number, Repeat* r) {
    in_order("repeat p", number);
    r->counted = take(" counted");
    if (!r->counted) expect(" while");
    expect(" from");
    r->init = values();
    expect("\n");
    if (!r->counted) {
      section(&r->cond);
      r->condition = index(" condition %");
      expect("\n");
    }
    section(&r->body);
    expect(" next");
    r->next = values();
    expect("\n");
    stores(&r->stores);
  }

  void read(LoopKernel& k) {
    expect("kernel 1 parallel ");
    k.parallel_rank = static_cast<uint8_t>(number(kMaxLoopRank));
    expect(" reduce ");
    k.reduce_rank = static_cast<uint8_t>(number(kMaxLoopRank));
    expect(" args ");
    k.num_args = static_cast<uint32_t>(number(kMaxArgs));
    expect("\n");
    while (sees("  b")) {
      in_order("  b", k.buffers.size());
      expect(": ");
      BufferDecl b{type(), false};
      b.written = take(" out");
      expect("\n");
      k.buffers.push_back(b);
    }
    while (sees("  x")) {
      in_order("  x", k.accesses.size());
      expect(": ");
      k.accesses.push_back(access());
      expect("\n");
    }
    expect("body\n");
    section(&k.body);
    k.has_reduction = take("reduce");
    if (k.has_reduction) {
      k.reduction.inputs = values();
      expect(" init");
      while (sees(" x")) k.reduction.init.push_back(index(" x"));
      expect("\n");
      scalar_program("  combine (", &k.reduction.combine);
      expect("epilogue\n");
      section(&k.epilogue);
    } else if (take("sort\n")) {
      scalar_program("  before (", &k.before.emplace());
    }
    while (sees("repeat p")) {
      k.repeats.emplace_back();
      repeat(k.repeats.size() - 1, &k.repeats.back());
    }
    expect("stores\n");
    stores(&k.stores);
    expect("end\n");
  }

  // Arguments of one kernel: no more than its text can name.
  static constexpr uint64_t kMaxArgs = kMaxKernelText;

  std::string_view text_;
  size_t at_ = 0;
  size_t instrs_ = 0;
  std::string fault_;
};

}  // namespace

absl::StatusOr<LoopKernel> parse_kernel(std::string_view text) {
  absl::StatusOr<LoopKernel> kernel = Parser(text).run();
  if (!kernel.ok()) return kernel;
  if (absl::Status status = verify(*kernel); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat("1:1: ", status.message()));
  return kernel;
}

}  // namespace lamina::jit
