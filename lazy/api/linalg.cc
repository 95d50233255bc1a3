// Linear algebra and Fourier transforms.
#include "lamina/linalg.h"

#include "hlo/linalg/calls.h"
#include "hlo/linalg/linalg.h"
#include "lazy/api/variable.h"

namespace lamina {
namespace {

using detail::lazy_of;
using hlo::Builder;
using hlo::DType;
using hlo::Value;
using hlo::Values;
using lazy::Lazy;

// Records with a builder and checks it; several results, none of them weak.
template <typename F>
std::vector<Tensor> build_all(const Operand& like, F&& body) {
  return detail::located(like.where(), [&] {
    hlo::GraphLock lock;
    Builder b;
    const Values results = body(b);
    lazy::check(b.status());
    lazy::note_recorded();
    std::vector<Tensor> out;
    for (const Value& r : results) out.push_back(detail::tensor_of(r));
    return out;
  });
}

// Operands in one type that the routines take; results go back to the type asked for.
struct Matrices {
  std::vector<Value> values;
  DType wanted;

  Matrices(Builder& b, std::initializer_list<const Operand*> operands, const char* what) {
    for (Lazy& x : detail::promoted(b, operands)) values.push_back(detail::inexact(b, std::move(x)).value);
    wanted = values[0].dtype();
    const bool narrow = hlo::is_float(wanted) && hlo::byte_size(wanted) < 4;
    for (Value& v : values) {
      if (narrow) v = b.convert(v, DType::kF32);
      if (v.rank() == 0)
        detail::fail(ErrorKind::kValue,
                     str_cat(what, " needs arrays with dimensions, not ", hlo::to_string(*v.type())));
    }
  }
  Values back(Builder& b, Values results) const {
    for (Value& r : results)
      if (r && r.dtype() == DType::kF32 && hlo::is_float(wanted) && wanted != DType::kF64)
        r = b.convert(r, wanted);
    return results;
  }
};

std::vector<Tensor> decomposed(const Operand& a, const char* routine, bool full) {
  return build_all(a, [&](Builder& b) {
    const Matrices m(b, {&a}, routine);
    return m.back(b, hlo::linalg::call(b, routine, {{m.values[0]}}, full));
  });
}

// A function of a matrix and a right side, which may be a vector.
template <typename F>
Tensor solved(const Operand& a, const Operand& b, const char* what, F&& f) {
  return build_all(a, [&](Builder& builder) {
    const Matrices m(builder, {&a, &b}, what);
    const Value& y = m.values[1];
    hlo::Dims dims = y.dims();
    const bool vector = y.rank() == 1;
    if (vector) dims.push_back(1);
    const Value x = f(builder, m.values[0], builder.reshape(y, dims));
    return m.back(builder, {x && vector ? builder.reshape(x, y.dims()) : x});
  })[0];
}

template <typename F>
Tensor of_matrix(const Operand& a, const char* what, F&& f) {
  return build_all(a, [&](Builder& b) {
    const Matrices m(b, {&a}, what);
    return m.back(b, {f(b, m.values[0])});
  })[0];
}

}  // namespace

namespace linalg {

Tensor cholesky(Operand a) { return of_matrix(a, "cholesky", hlo::linalg::cholesky); }
Tensor inv(Operand a) { return of_matrix(a, "inv", hlo::linalg::inverse); }
Tensor det(Operand a) { return of_matrix(a, "det", hlo::linalg::determinant); }

Tensor solve(Operand a, Operand b) { return solved(a, b, "solve", hlo::linalg::solve); }
Tensor solve_triangular(Operand a, Operand b, bool lower) {
  return solved(a, b, "solve_triangular", [&](Builder& builder, const Value& m, const Value& y) {
    return hlo::linalg::triangular_solve(builder, m, y, true, lower, false);
  });
}

SignAndLog slogdet(Operand a) {
  const std::vector<Tensor> out = build_all(a, [&](Builder& b) {
    const Matrices m(b, {&a}, "slogdet");
    const hlo::linalg::SignAndLog d = hlo::linalg::log_determinant(b, m.values[0]);
    return m.back(b, {d.sign, d.log});
  });
  return {out[0], out[1]};
}

Qr qr(Operand a) {
  const std::vector<Tensor> out = build_all(a, [&](Builder& b) {
    const Matrices m(b, {&a}, "qr");
    const hlo::linalg::Qr f = hlo::linalg::qr(b, m.values[0], false);
    return m.back(b, {f.q, f.r});
  });
  return {out[0], out[1]};
}

Eigh eigh(Operand a) {
  const std::vector<Tensor> out = decomposed(a, "lamina.eigh", false);
  return {out[1], out[0]};
}
Svd svd(Operand a, bool full) {
  const std::vector<Tensor> out = decomposed(a, "lamina.svd", full);
  return {out[1], out[0], out[2]};
}

}  // namespace linalg

namespace fft {
namespace {

Tensor transformed(const Operand& x, const char* kind, bool complex, int64_t n) {
  return build_all(x, [&](Builder& b) {
    const Matrices m(b, {&x}, "a Fourier transform");
    Value v = m.values[0];
    if (complex && !hlo::is_complex(v.dtype())) v = b.complex(v, b.zeros_like(v));
    const int64_t length = n >= 0 ? n : v.dims().back();
    return Values{hlo::linalg::fft(b, v, kind, std::span(&length, 1))};
  })[0];
}

}  // namespace

Tensor fft(Operand x) { return transformed(x, "FFT", true, -1); }
Tensor ifft(Operand x) { return transformed(x, "IFFT", true, -1); }
Tensor rfft(Operand x) { return transformed(x, "RFFT", false, -1); }
Tensor irfft(Operand x, int64_t n) { return transformed(x, "IRFFT", true, n); }

}  // namespace fft
}  // namespace lamina
