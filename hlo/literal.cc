#include "hlo/literal.h"

#include <array>

#include "hlo/once.h"
#include "hlo/scalar/adapters.h"

namespace lamina::hlo {
namespace {

void convert_one(DType from, const void* in, DType to, void* out) {
  // Recording a program and laying it out takes many times what running it does.
  static constinit std::array<std::array<Once<PreparedProgram>, kNumDTypes>, kNumDTypes> programs;
  const PreparedProgram& program = programs[static_cast<size_t>(from)][static_cast<size_t>(to)].get(
      [&] { return new PreparedProgram(scalar::record_rule(scalar::convert_rule, std::array{from}, to)); });
  const void* ins[] = {in};
  void* outs[] = {out};
  program.run(ins, outs, 1);
}

template <typename T>
LiteralPtr scalar_from(DType dtype, DType from, T value) {
  auto lit = std::make_shared<Literal>(scalar_type(dtype));
  if (part_type(dtype) == from) {
    std::memcpy(lit->data(), &value, sizeof value);
  } else {
    convert_one(from, &value, part_type(dtype), lit->data());
  }
  return lit;
}

}  // namespace

LiteralPtr Literal::splat(const Type* type, const void* element) {
  auto lit = std::make_shared<Literal>(type);
  const int64_t width = byte_size(type->dtype);
  for (int64_t i = 0; i < type->num_elements; ++i) std::memcpy(lit->element(i), element, width);
  return lit;
}

LiteralPtr Literal::scalar(DType dtype, double value) { return scalar_from(dtype, DType::kF64, value); }

LiteralPtr Literal::scalar_int(DType dtype, int64_t value) { return scalar_from(dtype, DType::kS64, value); }

LiteralPtr Literal::copy_of(const Type* type, const void* bytes) {
  auto lit = std::make_shared<Literal>(type);
  if (type->bytes() > 0) std::memcpy(lit->data(), bytes, type->bytes());
  return lit;
}

bool Literal::is_splat() const {
  const int64_t width = byte_size(dtype());
  for (int64_t i = 1; i < size(); ++i)
    if (std::memcmp(element(0), element(i), width) != 0) return false;
  return size() > 0;
}

int64_t Literal::int_at(int64_t i) const {
  switch (storage_type(dtype())) {
    case DType::kBool:
      return as<uint8_t>()[i];
    case DType::kS8:
      return as<int8_t>()[i];
    case DType::kS16:
      return as<int16_t>()[i];
    case DType::kS32:
      return as<int32_t>()[i];
    case DType::kU8:
      return as<uint8_t>()[i];
    case DType::kU16:
      return as<uint16_t>()[i];
    case DType::kU32:
      return as<uint32_t>()[i];
    default:
      return as<int64_t>()[i];
  }
}

double Literal::double_at(int64_t i) const {
  double out = 0;
  if (dtype() == DType::kF64) return as<double>()[i];
  convert_one(part_type(dtype()), element(i), DType::kF64, &out);
  return out;
}

}  // namespace lamina::hlo
