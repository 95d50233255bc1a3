// Rows of transforms and factorizations, and of the LAPACK calls that JAX writes for them.
#include "hlo/linalg/calls.h"
#include "hlo/stablehlo/compose.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

void fft(OpReader& r) {
  const Value x = r.in(0);
  r.yield(linalg::fft(r.b, x, r.word({"fft_type", "type"}), r.ints({"fft_length", "length"})));
}

// Matrices of floats below 32 bits are factored in f32 and rounded once.
Value in_f32(OpReader& r, const Value& x) {
  return x && is_storage_float(x.dtype()) ? r.b.convert(x, DType::kF32) : x;
}
void yield_like(OpReader& r, const Value& y, const Value& like) {
  r.yield(y && like && y.dtype() != like.dtype() ? r.b.convert(y, like.dtype()) : y);
}

// The triangle asked for; the other one is zero.
void cholesky(OpReader& r) {
  const Value given = r.in(0);
  Value a = in_f32(r, given);
  if (!a || a.rank() < 2) return r.fail("needs matrices");
  const bool lower = r.flag({"lower"});
  Dims turned;
  for (int64_t d = 0; d < a.rank(); ++d) turned.push_back(d);
  std::swap(turned[a.rank() - 1], turned[a.rank() - 2]);
  auto adjoint = [&](Value x) {
    if (x && is_complex(x.dtype())) x = r.b.complex(r.b.real(x), r.b.negate(r.b.imag(x)));
    return x ? r.b.transpose(x, turned) : x;
  };
  if (!lower) a = adjoint(a);
  const Value l = compose_cholesky(r.b, a);
  yield_like(r, lower ? l : adjoint(l), given);
}

void triangular_solve(OpReader& r) {
  const std::string op = r.word({"transpose_a"});
  const Value y = r.in(1);
  const Value x = compose_triangular_solve(r.b, in_f32(r, r.in(0)), in_f32(r, y), r.flag({"left_side"}, true),
                                           r.flag({"lower"}, true), r.flag({"unit_diagonal"}),
                                           op == "ADJOINT"     ? Transpose::kAdjoint
                                           : op == "TRANSPOSE" ? Transpose::kTranspose
                                                               : Transpose::kNo);
  yield_like(r, x, y);
}

// --- LAPACK's names: options are letters ---

char letter(OpReader& r, std::string_view name, char otherwise) {
  return static_cast<char>(r.integer(r.fields({"mhlo.backend_config"}), name, otherwise));
}

void potrf(OpReader& r) {
  if (letter(r, "uplo", 'L') != 'L') return r.fail("the upper factor is not supported");
  const Value l = compose_cholesky(r.b, r.in(0));
  const Type* info = r.declared(1);
  if (!l || !info) return;
  // A factor with NaN on its diagonal says that the matrix is not positive; which one came first is not told.
  Builder& b = r.b;
  const int64_t last = l.rank() - 1;
  const Value diagonal =
      b.compare(b.iota(DType::kS32, l.dims(), last), b.iota(DType::kS32, l.dims(), last - 1), "EQ");
  const Value bad = b.and_(diagonal, b.compare(l, l, "NE"));
  const Value any = b.reduce(bad, Op::or_, b.scalar_int(DType::kBool, 0), Dims{last - 1, last});
  r.yield(l);
  r.yield(b.convert(any, info->dtype));
}

void getrf(OpReader& r) {
  const Lu lu = compose_lu(r.b, r.in(0));
  r.yield_all({{lu.packed, lu.pivots, lu.info}});
}

// (packed, zero-based pivots, the permutation they make)
void lu_decomposition(OpReader& r) {
  const Lu lu = compose_lu(r.b, r.in(0));
  if (!lu.pivots || !lu.packed) return;
  Builder& b = r.b;
  const Value pivots = b.subtract(lu.pivots, b.full_like(lu.pivots, 1));
  Dims outer = pivots.dims();
  const int64_t steps = outer.back(), m = lu.packed.dims()[lu.packed.rank() - 2];
  outer.pop_back();
  const int64_t count = product(outer);
  const Value lines = b.transpose(b.reshape(pivots, Dims{count, steps}), Dims{1, 0});
  const Type *order = array_type_or_die(DType::kS32, Dims{count, m}),
             *line = array_type_or_die(DType::kS32, Dims{count});
  // Each pivot swaps its place with the step's.
  absl::StatusOr<ComputationPtr> swap =
      record_region({{order, scalar_type(DType::kS32), line}}, [&](Builder& s, std::span<const Value> p) {
        const Value at = s.iota(DType::kS32, Dims{count, m}, 1);
        const Value here = s.compare(at, s.broadcast_scalar(p[1], Dims{count, m}), "EQ");
        const Value there = s.compare(at, s.broadcast_in_dim(p[2], Dims{count, m}, Dims{0}), "EQ");
        auto picked = [&](const Value& where) {
          const Value only = s.select(where, p[0], s.zeros_like(p[0]));
          return s.broadcast_in_dim(s.reduce_sum(only, Dims{1}), Dims{count, m}, Dims{0});
        };
        return Values{s.select(here, picked(there), s.select(there, picked(here), p[0]))};
      });
  if (!swap.ok()) return r.fail(view(swap.status()));
  const Values done = b.scan(*swap, {{b.iota(DType::kS32, Dims{count, m}, 1)}},
                             {{b.iota(DType::kS32, Dims{steps}, 0), lines}}, steps, false);
  outer.push_back(m);
  r.yield_all({{lu.packed, pivots, b.reshape(done[0], outer)}});
}

void trsm(OpReader& r) {
  const char op = letter(r, "trans_x", 'N');
  r.yield(compose_triangular_solve(r.b, r.in(0), r.in(1), letter(r, "side", 'L') == 'L',
                                   letter(r, "uplo", 'L') == 'L', letter(r, "diag", 'N') == 'U',
                                   op == 'C'   ? Transpose::kAdjoint
                                   : op == 'T' ? Transpose::kTranspose
                                               : Transpose::kNo));
}

void geqrf(OpReader& r) {
  const Reflections q = compose_qr(r.b, r.in(0));
  r.yield_all({{q.packed, q.scales}});
}

void orgqr(OpReader& r) { r.yield(compose_householder_product(r.b, {r.in(0), r.in(1)})); }

// --- host calls ---

Values host_call(OpReader& r, std::string_view target, std::span<const Value> operands,
                 std::vector<const Type*> results) {
  return r.b.make_multi(Op::custom_call, operands,
                        intern_attrs({{Attr::call_target_name, std::string(target)},
                                      {Attr::result_types, std::move(results)}}));
}

// Zero in the type of result i: LAPACK's report that all went well.
void yield_zero(OpReader& r, size_t i) {
  if (const Type* t = r.declared(i)) r.yield(r.b.zeros(t));
}

void syevd(OpReader& r) {
  Value a = r.in(0);
  const Type *vectors = r.declared(0), *values = r.declared(1);
  if (!a || !vectors || !values || a.rank() < 2) return r.fail("needs matrices");
  if (letter(r, "uplo", 'L') != 'L') return r.fail("the upper triangle is not supported");
  const Values out = host_call(r, "lamina.eigh", {{a}}, {vectors, values});
  if (!r.ok()) return;
  r.yield_all(out);
  yield_zero(r, 2);
}

void gesdd(OpReader& r) {
  const Value a = r.in(0);
  if (!a || a.rank() < 2) return r.fail("needs matrices");
  const Type *values = r.declared(1), *left = r.declared(2), *right = r.declared(3);
  if (!r.ok()) return;
  const bool with_vectors = letter(r, "mode", 'N') != 'N';
  const int64_t m = a.dims()[a.rank() - 2], n = a.dims().back(), k = std::min(m, n);
  Dims u = a.dims(), v = a.dims();
  u.back() = k;
  v[a.rank() - 2] = k;
  if (!with_vectors) {
    left = array_type_or_die(a.dtype(), u);
    right = array_type_or_die(a.dtype(), v);
  }
  const Values out = host_call(r, "lamina.svd", {{a}}, {values, left, right});
  if (!r.ok()) return;
  r.yield(a);
  r.yield(out[0]);
  for (size_t i = 1; i < 3; ++i) {
    if (with_vectors) {
      r.yield(out[i]);
    } else {
      yield_zero(r, i + 1);
    }
  }
  yield_zero(r, 4);
}

// Real matrices give their values in two parts.
void geev(OpReader& r) {
  const Value a = r.in(0);
  if (!a || a.rank() < 2) return r.fail("needs matrices");
  const size_t parts = is_complex(a.dtype()) ? 1 : 2;
  const Type *left = r.declared(parts), *right = r.declared(parts + 1);
  if (!left || !right) return;
  const DType t = part_type(a.dtype()) == DType::kF32 ? DType::kC64 : DType::kC128;
  const Dims line(a.dims().begin(), a.dims().end() - 1);
  const Type *values = array_type_or_die(a.dtype(), line), *matrix = array_type_or_die(a.dtype(), a.dims());
  // Complex results are twice as large as real operands, which may be too large.
  for (const Type** result : {&values, &matrix}) {
    absl::StatusOr<const Type*> wide = array_type(t, (*result)->dims);
    if (!wide.ok()) return r.fail(view(wide.status()));
    *result = *wide;
  }
  const Values out = host_call(r, "lamina.eig", {{a}}, {values, matrix, matrix});
  if (!r.ok()) return;
  if (parts == 1) {
    r.yield(out[0]);
  } else {
    r.yield_all({{r.b.real(out[0]), r.b.imag(out[0])}});
  }
  r.yield_all({{out[1], out[2]}});
  yield_zero(r, parts + 2);
}

// The complex Schur form: triangle, vectors, values, how many were sorted (none).
void gees(OpReader& r) {
  const Value a = r.in(0);
  if (!a || a.rank() < 2) return r.fail("needs matrices");
  if (letter(r, "sort", 'N') != 'N') return r.fail("sorted forms are not supported");
  const Values out = host_call(r, "lamina.schur", {{a}}, {a.type(), a.type()});
  const Type* values = r.declared(2);
  if (!r.ok() || !values) return;
  const int64_t n = a.dims().back(), last = a.rank() - 1;
  if (a.dims()[last - 1] != n)
    return r.fail(str_cat("needs square matrices, not ", hlo::to_string(*a.type())));
  const Value diagonal =
      r.b.compare(r.b.iota(DType::kS32, a.dims(), last), r.b.iota(DType::kS32, a.dims(), last - 1), "EQ");
  const Value kept = r.b.select(diagonal, out[0], r.b.zeros_like(out[0]));
  r.yield_all({{out[0], out[1], r.b.reduce_sum(kept, Dims{last})}});
  yield_zero(r, 3);
  yield_zero(r, 4);
}

constexpr NamedRow kLinearAlgebraRows[] = {
    {"stablehlo.fft", fft},
    {"stablehlo.cholesky", cholesky},
    {"stablehlo.triangular_solve", triangular_solve},
};

constexpr NamedRow kCalls[] = {
    {"LuDecomposition", lu_decomposition},
    {"lapack_spotrf_ffi", potrf},
    {"lapack_dpotrf_ffi", potrf},
    {"lapack_cpotrf_ffi", potrf},
    {"lapack_zpotrf_ffi", potrf},
    {"lapack_sgetrf_ffi", getrf},
    {"lapack_dgetrf_ffi", getrf},
    {"lapack_cgetrf_ffi", getrf},
    {"lapack_zgetrf_ffi", getrf},
    {"lapack_strsm_ffi", trsm},
    {"lapack_dtrsm_ffi", trsm},
    {"lapack_ctrsm_ffi", trsm},
    {"lapack_ztrsm_ffi", trsm},
    {"lapack_sgeqrf_ffi", geqrf},
    {"lapack_dgeqrf_ffi", geqrf},
    {"lapack_cgeqrf_ffi", geqrf},
    {"lapack_zgeqrf_ffi", geqrf},
    {"lapack_sorgqr_ffi", orgqr},
    {"lapack_dorgqr_ffi", orgqr},
    {"lapack_cungqr_ffi", orgqr},
    {"lapack_zungqr_ffi", orgqr},
    {"lapack_ssyevd_ffi", syevd},
    {"lapack_dsyevd_ffi", syevd},
    {"lapack_cheevd_ffi", syevd},
    {"lapack_zheevd_ffi", syevd},
    {"lapack_sgesdd_ffi", gesdd},
    {"lapack_dgesdd_ffi", gesdd},
    {"lapack_cgesdd_ffi", gesdd},
    {"lapack_zgesdd_ffi", gesdd},
    {"lapack_cgees_ffi", gees},
    {"lapack_zgees_ffi", gees},
    {"lapack_sgeev_ffi", geev},
    {"lapack_dgeev_ffi", geev},
    {"lapack_cgeev_ffi", geev},
    {"lapack_zgeev_ffi", geev},
    {"Qr", geqrf},
    {"ProductOfElementaryHouseholderReflectors", orgqr},
};

}  // namespace

// With the types that the program declares.
void routine_row(OpReader& r) {
  std::vector<const Type*> types;
  for (size_t i = 0; i < r.num_results(); ++i) types.push_back(r.declared(i));
  std::string target = r.word({"call_target_name"});
  if (target.empty()) target = r.positional_word(0);
  const Values operands = r.ins();
  if (r.ok()) r.yield_all(host_call(r, target, operands, std::move(types)));
}

std::span<const NamedRow> linear_algebra_rows() { return kLinearAlgebraRows; }
std::span<const NamedRow> linear_algebra_calls() { return kCalls; }

}  // namespace lamina::hlo::stablehlo
