// Scalar programs: the one definition of what an elementwise op computes.
//
// A scalar rule is an ordinary function over `Scalar` handles. Running it once per combination of operand
// types records a straight-line `ScalarProgram`; folding, the evaluator, the interpreting tier and the code
// generators all execute that program, so their bits cannot differ. A complex element is two values (real,
// imaginary).
#ifndef LAMINA_HLO_SCALAR_PROGRAM_H_
#define LAMINA_HLO_SCALAR_PROGRAM_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hlo/dtype.h"
#include "hlo/hash_map.h"

namespace lamina::hlo {

enum class Prim : uint8_t {
#define PRIM(name, arity, meaning) name,
#include "hlo/scalar/primitives.def"
#undef PRIM
};

// Whether ScalarInstr::imm counts.
constexpr bool has_immediate(Prim p) { return p == Prim::constant || p == Prim::lookup; }
// Takes (bool, T, T).
constexpr bool is_select(Prim p) { return p == Prim::select || p == Prim::select_rare; }
int prim_arity(Prim p);
const char* prim_name(Prim p);

// Value numbers: 0 ... inputs.size()-1 are the inputs, instruction i defines inputs.size()+i.
struct ScalarInstr {
  Prim prim;
  DType type;  // of the result
  uint32_t operands[3] = {0, 0, 0};
  uint64_t imm = 0;  // constant: the bits, zero-extended; lookup: the number of the table
  bool operator==(const ScalarInstr&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const ScalarInstr& i) {
    return H::combine(std::move(h), i.prim, i.type, i.operands[0], i.operands[1], i.operands[2], i.imm);
  }
};

struct ScalarProgram {
  std::vector<DType> inputs;  // part types: never complex
  std::vector<ScalarInstr> code;
  std::vector<uint32_t> outputs;
  bool operator==(const ScalarProgram&) const = default;

  DType type_of(uint32_t value) const {
    return value < inputs.size() ? inputs[value] : code[value - inputs.size()].type;
  }
};

// Readable listing, one instruction per line.
std::string to_string(const ScalarProgram& program);

class ScalarRecorder;

// A typed handle to a value of the program being recorded. Cheap to copy; valid while its recorder lives.
class Scalar {
 public:
  Scalar() = default;
  Scalar(ScalarRecorder* recorder, uint32_t id, DType type) : recorder_(recorder), id_(id), type_(type) {}
  DType type() const { return type_; }
  uint32_t id() const { return id_; }
  ScalarRecorder* recorder() const { return recorder_; }

 private:
  ScalarRecorder* recorder_ = nullptr;
  uint32_t id_ = 0;
  DType type_ = DType::kF32;
};

// Whether `prim` exists for this result type, these operand types and this immediate.
bool prim_accepts(Prim prim, DType result, std::span<const DType> operands, uint64_t imm = 0);

// Records primitives with deduplication and constant folding (bits preserved), and drops dead code in
// `finish`.
class ScalarRecorder {
 public:
  explicit ScalarRecorder(std::span<const DType> inputs);
  ScalarRecorder(const ScalarRecorder&) = delete;  // handles point at their recorder
  ScalarRecorder& operator=(const ScalarRecorder&) = delete;

  Scalar input(int i);
  // The types must satisfy `prim_accepts` (checked: a rule that breaks this is a bug in the rule).
  Scalar emit(Prim prim, DType result, std::span<const Scalar> operands, uint64_t imm = 0);
  Scalar constant_bits(DType type, uint64_t bits);
  // `value` converted to `type` as Prim::convert does from f64.
  Scalar constant(DType type, double value);
  // Appends a copy of `program` applied to `inputs` (types must match); returns its outputs.
  std::vector<Scalar> inline_program(const ScalarProgram& program, std::span<const Scalar> inputs);
  ScalarProgram finish(std::span<const Scalar> outputs);

 private:
  Scalar append(const ScalarInstr& instr);
  const ScalarInstr* definition(uint32_t value) const;

  ScalarProgram program_;
  HashMap<ScalarInstr, uint32_t> known_;
};

// Runs `program` on `count` elements: inputs[i] and outputs[j] point at contiguous arrays of the value's type
// (bool as one byte 0 or 1). Works in blocks; outputs may alias inputs exactly (same pointer), not partly.
void interpret(const ScalarProgram& program, std::span<const void* const> inputs,
               std::span<void* const> outputs, int64_t count);

// The same, prepared once for many runs; safe to run from several threads at a time.
class PreparedProgram {
 private:
  class Layout;

 public:
  // Where a run keeps its values: one run at a time. Kept by the caller, the next run of the same program
  // finds memory and constants ready.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

   private:
    friend class Layout;
    struct Free {
      void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
    };
    std::shared_ptr<const Layout> ready_for_;
    int64_t elements_ = 0;  // per slot
    std::unique_ptr<std::byte[], Free> bytes_;
    std::vector<std::byte*> slots_;
  };

  explicit PreparedProgram(ScalarProgram program);
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count) const;
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count,
           Scratch& scratch) const;
  const ScalarProgram& program() const;

 private:
  std::shared_ptr<const Layout> layout_;
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_PROGRAM_H_
