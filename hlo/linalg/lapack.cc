#include "hlo/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "hlo/once.h"

namespace lamina::hlo::linalg::lapack {
namespace {

// Own code is as quick below this size, and the same on every machine.
// Work space is counted in squares of the smaller dimension, several of them.
constexpr int64_t kMost = 20000;

using Int = int;  // of Fortran
using Logical = int;
using D = double;
using Z = Complex;

// Fortran's routines take the lengths of their letters at the end.
#define LAMINA_LAPACK(F)                                                                                     \
  F(dpotrf, (const char*, const Int*, D*, const Int*, Int*, size_t))                                         \
  F(zpotrf, (const char*, const Int*, Z*, const Int*, Int*, size_t))                                         \
  F(dgetrf, (const Int*, const Int*, D*, const Int*, Int*, Int*))                                            \
  F(zgetrf, (const Int*, const Int*, Z*, const Int*, Int*, Int*))                                            \
  F(dtrsm, (const char*, const char*, const char*, const char*, const Int*, const Int*, const D*, const D*,  \
            const Int*, D*, const Int*, size_t, size_t, size_t, size_t))                                     \
  F(ztrsm, (const char*, const char*, const char*, const char*, const Int*, const Int*, const Z*, const Z*,  \
            const Int*, Z*, const Int*, size_t, size_t, size_t, size_t))                                     \
  F(dgeqrf, (const Int*, const Int*, D*, const Int*, D*, D*, const Int*, Int*))                              \
  F(zgeqrf, (const Int*, const Int*, Z*, const Int*, Z*, Z*, const Int*, Int*))                              \
  F(dorgqr, (const Int*, const Int*, const Int*, D*, const Int*, const D*, D*, const Int*, Int*))            \
  F(zungqr, (const Int*, const Int*, const Int*, Z*, const Int*, const Z*, Z*, const Int*, Int*))            \
  F(dsyevd, (const char*, const char*, const Int*, D*, const Int*, D*, D*, const Int*, Int*, const Int*,     \
             Int*, size_t, size_t))                                                                          \
  F(zheevd, (const char*, const char*, const Int*, Z*, const Int*, D*, Z*, const Int*, D*, const Int*, Int*, \
             const Int*, Int*, size_t, size_t))                                                              \
  F(dgesdd, (const char*, const Int*, const Int*, D*, const Int*, D*, D*, const Int*, D*, const Int*, D*,    \
             const Int*, Int*, Int*, size_t))                                                                \
  F(zgesdd, (const char*, const Int*, const Int*, Z*, const Int*, D*, Z*, const Int*, Z*, const Int*, Z*,    \
             const Int*, D*, Int*, Int*, size_t))                                                            \
  F(dgeev, (const char*, const char*, const Int*, D*, const Int*, D*, D*, D*, const Int*, D*, const Int*,    \
            D*, const Int*, Int*, size_t, size_t))                                                           \
  F(zgeev, (const char*, const char*, const Int*, Z*, const Int*, Z*, Z*, const Int*, Z*, const Int*, Z*,    \
            const Int*, D*, Int*, size_t, size_t))                                                           \
  F(dgees, (const char*, const char*, void*, const Int*, D*, const Int*, Int*, D*, D*, D*, const Int*, D*,   \
            const Int*, Logical*, Int*, size_t, size_t))                                                     \
  F(zgees, (const char*, const char*, void*, const Int*, Z*, const Int*, Int*, Z*, Z*, const Int*, Z*,       \
            const Int*, D*, Logical*, Int*, size_t, size_t))

struct Library {
#define LAMINA_MEMBER(name, arguments) void(*name) arguments;
  LAMINA_LAPACK(LAMINA_MEMBER)
#undef LAMINA_MEMBER
};

const Library* open(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  auto library = std::make_unique<Library>();
  bool whole = true;
#define LAMINA_FIND(name, arguments)                                             \
  library->name = reinterpret_cast<void(*) arguments>(dlsym(handle, #name "_")); \
  whole &= library->name != nullptr;
  LAMINA_LAPACK(LAMINA_FIND)
#undef LAMINA_FIND
  if (!whole) {
    dlclose(handle);
    return nullptr;
  }
  if (void* set = dlsym(handle, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
  return library.release();  // lives as long as the process
}

const Library* library() {
  static constinit Once<const Library* const> found;
  return found.get([] {
    const Library* l = nullptr;
    if (const char* path = std::getenv("LAMINA_LAPACK")) {
      if (*path) l = open(path);
    } else {
      for (const char* name : {"libopenblas.so.0", "liblapack.so.3"})
        if (!l) l = open(name);
    }
    return new const Library*(l);
  });
}

template <typename T>
T* room(std::vector<T>& v, size_t n) {
  v.resize(std::max<size_t>(n, 1));
  return v.data();
}
Int lead(int64_t rows) { return static_cast<Int>(std::max<int64_t>(rows, 1)); }

// Runs `f(work, size)` twice: asking for the size of its work space, and with it.
template <typename T, typename F>
void with_work(F&& f) {
  T asked{};
  Int size = -1;
  f(&asked, &size);
  size = std::max<Int>(static_cast<Int>(real_of(asked)), 1);
  std::vector<T> work(static_cast<size_t>(size));
  f(work.data(), &size);
}

template <typename T, typename F>
int factor_square(F* f, Matrix<T>& a) {
  const Int n = static_cast<Int>(a.rows), ld = lead(a.rows);
  Int info = 0;
  f("L", &n, a.data.data(), &ld, &info, 1);
  return info;
}

template <typename T, typename F>
int factor_lu(F* f, Matrix<T>& a, std::vector<int>& pivots) {
  const Int m = static_cast<Int>(a.rows), n = static_cast<Int>(a.columns), ld = lead(m);
  Int info = 0;
  f(&m, &n, a.data.data(), &ld, room(pivots, static_cast<size_t>(std::min(m, n))), &info);
  return info;
}

template <typename T, typename F>
void solve_triangle(F* f, bool lower, char trans, bool unit, const Matrix<T>& a, Matrix<T>& b) {
  const Int m = static_cast<Int>(b.rows), n = static_cast<Int>(b.columns), ld = lead(m);
  const T one = 1;
  f("L", lower ? "L" : "U", &trans, unit ? "U" : "N", &m, &n, &one, a.data.data(), &ld, b.data.data(), &ld, 1,
    1, 1, 1);
}

template <typename T, typename F>
int factor_qr(F* f, Matrix<T>& a, std::vector<T>& scales) {
  const Int m = static_cast<Int>(a.rows), n = static_cast<Int>(a.columns), ld = lead(m);
  Int info = 0;
  T* tau = room(scales, static_cast<size_t>(std::min(m, n)));
  with_work<T>([&](T* work, const Int* size) { f(&m, &n, a.data.data(), &ld, tau, work, size, &info); });
  return info;
}

template <typename T, typename F>
int form_q(F* f, Matrix<T>& a, const std::vector<T>& scales) {
  const Int m = static_cast<Int>(a.rows), n = static_cast<Int>(a.columns), ld = lead(m);
  const Int k = std::min<Int>(static_cast<Int>(scales.size()), n);
  Int info = 0;
  with_work<T>(
      [&](T* work, const Int* size) { f(&m, &n, &k, a.data.data(), &ld, scales.data(), work, size, &info); });
  return info;
}

}  // namespace

bool present() { return library() != nullptr; }
bool use_lapack(int64_t rows, int64_t columns, int64_t least) {
  return std::max(rows, columns) >= least && std::min(rows, columns) <= kMost &&
         rows * columns <= std::numeric_limits<Int>::max() && present();
}

int potrf(Matrix<D>& a) { return factor_square(library()->dpotrf, a); }
int potrf(Matrix<Z>& a) { return factor_square(library()->zpotrf, a); }
int getrf(Matrix<D>& a, std::vector<int>& p) { return factor_lu(library()->dgetrf, a, p); }
int getrf(Matrix<Z>& a, std::vector<int>& p) { return factor_lu(library()->zgetrf, a, p); }
void trsm(bool lower, char trans, bool unit, const Matrix<D>& a, Matrix<D>& b) {
  solve_triangle(library()->dtrsm, lower, trans, unit, a, b);
}
void trsm(bool lower, char trans, bool unit, const Matrix<Z>& a, Matrix<Z>& b) {
  solve_triangle(library()->ztrsm, lower, trans, unit, a, b);
}
int geqrf(Matrix<D>& a, std::vector<D>& scales) { return factor_qr(library()->dgeqrf, a, scales); }
int geqrf(Matrix<Z>& a, std::vector<Z>& scales) { return factor_qr(library()->zgeqrf, a, scales); }
int orgqr(Matrix<D>& a, const std::vector<D>& scales) { return form_q(library()->dorgqr, a, scales); }
int orgqr(Matrix<Z>& a, const std::vector<Z>& scales) { return form_q(library()->zungqr, a, scales); }

int heevd(bool vectors, Matrix<D>& a, std::vector<double>& values) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n);
  const char* job = vectors ? "V" : "N";
  D* w = room(values, a.rows);
  Int info = 0, whole = -1, asked_integers = 0;
  D asked = 0;
  library()->dsyevd(job, "L", &n, a.data.data(), &ld, w, &asked, &whole, &asked_integers, &whole, &info, 1,
                    1);
  const Int size = std::max<Int>(static_cast<Int>(asked), 1), count = std::max<Int>(asked_integers, 1);
  std::vector<D> work(size);
  std::vector<Int> integers(count);
  library()->dsyevd(job, "L", &n, a.data.data(), &ld, w, work.data(), &size, integers.data(), &count, &info,
                    1, 1);
  return info;
}
int heevd(bool vectors, Matrix<Z>& a, std::vector<double>& values) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n);
  const char* job = vectors ? "V" : "N";
  D* w = room(values, a.rows);
  Int info = 0, whole = -1, asked_integers = 0;
  Z asked = 0;
  D asked_real = 0;
  library()->zheevd(job, "L", &n, a.data.data(), &ld, w, &asked, &whole, &asked_real, &whole, &asked_integers,
                    &whole, &info, 1, 1);
  const Int size = std::max<Int>(static_cast<Int>(asked.real()), 1);
  const Int reals = std::max<Int>(static_cast<Int>(asked_real), 1), count = std::max<Int>(asked_integers, 1);
  std::vector<Z> work(size);
  std::vector<D> real_work(reals);
  std::vector<Int> integers(count);
  library()->zheevd(job, "L", &n, a.data.data(), &ld, w, work.data(), &size, real_work.data(), &reals,
                    integers.data(), &count, &info, 1, 1);
  return info;
}

int gesdd(char job, Matrix<D>& a, std::vector<double>& sizes, Matrix<D>& u, Matrix<D>& v) {
  const Int m = static_cast<Int>(a.rows), n = static_cast<Int>(a.columns), k = std::min(m, n);
  const Int ld = lead(m), ldu = lead(m), ldv = lead(v.rows);
  std::vector<Int> integers(static_cast<size_t>(8 * std::max(k, 1)));
  Int info = 0;
  D* s = room(sizes, k);
  with_work<D>([&](D* work, const Int* size) {
    library()->dgesdd(&job, &m, &n, a.data.data(), &ld, s, u.data.data(), &ldu, v.data.data(), &ldv, work,
                      size, integers.data(), &info, 1);
  });
  sizes.resize(k);
  return info;
}
int gesdd(char job, Matrix<Z>& a, std::vector<double>& sizes, Matrix<Z>& u, Matrix<Z>& v) {
  const Int m = static_cast<Int>(a.rows), n = static_cast<Int>(a.columns), k = std::min(m, n);
  const Int ld = lead(m), ldu = lead(m), ldv = lead(v.rows);
  const size_t low = static_cast<size_t>(k), high = static_cast<size_t>(std::max(m, n));
  std::vector<Int> integers(8 * std::max<size_t>(low, 1));
  std::vector<D> reals(std::max(5 * low * low + 7 * low, 2 * high * low + 2 * low * low + low) + 1);
  Int info = 0;
  D* s = room(sizes, k);
  with_work<Z>([&](Z* work, const Int* size) {
    library()->zgesdd(&job, &m, &n, a.data.data(), &ld, s, u.data.data(), &ldu, v.data.data(), &ldv, work,
                      size, reals.data(), integers.data(), &info, 1);
  });
  sizes.resize(k);
  return info;
}

int geev(bool vectors, Matrix<D>& a, std::vector<Z>& values, Matrix<Z>& left, Matrix<Z>& right) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n), ldv = vectors ? ld : 1;
  const char* job = vectors ? "V" : "N";
  std::vector<D> re(ld), im(ld);
  Matrix<D> l(vectors ? n : 0, vectors ? n : 0), r(vectors ? n : 0, vectors ? n : 0);
  Int info = 0;
  with_work<D>([&](D* work, const Int* size) {
    library()->dgeev(job, job, &n, a.data.data(), &ld, re.data(), im.data(), l.data.data(), &ldv,
                     r.data.data(), &ldv, work, size, &info, 1, 1);
  });
  values.resize(n);
  for (Int j = 0; j < n; ++j) values[j] = {re[j], im[j]};
  if (!vectors) return info;
  left = right = Matrix<Z>(n, n);
  // A pair of conjugated values shares two columns: the real and the imaginary part of the first one's
  // vector.
  for (Int j = 0; j < n; ++j)
    for (auto [from, to] : {std::pair{&l, &left}, std::pair{&r, &right}})
      for (Int i = 0; i < n; ++i)
        to->at(i, j) = im[j] == 0  ? Z(from->at(i, j))
                       : im[j] > 0 ? Z(from->at(i, j), from->at(i, j + 1))
                                   : Z(from->at(i, j - 1), -from->at(i, j));
  return info;
}
int geev(bool vectors, Matrix<Z>& a, std::vector<Z>& values, Matrix<Z>& left, Matrix<Z>& right) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n), ldv = vectors ? ld : 1;
  const char* job = vectors ? "V" : "N";
  if (vectors) left = right = Matrix<Z>(n, n);
  std::vector<D> reals(static_cast<size_t>(2 * ld));
  Int info = 0;
  Z* w = room(values, n);
  with_work<Z>([&](Z* work, const Int* size) {
    library()->zgeev(job, job, &n, a.data.data(), &ld, w, left.data.data(), &ldv, right.data.data(), &ldv,
                     work, size, reals.data(), &info, 1, 1);
  });
  values.resize(n);
  return info;
}

int gees(Matrix<D>& a, Matrix<D>& q) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n);
  q = Matrix<D>(n, n);
  std::vector<D> re(ld), im(ld);
  std::vector<Logical> sorted(ld);
  Int info = 0, count = 0;
  with_work<D>([&](D* work, const Int* size) {
    library()->dgees("V", "N", nullptr, &n, a.data.data(), &ld, &count, re.data(), im.data(), q.data.data(),
                     &ld, work, size, sorted.data(), &info, 1, 1);
  });
  return info;
}
int gees(Matrix<Z>& a, Matrix<Z>& q) {
  const Int n = static_cast<Int>(a.rows), ld = lead(n);
  q = Matrix<Z>(n, n);
  std::vector<Z> values(ld);
  std::vector<D> reals(ld);
  std::vector<Logical> sorted(ld);
  Int info = 0, count = 0;
  with_work<Z>([&](Z* work, const Int* size) {
    library()->zgees("V", "N", nullptr, &n, a.data.data(), &ld, &count, values.data(), q.data.data(), &ld,
                     work, size, reals.data(), sorted.data(), &info, 1, 1);
  });
  return info;
}

}  // namespace lamina::hlo::linalg::lapack
