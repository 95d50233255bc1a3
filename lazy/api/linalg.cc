// Linear algebra and Fourier transforms.
#include "lamina/linalg.h"

#include <algorithm>
#include <cmath>

#include "hlo/linalg/calls.h"
#include "hlo/linalg/linalg.h"
#include "hlo/linalg/matrix.h"
#include "hlo/rules/support.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina {
namespace {

using detail::lazy_of;
using hlo::Builder;
using hlo::Value;
using hlo::Values;
using lazy::Lazy;

// Operands in one type that the routines take; results go back to the type asked for. Of numbers alone both
// are unrounded, as everywhere.
struct Matrices {
  std::vector<Value> values;

  Matrices(Builder& b, std::initializer_list<const TensorOrNumber*> operands, const char* what) {
    std::vector<Lazy> all;
    for (Lazy& x : detail::promoted(b, operands)) all.push_back(detail::inexact(b, std::move(x)));
    wanted_ = all[0].value.dtype();
    weak_ = std::all_of(all.begin(), all.end(), [](const Lazy& x) { return x.weak && lazy::wide_of(x); });
    const bool narrow = hlo::is_float(wanted_) && hlo::byte_size(wanted_) < 4;
    for (const Lazy& x : all) {
      values.push_back(weak_ ? lazy::wide_of(x) : narrow ? b.convert(x.value, hlo::DType::kF32) : x.value);
      if (x.value.rank() == 0)
        detail::fail(ErrorKind::kValue,
                     str_cat(what, " needs arrays with dimensions, not ", hlo::to_string(*x.value.type())));
    }
  }
  Lazy back(Builder& b, const Value& r) const {
    if (!r || !hlo::is_inexact(r.dtype())) return {r, false};
    const hlo::DType part = hlo::part_type(wanted_);
    if (hlo::is_complex(r.dtype()))
      return weak_ ? lazy::from_carrier(b, r, part == hlo::DType::kF64 ? hlo::DType::kC128 : hlo::DType::kC64,
                                        true)
                   : Lazy{r, false};
    return weak_ ? lazy::from_carrier(b, r, part, true) : Lazy{b.convert(r, part), false};
  }

 private:
  hlo::DType wanted_;
  bool weak_;
};

// Records what `body` makes of the operands with a builder, and checks it.
template <typename F>
std::vector<Tensor> recorded(std::initializer_list<const TensorOrNumber*> operands, const char* what,
                             F&& body) {
  return detail::located((*operands.begin())->where(), [&] {
    hlo::GraphLock lock;
    Builder b;
    const Matrices m(b, operands, what);
    std::vector<Lazy> results;
    for (const Value& r : Values(body(b, m.values))) results.push_back(m.back(b, r));
    lazy::check(b.status());
    lazy::note_recorded();
    std::vector<Tensor> out;
    for (Lazy& r : results) out.push_back(detail::tensor_of(std::move(r)));
    return out;
  });
}

std::vector<Tensor> routine(const TensorOrNumber& a, const char* what, const std::string& name,
                            bool full = false, bool square = false) {
  return recorded({&a}, what, [&](Builder& b, const std::vector<Value>& x) -> Values {
    const Value& m = x[0];
    if (m.rank() < 2 || (square && m.dims()[m.rank() - 2] != m.dims().back())) {
      b.fail(hlo::invalid(what, square ? " needs square matrices, not " : " needs matrices, not ",
                          hlo::to_string(*m.type())));
      return {};
    }
    return hlo::linalg::call(b, "lamina." + name, {{m}}, full);
  });
}

// A function of a matrix and a right side, which may be a vector.
template <typename F>
Tensor solved(const TensorOrNumber& a, const TensorOrNumber& b, const char* what, F&& f) {
  return recorded({&a, &b}, what, [&](Builder& builder, const std::vector<Value>& v) {
    const Value& y = v[1];
    hlo::Dims dims = y.dims();
    const bool vector = y.rank() == 1;
    if (vector) dims.push_back(1);
    const Value x = f(builder, v[0], builder.reshape(y, dims));
    return Values{x && vector ? builder.reshape(x, y.dims()) : x};
  })[0];
}

template <typename F>
Tensor of_matrix(const TensorOrNumber& a, const char* what, F&& f) {
  return recorded({&a}, what, [&](Builder& b, const std::vector<Value>& x) { return Values{f(b, x[0])}; })[0];
}

bool is_complex(const Tensor& x) { return hlo::is_complex(detail::to_hlo(x.dtype())); }
// The squares of the elements' sizes.
Tensor squares(const Tensor& x) { return is_complex(x) ? square(real(x)) + square(imag(x)) : square(x); }
// The square root, with derivative 0 at 0: that of a norm, of which 0 is a subgradient.
Tensor root(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, 0, sqrt(where(zero, 1, x)));
}
// [..., m, n] of floats.
Tensor matrix(const TensorOrNumber& a, const char* what) {
  const Tensor x = detail::build(a, [&](Builder& b) { return detail::inexact(b, lazy_of(a)); });
  if (x.ndim() < 2)
    detail::fail(ErrorKind::kValue, str_cat(what, " needs matrices, not ", detail::describe(lazy_of(x))));
  return x;
}
double machine_epsilon(const Tensor& x) {
  switch (hlo::part_type(lazy_of(x).value.dtype())) {
    case hlo::DType::kF64:
      return 0x1p-52;
    case hlo::DType::kF16:
      return 0x1p-10;
    case hlo::DType::kBF16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}
double cutoff_of(const Tensor& x, std::optional<double> rtol) {
  const int64_t n = x.ndim();
  return rtol.value_or(static_cast<double>(std::max(x.shape()[n - 2], x.shape()[n - 1])) *
                       machine_epsilon(x));
}

}  // namespace

namespace linalg {

Tensor cholesky(TensorOrNumber a) { return of_matrix(a, "cholesky", hlo::linalg::cholesky); }
Tensor inv(TensorOrNumber a) { return of_matrix(a, "inv", hlo::linalg::inverse); }
Tensor det(TensorOrNumber a) { return of_matrix(a, "det", hlo::linalg::determinant); }
Tensor expm(TensorOrNumber a) {
  return of_matrix(a, "expm", [](Builder& b, const Value& x) { return hlo::linalg::expm(b, x); });
}
Tensor pinv(TensorOrNumber a, std::optional<double> rtol) {
  return detail::located(a.where(), [&] {
    const double cutoff = cutoff_of(matrix(a, "pinv"), rtol);
    return of_matrix(a, "pinv", [cutoff](Builder& b, const Value& x) {
      return hlo::linalg::pinv(b, x, b.scalar(hlo::part_type(x.dtype()), cutoff), false);
    });
  });
}
Tensor matrix_power(TensorOrNumber a, int64_t n) {
  return detail::located(a.where(), [&] {
    Tensor base = detail::tensor_of(lazy_of(a));
    const Shape& shape = base.shape();
    if (shape.size() < 2 || shape[shape.size() - 2] != shape.back())
      detail::fail(ErrorKind::kValue,
                   str_cat("matrix_power needs square matrices, not ", detail::describe(lazy_of(base))));
    if (n == 0) return broadcast_to(eye(shape.back(), base.dtype()), shape);
    if (n < 0) base = inv(base);
    Tensor result;
    for (uint64_t k = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);;
         base = matmul(base, base)) {
      if (k & 1) result = result.defined() ? matmul(result, base) : base;
      if ((k >>= 1) == 0) return result;
    }
  });
}

Tensor solve(TensorOrNumber a, TensorOrNumber b) { return solved(a, b, "solve", hlo::linalg::solve); }
Tensor solve_triangular(TensorOrNumber a, TensorOrNumber b, bool lower) {
  return solved(a, b, "solve_triangular", [&](Builder& builder, const Value& m, const Value& y) {
    return hlo::linalg::triangular_solve(builder, m, y, true, lower, false);
  });
}
Lstsq lstsq(TensorOrNumber a, TensorOrNumber b, std::optional<double> rtol) {
  return detail::located(a.where(), [&] {
    const Tensor x = matrix(a, "lstsq");
    const Tensor y = detail::tensor_of(lazy_of(b));
    if (x.ndim() != 2 || y.ndim() < 1 || y.ndim() > 2 || y.shape()[0] != x.shape()[0])
      detail::fail(ErrorKind::kValue,
                   str_cat("lstsq needs a matrix and as many rows of b, not ", detail::describe(lazy_of(x)),
                           " and ", detail::describe(lazy_of(y))));
    const double cutoff = cutoff_of(x, rtol);
    const Tensor s = svdvals(x), found = matmul(pinv(x, cutoff), y), rest = y - matmul(x, found);
    const Tensor largest = s.size() > 0 ? max(s) : zeros({}, s.dtype());
    const Tensor rank = sum(s > cutoff * largest);
    const Tensor residuals = where(rank == x.shape()[1], sum(squares(rest), {0}), NAN);
    return Lstsq{found, residuals, rank, s};
  });
}

SignAndLog slogdet(TensorOrNumber a) {
  const std::vector<Tensor> out = recorded({&a}, "slogdet", [](Builder& b, const std::vector<Value>& x) {
    const hlo::linalg::SignAndLog d = hlo::linalg::log_determinant(b, x[0]);
    return Values{d.sign, d.log};
  });
  return {out[0], out[1]};
}

Qr qr(TensorOrNumber a) {
  const std::vector<Tensor> out = recorded({&a}, "qr", [](Builder& b, const std::vector<Value>& x) {
    const hlo::linalg::Qr f = hlo::linalg::qr(b, x[0], false);
    return Values{f.q, f.r};
  });
  return {out[0], out[1]};
}

Lu lu(TensorOrNumber a) {
  const std::vector<Tensor> out = recorded({&a}, "lu", [](Builder& b, const std::vector<Value>& x) -> Values {
    if (x[0].rank() < 2) {
      b.fail(hlo::invalid("lu needs matrices, not ", hlo::to_string(*x[0].type())));
      return {};
    }
    const hlo::linalg::Lu f = hlo::linalg::lu(b, x[0]);
    if (!f.packed) return {};
    const int64_t k = std::min(x[0].dims()[x[0].rank() - 2], x[0].dims().back());
    const Value l = hlo::linalg::lower_part(b, hlo::linalg::columns(b, f.packed, 0, k), -1);
    return {f.order, b.add(l, hlo::linalg::eye_like(b, l)),
            hlo::linalg::upper_part(b, hlo::linalg::rows(b, f.packed, 0, k))};
  });
  return {out[0], out[1], out[2]};
}

Eigh eigh(TensorOrNumber a) {
  const std::vector<Tensor> out = routine(a, "eigh", "eigh", false, true);
  return {out[1], out[0]};
}
Tensor eigvalsh(TensorOrNumber a) { return routine(a, "eigvalsh", "eigvalsh", false, true)[0]; }
Eig eig(TensorOrNumber a) {
  const std::vector<Tensor> out = routine(a, "eig", "eig", false, true);
  return {out[0], out[2]};
}
Tensor eigvals(TensorOrNumber a) { return routine(a, "eigvals", "eigvals", false, true)[0]; }
Svd svd(TensorOrNumber a, bool full) {
  const std::vector<Tensor> out = routine(a, "svd", "svd", full);
  return {out[1], out[0], out[2]};
}
Tensor svdvals(TensorOrNumber a) { return routine(a, "svdvals", "svdvals")[0]; }

Tensor norm(TensorOrNumber a, double order, const Axes& axes, bool keepdims) {
  return detail::located(a.where(), [&] {
    const Tensor x = detail::build(a, [&](Builder& b) { return detail::inexact(b, lazy_of(a)); });
    if (order == 2) return root(sum(squares(x), axes, keepdims));
    const Tensor size = abs(x);
    if (order == INFINITY) return max(size, axes, keepdims);
    if (order == -INFINITY) return min(size, axes, keepdims);
    if (order == 0) return sum((x != 0).astype(size.dtype()), axes, keepdims);
    if (order == 1) return sum(size, axes, keepdims);
    // Zeros add nothing, and have derivative 0 where powers of them have none.
    const Tensor zero = (size == 0) & (order > 0);
    const Tensor total = sum(where(zero, 0, pow(where(zero, 1, size), order)), axes, keepdims);
    const Tensor none = (total == 0) & (order > 0);
    return where(none, 0, pow(where(none, 1, total), 1 / order));
  });
}
Tensor matrix_norm(TensorOrNumber a, MatrixNorm order) {
  return detail::located(a.where(), [&] {
    const Tensor x = matrix(a, "matrix_norm");
    switch (order) {
      case MatrixNorm::kFrobenius:
        return norm(x, 2, {-2, -1});
      case MatrixNorm::kNuclear:
        return sum(svdvals(x), {-1});
      case MatrixNorm::kSpectral:
        return max(svdvals(x), {-1});
      case MatrixNorm::kColumns:
        return max(sum(abs(x), {-2}), {-1});
      case MatrixNorm::kRows:
        break;
    }
    return max(sum(abs(x), {-1}), {-1});
  });
}

}  // namespace linalg

namespace fft {
namespace {

Tensor transformed(const TensorOrNumber& x, const char* kind, bool complex, int64_t n) {
  return recorded({&x}, "a Fourier transform", [&](Builder& b, const std::vector<Value>& values) {
    Value v = values[0];
    if (complex && !hlo::is_complex(v.dtype())) v = b.complex(v, b.zeros_like(v));
    const int64_t length = n >= 0 ? n : v.dims().back();
    return Values{hlo::linalg::fft(b, v, kind, std::span(&length, 1))};
  })[0];
}

}  // namespace

Tensor fft(TensorOrNumber x) { return transformed(x, "FFT", true, -1); }
Tensor ifft(TensorOrNumber x) { return transformed(x, "IFFT", true, -1); }
Tensor rfft(TensorOrNumber x) { return transformed(x, "RFFT", false, -1); }
Tensor irfft(TensorOrNumber x, int64_t n) { return transformed(x, "IRFFT", true, n); }

}  // namespace fft
}  // namespace lamina
