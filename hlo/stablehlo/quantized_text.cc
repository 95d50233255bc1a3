// Quantized element types of StableHLO text, with the constraints that the type itself has to keep.
#include <charconv>
#include <cmath>

#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {
namespace {

// i8 and si8 are signed, u8 and ui8 unsigned.
std::optional<DType> storage_named(std::string_view word) {
  const bool is_short = word.size() > 1 && word[0] == 'u' && word[1] >= '0' && word[1] <= '9';
  const std::optional<DType> t = element_named(is_short ? str_cat("ui", word.substr(1)) : std::string(word));
  return t && is_integer(*t) && bit_width(*t) <= 32 ? t : std::nullopt;
}

}  // namespace

// i8<-127:127>
absl::Status TextParser::quantized_storage(Quantization* out) {
  const Place at = in_.position();
  std::string_view word;
  LAMINA_RETURN_IF_ERROR(in_.word("a storage type", &word));
  const std::optional<DType> storage = storage_named(word);
  if (!storage)
    return in_.error(at, str_cat("numbers are stored in integers of up to 32 bits, not in ", word));
  out->storage = *storage;
  const int bits = bit_width(*storage);
  out->min = is_signed(*storage) ? -(int64_t{1} << (bits - 1)) : 0;
  out->max = (int64_t{1} << (is_signed(*storage) ? bits - 1 : bits)) - 1;
  if (!in_.accept('<')) return absl::OkStatus();
  const int64_t least = out->min, greatest = out->max;
  LAMINA_RETURN_IF_ERROR(in_.integer("the least stored integer", &out->min));
  LAMINA_RETURN_IF_ERROR(in_.expect(':'));
  LAMINA_RETURN_IF_ERROR(in_.integer("the greatest stored integer", &out->max));
  if (out->min < least || out->min >= out->max || out->max > greatest)
    return in_.error(at, str_cat("the bounds <", out->min, ":", out->max, "> must ascend within ", least, ":",
                                 greatest, ", the range of ", word));
  return in_.expect('>');
}

// 0.5:3, or 0.5 for a zero point of 0.
absl::Status TextParser::quantized_parameter(Quantization* out) {
  const Place at = in_.position();
  const char first = in_.peek();
  if (first != '-' && (first < '0' || first > '9')) return in_.expected("a scale");
  AttrTree number;
  LAMINA_RETURN_IF_ERROR(this->number(&number));
  double scale = static_cast<double>(number.integer);
  if (number.kind == AttrTree::Kind::kFloat) {
    const char* end = number.text.data() + number.text.size();
    if (std::from_chars(number.text.data(), end, scale).ec != std::errc()) scale = 0;
  }
  scale = Literal::scalar(out->expressed, scale)->double_at(0);
  if (!std::isfinite(scale) || scale <= 0)
    return in_.error(at,
                     str_cat("a scale must be a finite positive number of type ", info(out->expressed).name));
  int64_t zero_point = 0;
  if (in_.accept(':')) LAMINA_RETURN_IF_ERROR(in_.integer("a zero point", &zero_point));
  if (zero_point < out->min || zero_point > out->max)
    return in_.error(at, str_cat("the zero point ", zero_point, " lies outside of the stored integers ",
                                 out->min, ":", out->max));
  out->scales.push_back(scale);
  out->zero_points.push_back(zero_point);
  return absl::OkStatus();
}

// Behind `!quant.uniform`: <i8<-127:127>:f32:1, {0.5:3, 0.25}>
absl::Status TextParser::quantized_type(TypeTree* out) {
  auto made = std::make_shared<Quantization>();
  LAMINA_RETURN_IF_ERROR(in_.expect('<'));
  LAMINA_RETURN_IF_ERROR(quantized_storage(made.get()));
  LAMINA_RETURN_IF_ERROR(in_.expect(':'));
  const Place expressed_at = in_.position();
  std::string_view word;
  LAMINA_RETURN_IF_ERROR(in_.word("an expressed type", &word));
  const std::optional<DType> expressed = element_named(word);
  if (!expressed || !is_float(*expressed))
    return in_.error(expressed_at, str_cat("the expressed type is a float, not ", word));
  made->expressed = *expressed;
  const bool per_axis = in_.accept(':');
  if (per_axis) {
    if (in_.peek() == '{') return in_.error("quantization by blocks is not supported");
    const Place at = in_.position();
    LAMINA_RETURN_IF_ERROR(in_.integer("the quantized dimension", &made->dimension));
    if (made->dimension < 0) return in_.error(at, "the quantized dimension is not negative");
  }
  LAMINA_RETURN_IF_ERROR(in_.expect(','));
  const Place parameters_at = in_.position();
  const bool several = in_.accept('{');
  if (several != per_axis)
    return in_.error(parameters_at, per_axis ? "a quantized dimension has a list of scales in braces"
                                             : "one scale is given where there is no quantized dimension");
  do {
    LAMINA_RETURN_IF_ERROR(quantized_parameter(made.get()));
  } while (several && in_.accept(','));
  if (several) LAMINA_RETURN_IF_ERROR(in_.expect('}'));
  LAMINA_RETURN_IF_ERROR(in_.expect('>'));
  out->dtype = made->storage;
  out->quantization = std::move(made);
  return absl::OkStatus();
}

absl::Status TextParser::check_quantized_dimension(const TypeTree& array, Place at) {
  const Quantization* q = array.quantization.get();
  if (!q || !q->is_per_axis()) return absl::OkStatus();
  if (q->dimension >= static_cast<int64_t>(array.dims.size()))
    return in_.error(
        at, str_cat("there is no dimension ", q->dimension, " to quantize along among ", array.dims.size()));
  const int64_t size = array.dims[q->dimension];
  if (size != kDynamic && size != static_cast<int64_t>(q->scales.size()))
    return in_.error(at, str_cat("there are ", q->scales.size(), " scales for the ", size,
                                 " indices of dimension ", q->dimension));
  return absl::OkStatus();
}

}  // namespace lamina::hlo::stablehlo
