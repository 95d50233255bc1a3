// The sign and the payload of a NaN decide nothing: which NaN an operation gives differs between machines and
// between the ways of running a program.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "catch2/catch.hpp"
#include "hlo/attributes.h"
#include "hlo/narrow.h"
#include "hlo/op.h"
#include "hlo/scalar/program.h"

namespace lamina::hlo {
namespace {

// Every NaN of `t` as bits, or a few of those of the wide types; the canonical one first.
std::vector<uint64_t> nans(DType t) {
  switch (t) {
    case DType::kF64:
      return {0x7ff8000000000000, 0xfff8000000000000, 0x7fffffffffffffff, 0xfff8000000000001};
    case DType::kF32:
      return {0x7fc00000, 0xffc00000, 0x7fffffff, 0xffc00001};
    case DType::kF16:
      return {0x7e00, 0xfe00, 0x7fff, 0xfe01};
    case DType::kBF16:
      return {0x7fc0, 0xffc0, 0x7fff, 0xffc1};
    default:
      break;
  }
  std::vector<uint64_t> codes;
  if (!is_narrow_float(t)) return codes;
  const uint8_t canonical = to_narrow(t, std::numeric_limits<float>::quiet_NaN());
  if (std::isnan(narrow_values(t)[canonical])) codes.push_back(canonical);
  for (int code = 0; code < 1 << bit_width(t); ++code)
    if (code != canonical && std::isnan(narrow_values(t)[code])) codes.push_back(code);
  return codes;
}

std::vector<uint64_t> numbers(DType t) {
  if (is_bool(t)) return {0, 1};
  if (is_integer(t)) return {0, 1, (uint64_t{1} << bit_width(t)) - 1};
  std::vector<uint64_t> codes;
  for (float x : {0.f, -0.f, 1.f, -1.f, 2.5f, -800.f, INFINITY, -INFINITY}) {
    const double wide = x;
    uint64_t bits = 0;
    if (is_narrow_float(t)) {
      bits = to_narrow(t, x);
    } else if (t == DType::kF64) {
      std::memcpy(&bits, &wide, 8);
    } else {
      const auto program = [&] {
        ScalarRecorder r({});
        return r.finish(std::array{r.constant(t, wide)});
      }();
      bits = program.code.back().imm;
    }
    codes.push_back(bits);
  }
  return codes;
}

bool is_nan(DType t, const std::byte* p) {
  if (!is_float(t)) return false;
  double wide;
  if (t == DType::kF64) return std::memcpy(&wide, p, 8), std::isnan(wide);
  return std::isnan(element_to_f32(t, p));
}

using Columns = std::vector<std::vector<std::byte>>;

Columns run(const ScalarProgram& program, const Columns& in, size_t n) {
  Columns out;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const auto& c : in) inputs.push_back(c.data());
  for (uint32_t o : program.outputs) out.emplace_back(n * byte_size(program.type_of(o)));
  for (auto& c : out) outputs.push_back(c.data());
  interpret(program, inputs, outputs, static_cast<int64_t>(n));
  return out;
}

// The first row of special values where another NaN gives another result; -1: none.
int64_t row_that_sees_nans(const ScalarProgram& program) {
  std::vector<std::vector<uint64_t>> values;  // per input; one past the numbers stands for a NaN
  std::vector<std::vector<uint64_t>> nan_bits;
  size_t n = 1;
  for (DType t : program.inputs) {
    values.push_back(numbers(t));
    nan_bits.push_back(nans(t));
    n *= values.back().size() + !nan_bits.back().empty();
  }
  std::mt19937 random(3);
  Columns want;
  for (int round = 0; round < 5; ++round) {
    Columns in;
    size_t repeat = 1;
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const size_t width = byte_size(program.inputs[i]), choices = values[i].size() + !nan_bits[i].empty();
      in.emplace_back(n * width);
      for (size_t row = 0; row < n; ++row) {
        const size_t at = row / repeat % choices;
        const uint64_t bits = at < values[i].size() ? values[i][at]
                              : round == 0          ? nan_bits[i][0]
                                                    : nan_bits[i][random() % nan_bits[i].size()];
        std::memcpy(&in[i][row * width], &bits, width);
      }
      repeat *= choices;
    }
    const Columns have = run(program, in, n);
    if (round == 0) want = have;
    for (size_t o = 0; o < have.size(); ++o) {
      const DType t = program.type_of(program.outputs[o]);
      const size_t width = byte_size(t);
      for (size_t row = 0; row < n; ++row) {
        const std::byte *x = &have[o][row * width], *y = &want[o][row * width];
        if (std::memcmp(x, y, width) != 0 && !(is_nan(t, x) && is_nan(t, y)))
          return static_cast<int64_t>(row);
      }
    }
  }
  return -1;
}

std::vector<const Attrs*> attributes_for(Op op) {
  std::vector<const Attrs*> all;
  switch (op) {
    case Op::bitcast_convert:
    case Op::convert:
      for (int t = 0; t < kNumDTypes; ++t)
        all.push_back(intern_attrs({{Attr::dtype, static_cast<DType>(t)}}));
      return all;
    case Op::compare:
      for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
        all.push_back(intern_attrs({{Attr::direction, std::string(direction)}}));
        all.push_back(intern_attrs(
            {{Attr::direction, std::string(direction)}, {Attr::compare_type, std::string("TOTALORDER")}}));
      }
      return all;
    case Op::reduce_precision:
      return {intern_attrs({{Attr::exponent_bits, int64_t{5}}, {Attr::mantissa_bits, int64_t{3}}})};
    default:
      return {intern_attrs({})};
  }
}

TEST_CASE("no elementwise op sees the sign or the payload of a NaN", "[scalar][nan]") {
  int programs = 0, showing_bits = 0;
  for (int i = 0; i < num_ops(); ++i) {
    const Op op = static_cast<Op>(i);
    const OpDef& row = op_def(op);
    if (!row.scalar) continue;
    for (int d = 0; d < kNumDTypes; ++d) {
      const DType t = static_cast<DType>(d);
      if (!is_float(t) && !is_complex(t)) continue;
      for (const Attrs* attrs : attributes_for(op)) {
        std::vector<DType> operands(row.arity, t);
        if (op == Op::select) operands[0] = DType::kBool;
        std::vector<const Type*> types;
        for (DType x : operands) types.push_back(scalar_type(x));
        const auto type = row.type(types, *attrs);
        if (!type.ok()) continue;
        INFO(row.name << " of " << info(t).name << ", row "
                      << row_that_sees_nans(row.scalar(operands, (*type)->dtype, *attrs)));
        CHECK(row_that_sees_nans(row.scalar(operands, (*type)->dtype, *attrs)) == -1);
        ++programs;
        showing_bits += is_integer((*type)->dtype);
      }
    }
  }
  CHECK(programs > 500);
  CHECK(showing_bits > 50);
}

}  // namespace
}  // namespace lamina::hlo
