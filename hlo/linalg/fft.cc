// Discrete Fourier transforms as products with small matrices of roots of unity (the Cooley-Tukey splitting),
// and as a convolution (Bluestein's) where a length has a large prime factor.
#include <cmath>
#include <numbers>

#include "hlo/linalg/linalg.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

constexpr int64_t kDirect = 64;          // lengths up to this are one product
constexpr int64_t kLongest = 1LL << 26;  // of a transform
constexpr int64_t kTable = 1 << 12;      // roots up to this many are a table, more are computed when run

class Fourier {
 public:
  Fourier(Builder& b, DType dtype) : b_(b), dtype_(dtype), part_(part_type(dtype)) {}

  // Unscaled, along the last dimension; sign -1 forward, 1 inverse.
  Value transform(const Value& x, int sign) {
    if (!x) return x;
    const int64_t n = x.dims().back();
    if (n <= 1) return x;
    if (n <= kDirect) return last_product(x, roots(n, n, n, sign));
    int64_t a = 0;
    for (int64_t d = 2; d <= kDirect && d * d <= n; ++d)
      if (n % d == 0) a = d;
    return a == 0 ? convolved(x, sign) : split(x, a, sign);
  }

  Value full(const Dims& dims, double value) { return b_.full(array_type_or_die(dtype_, dims), value); }

 private:
  // x[j1 b + j2] -> sums over j1, twiddles, sums over j2, in the order k2 a + k1.
  Value split(const Value& x, int64_t a, int sign) {
    const int64_t n = x.dims().back(), rest = n / a, outer = x.rank() - 1;
    Dims dims = x.dims();
    dims.back() = a;
    dims.push_back(rest);
    // Contracting j1 leaves [..., j2, k1].
    const Value first = b_.dot_general(b_.reshape(x, dims), roots(a, a, a, sign), {{}, {}, {outer}, {0}});
    if (!first) return first;
    const Value twiddle = b_.broadcast_in_dim(roots(rest, a, n, sign), first.dims(), Dims{outer, outer + 1});
    const Value turned = b_.move_dim(b_.multiply(first, twiddle), outer, outer + 1);
    const Value done = b_.move_dim(transform(turned, sign), outer, outer + 1);
    return b_.reshape(done, x.dims());
  }

  // x times a matrix, over the last dimension.
  Value last_product(const Value& x, const Value& matrix) {
    return b_.dot_general(x, matrix, {{}, {}, {x.rank() - 1}, {0}});
  }

  // exp(sign 2 pi i r c / n) for rows r and columns c.
  Value roots(int64_t rows, int64_t columns, int64_t n, int sign) {
    if (rows * columns <= kTable) {
      auto table = std::make_shared<Literal>(array_type_or_die(dtype_, Dims{rows, columns}));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) put(*table, r * columns + c, r * c % n, n, sign);
      return b_.constant(std::move(table));
    }
    const Dims dims{rows, columns};
    const Type* integers = array_type_or_die(DType::kS64, dims);
    const Value product = b_.multiply(b_.iota(DType::kS64, dims, 0), b_.iota(DType::kS64, dims, 1));
    return unit(b_.remainder(product, b_.full(integers, static_cast<double>(n))), n, sign);
  }

  // exp(sign 2 pi i k / n) of integers.
  Value unit(const Value& k, int64_t n, int sign) {
    if (!k) return k;
    const Value turns = b_.convert(k, DType::kF64);
    const Value angle =
        b_.multiply(turns, b_.full_like(turns, sign * 2 * std::numbers::pi / static_cast<double>(n)));
    return b_.complex(b_.convert(b_.cosine(angle), part_), b_.convert(b_.sine(angle), part_));
  }

  void put(Literal& table, int64_t at, int64_t k, int64_t n, int sign) const {
    // Whole eighths of a turn are exact.
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    double re = std::cos(angle), im = sign * std::sin(angle);
    if (4 * k % n == 0) {
      const int64_t quarter = 4 * k / n % 4;
      re = quarter == 0 ? 1 : quarter == 2 ? -1 : 0;
      im = sign * (quarter == 1 ? 1 : quarter == 3 ? -1 : 0);
    }
    if (part_ == DType::kF32) {
      table.as<float>()[2 * at] = static_cast<float>(re);
      table.as<float>()[2 * at + 1] = static_cast<float>(im);
    } else {
      table.as<double>()[2 * at] = re;
      table.as<double>()[2 * at + 1] = im;
    }
  }

  // k j = (k^2 + j^2 - (k - j)^2) / 2 makes the sum a convolution with a chirp, of a length that splits well.
  Value convolved(const Value& x, int sign) {
    const int64_t n = x.dims().back(), outer = x.rank() - 1;
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    auto spread = [&](const Value& v, int64_t size) {
      Dims dims = x.dims();
      dims.back() = size;
      return b_.broadcast_in_dim(v, dims, Dims{outer});
    };
    const Type* integers = array_type_or_die(DType::kS64, Dims{n});
    const Value j = b_.iota(DType::kS64, Dims{n}, 0);
    const Value square = b_.remainder(b_.multiply(j, j), b_.full(integers, static_cast<double>(2 * n)));
    const Value chirp = unit(square, 2 * n, sign), against = unit(square, 2 * n, -sign);
    const Value zero = b_.scalar(dtype_, 0);
    Dims low(x.rank(), 0), high(x.rank(), 0);
    high.back() = m - n;
    const Value padded = b_.pad(b_.multiply(x, spread(chirp, n)), zero, low, high);
    // against[0 .. n), zeros, against[n-1 .. 1].
    const Value tail = b_.reverse(b_.slice(against, Dims{1}, Dims{n}), Dims{0});
    const Value wrapped = b_.concatenate({{b_.pad(against, zero, Dims{0}, Dims{m - 2 * n + 1}), tail}}, 0);
    const Value product = b_.multiply(transform(padded, -1), spread(transform(wrapped, -1), m));
    const Value back = transform(product, 1);
    if (!back) return back;
    const Value summed = b_.slice(back, low, x.dims());
    return b_.multiply(b_.multiply(summed, spread(chirp, n)), full(x.dims(), 1 / static_cast<double>(m)));
  }

  Builder& b_;
  DType dtype_, part_;
};

Value along(Builder& b, Fourier& f, const Value& x, int64_t d, int sign) {
  if (!x) return x;
  const int64_t last = x.rank() - 1, n = x.dims()[d];
  Value y = b.move_dim(f.transform(b.move_dim(x, d, last), sign), last, d);
  if (sign > 0 && y) y = b.multiply(y, f.full(y.dims(), n > 0 ? 1 / static_cast<double>(n) : 1));
  return y;
}

// The half of a spectrum along the last dimension as the whole: x[n - k] = conj(x[k]).
Value whole_spectrum(Builder& b, const Value& x, int64_t n) {
  if (!x) return x;
  const int64_t last = x.rank() - 1;
  Dims start(x.rank(), 0), limit = x.dims();
  start[last] = 1;
  limit[last] = (n + 1) / 2;  // of an even length the middle one is its own partner
  if (limit[last] <= 1) return x;
  const Value part = b.reverse(b.slice(x, start, limit), Dims{last});
  return b.concatenate({{x, b.complex(b.real(part), b.negate(b.imag(part)))}}, last);
}

}  // namespace

Value fft(Builder& b, const Value& x, std::string_view kind, std::span<const int64_t> length) {
  if (!x) return x;
  const auto count = static_cast<int64_t>(length.size()), first = x.rank() - count;
  const bool real_in = kind == "RFFT", real_out = kind == "IRFFT", inverse = kind == "IFFT" || real_out;
  if (!real_in && !real_out && kind != "FFT" && kind != "IFFT")
    return b.fail(invalid("the kind of a Fourier transform is FFT, IFFT, RFFT or IRFFT, not '", kind, "'"));
  if (count < 1 || count > 3 || first < 0) return b.fail(invalid("transforms the last 1 to 3 dimensions"));
  const bool fits = real_in ? x.dtype() == DType::kF32 || x.dtype() == DType::kF64 : is_complex(x.dtype());
  if (!fits) return b.fail(invalid(kind, " is not defined for ", to_string(*x.type())));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t have = x.dims()[first + i];
    const int64_t want = real_out && i == count - 1 ? length[i] / 2 + 1 : length[i];
    if (length[i] < 0 || length[i] > kLongest || (have != want && !(length[i] == 0 && have == 0)))
      return b.fail(
          invalid("length ", length[i], " does not fit dimension ", first + i, " of ", to_string(*x.type())));
  }
  const DType dtype = real_in ? (x.dtype() == DType::kF32 ? DType::kC64 : DType::kC128) : x.dtype();
  Fourier f(b, dtype);
  const int sign = inverse ? 1 : -1;
  const int64_t last = x.rank() - 1, n = length[count - 1];
  Value y = b.convert(x, dtype);
  if (real_in) {
    y = along(b, f, y, last, sign);
    if (!y) return y;
    Dims limit = y.dims();
    limit[last] = n == 0 ? 0 : n / 2 + 1;
    y = b.slice(y, Dims(y.rank(), 0), limit);
  }
  for (int64_t d = first; d < last + !(real_in || real_out); ++d) y = along(b, f, y, d, sign);
  if (real_out) y = b.real(along(b, f, whole_spectrum(b, y, n), last, sign));
  return y;
}

}  // namespace lamina::hlo::linalg
