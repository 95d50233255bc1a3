// Discrete Fourier transforms as calls of planned routines (hlo/linalg/fourier.h), and as a convolution
// (Bluestein's) where a length has a large prime factor.
#include <numbers>

#include "hlo/linalg/calls.h"
#include "hlo/linalg/derivatives.h"
#include "hlo/linalg/fourier.h"
#include "hlo/linalg/linalg.h"
#include "hlo/linalg/matrix.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

constexpr int64_t kLongest = 1LL << 26;  // of a transform

// exp(sign 2 pi i k / n) of integers.
Value unit(Builder& b, const Value& k, int64_t n, int sign, DType dtype) {
  if (!k) return k;
  const Value turns = b.convert(k, DType::kF64);
  const Value angle =
      b.multiply(turns, b.full_like(turns, sign * 2 * std::numbers::pi / static_cast<double>(n)));
  const DType part = part_type(dtype);
  return b.complex(b.convert(b.cosine(angle), part), b.convert(b.sine(angle), part));
}

Value line_transform(Builder& b, const Value& x, bool inverse) {
  return call(b, inverse ? "lamina.ifft" : "lamina.fft", {{x}})[0];
}

// Bluestein's transform: k j = (k^2 + j^2 - (k - j)^2) / 2 makes the sum a convolution with a chirp, of a
// length that is a power of two.
Value convolved(Builder& b, const Value& x, bool inverse) {
  const int64_t n = x.dims().back(), outer = x.rank() - 1;
  const int sign = inverse ? 1 : -1;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  auto spread = [&](const Value& v, int64_t size) {
    Dims dims = x.dims();
    dims.back() = size;
    return v ? b.broadcast_in_dim(v, dims, Dims{outer}) : v;
  };
  const Type* integers = array_type_or_die(DType::kS64, Dims{n});
  const Value j = b.iota(DType::kS64, Dims{n}, 0);
  const Value square = b.remainder(b.multiply(j, j), b.full(integers, static_cast<double>(2 * n)));
  const Value chirp = unit(b, square, 2 * n, sign, x.dtype());
  const Value against = unit(b, square, 2 * n, -sign, x.dtype());
  const Value zero = b.scalar(x.dtype(), 0);
  Dims low(x.rank(), 0), high(x.rank(), 0);
  high.back() = m - n;
  const Value padded = b.pad(b.multiply(x, spread(chirp, n)), zero, low, high);
  // against[0 .. n), zeros, against[n-1 .. 1].
  const Value tail = b.reverse(b.slice(against, Dims{1}, Dims{n}), Dims{0});
  const Value wrapped = b.concatenate({{b.pad(against, zero, Dims{0}, Dims{m - 2 * n + 1}), tail}}, 0);
  const Value response = spread(line_transform(b, wrapped, false), m);
  const Value back = line_transform(b, b.multiply(line_transform(b, padded, false), response), true);
  if (!back) return back;
  const Value sums = b.multiply(b.slice(back, low, x.dims()), spread(chirp, n));
  return inverse ? b.multiply(sums, b.full_like(sums, 1 / static_cast<double>(n))) : sums;
}

// Along the last dimension.
Value transform(Builder& b, const Value& x, bool inverse) {
  if (!x || x.dims().back() <= 1) return x;
  const bool planned = has_fourier_plan(FourierKind::kForward, x.dims().back());
  return planned ? line_transform(b, x, inverse) : convolved(b, x, inverse);
}

Value complex_transform(Builder& b, const Value& x, int64_t d, bool inverse) {
  const int64_t last = x.rank() - 1, n = x.dims()[d];
  if (d < last && n > 1 && has_fourier_plan(FourierKind::kForward, n)) {
    Dims matrices(x.dims().begin(), x.dims().begin() + d + 1);
    matrices.push_back(hlo::product(std::span(x.dims()).subspan(d + 1)));
    const Value y =
        call(b, inverse ? "lamina.ifft_columns" : "lamina.fft_columns", {{b.reshape(x, matrices)}})[0];
    return b.reshape(y, x.dims());
  }
  return b.move_dim(transform(b, b.move_dim(x, d, last), inverse), last, d);
}

// The half of a spectrum along the last dimension as the whole: x[n - k] = conj(x[k]).
Value whole_spectrum(Builder& b, const Value& x, int64_t n) {
  if (!x) return x;
  const int64_t last = x.rank() - 1;
  Dims start(x.rank(), 0), limit = x.dims();
  start[last] = 1;
  limit[last] = (n + 1) / 2;  // of an even length the middle one is its own partner
  if (limit[last] <= 1) return x;
  return b.concatenate({{x, conj(b, b.reverse(b.slice(x, start, limit), Dims{last}))}}, last);
}

Value real_transform(Builder& b, const Value& x) {
  if (!x) return x;
  const int64_t n = x.dims().back();
  if (n > 0 && has_fourier_plan(FourierKind::kReal, n)) return call(b, "lamina.rfft", {{x}})[0];
  const Value y = transform(b, b.convert(x, x.dtype() == DType::kF32 ? DType::kC64 : DType::kC128), false);
  if (!y) return y;
  Dims limit = y.dims();
  limit.back() = n == 0 ? 0 : n / 2 + 1;
  return b.slice(y, Dims(y.rank(), 0), limit);
}

// To n real numbers.
Value inverse_real_transform(Builder& b, const Value& x, int64_t n) {
  if (!x) return x;
  if (n == 0 || !has_fourier_plan(FourierKind::kRealInverse, n))
    return b.real(transform(b, whole_spectrum(b, x, n), true));
  Dims dims = x.dims();
  dims.back() = n;
  std::vector<const Type*> results = {array_type_or_die(part_type(x.dtype()), dims)};
  return b.make_multi(Op::custom_call, {{x}},
                      intern_attrs({{Attr::call_target_name, std::string("lamina.irfft")},
                                    {Attr::result_types, std::move(results)}}))[0];
}

}  // namespace

Value fft_along(Builder& b, const Value& x, std::string_view kind, int64_t n, int64_t d) {
  if (!x) return x;
  const bool real_in = kind == "RFFT", real_out = kind == "IRFFT", inverse = kind == "IFFT" || real_out;
  if (!real_in && !real_out && kind != "FFT" && kind != "IFFT")
    return b.fail(invalid("the kind of a Fourier transform is FFT, IFFT, RFFT or IRFFT, not '", kind, "'"));
  const bool fits = real_in ? x.dtype() == DType::kF32 || x.dtype() == DType::kF64 : is_complex(x.dtype());
  if (!fits) return b.fail(invalid(kind, " is not defined for ", to_string(*x.type())));
  const int64_t last = x.rank() - 1, have = x.dims()[d], want = real_out ? n / 2 + 1 : n;
  if (n < 0 || n > kLongest || (have != want && !(n == 0 && have == 0)))
    return b.fail(invalid("length ", n, " does not fit dimension ", d, " of ", to_string(*x.type())));
  if (!real_in && !real_out) return complex_transform(b, x, d, inverse);
  const Value lines = b.move_dim(x, d, last);
  return b.move_dim(real_in ? real_transform(b, lines) : inverse_real_transform(b, lines, n), last, d);
}

Value fft(Builder& b, const Value& x, std::string_view kind, std::span<const int64_t> length) {
  if (!x) return x;
  const auto count = static_cast<int64_t>(length.size()), first = x.rank() - count, last = x.rank() - 1;
  if (count < 1 || count > 3 || first < 0) return b.fail(invalid("transforms the last 1 to 3 dimensions"));
  // The last dimension has the real side: it is the first one of a transform and the last one of an inverse.
  const bool real_in = kind == "RFFT", real_out = kind == "IRFFT";
  const std::string_view others = real_in ? "FFT" : real_out ? "IFFT" : kind;
  Value y = real_in ? fft_along(b, x, kind, length.back(), last) : x;
  for (int64_t d = first; d < last; ++d) y = fft_along(b, y, others, length[d - first], d);
  return real_in ? y : fft_along(b, y, kind, length.back(), last);
}

namespace {

constexpr std::string_view kColumns = "_columns";

struct Name {
  std::string_view target, kind;
};
constexpr Name kNames[] = {
    {"lamina.fft", "FFT"}, {"lamina.ifft", "IFFT"}, {"lamina.rfft", "RFFT"}, {"lamina.irfft", "IRFFT"}};

std::string_view target_of(const Node& node) {
  return node.op() == Op::custom_call ? std::string_view(node.attrs().string(Attr::call_target_name)) : "";
}

}  // namespace

std::optional<FourierCall> fourier_call(const Node& node) {
  for (const Name& name : kNames) {
    if (target_of(node) != name.target) continue;
    const Type& numbers = name.kind == "IRFFT" ? *node.type() : *node.operand_type(0);
    return FourierCall{name.kind, numbers.dims.back()};
  }
  return std::nullopt;
}

bool is_fourier_of_columns(const Node& node) {
  return target_of(node).starts_with("lamina.") && target_of(node).ends_with(kColumns);
}

absl::StatusOr<ComputationPtr> fourier_by_lines(const Node& node) {
  const Type* types[] = {node.operand_type(0)};
  const bool inverse = target_of(node).starts_with("lamina.i");
  return record_region(types, [&](Builder& b, std::span<const Value> x) {
    const int64_t last = x[0].rank() - 1;
    return Values{b.move_dim(line_transform(b, b.move_dim(x[0], last - 1, last), inverse), last, last - 1)};
  });
}

namespace {

// The call of `node` on another operand of the same type.
Value again(Builder& b, const Node& node, const Value& x) {
  return x ? b.make_multi(Op::custom_call, {{x}}, &node.attrs())[0] : x;
}

}  // namespace

JvpResult fourier_jvp(Builder& b, const Node& node, std::span<const Value>, std::span<const Value> t) {
  return {Values{again(b, node, t[0])}, {}};
}

// The matrix of roots is symmetric.
Values fourier_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                         std::span<const Value> ct) {
  return {again(b, node, ct[0])};
}

Values rfft_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                      std::span<const Value> ct) {
  if (!ct[0]) return Values(1);
  Dims low(ct[0].rank(), 0), high(ct[0].rank(), 0);
  high.back() = node.operand_type(0)->dims.back() - ct[0].dims().back();
  return {b.real(line_transform(b, b.pad(ct[0], b.scalar(ct[0].dtype(), 0), low, high), false))};
}

// What belongs to two numbers of the whole spectrum counts twice.
Values irfft_transpose(Builder& b, const Node&, std::span<const Value>, std::span<const bool>,
                       std::span<const Value> ct) {
  if (!ct[0]) return Values(1);
  const Value y = call(b, "lamina.rfft", {{ct[0]}})[0];
  if (!y) return {y};
  const double n = static_cast<double>(ct[0].dims().back());
  const int64_t last = y.rank() - 1, middle = y.dims()[last] - 1;
  const Value k = b.iota(DType::kS64, y.dims(), last);
  const Value alone = b.or_(b.compare(k, b.full_like(k, 0), "EQ"),
                            b.compare(k, b.full_like(k, static_cast<double>(middle)), "EQ"));
  return {b.multiply(conj(b, y), b.select(alone, b.full_like(y, 1 / n), b.full_like(y, 2 / n)))};
}

}  // namespace lamina::hlo::linalg
