// QR factors and singular values by cuSOLVER on CUDA devices.
#include <complex>
#include <limits>

#include "tests/jit/cuda_linalg_testing.h"

namespace lamina::testing {
namespace {

using Complex = std::complex<double>;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// Matrices of an array, row by row.
struct Numbers {
  explicit Numbers(const Literal& l)
      : rows(l.type()->dims[l.type()->dims.size() - 2]), columns(l.type()->dims.back()) {
    const std::vector<double> parts = numbers_of(l);
    const auto each = static_cast<size_t>(num_parts(l.type()->dtype));
    for (size_t i = 0; i < parts.size(); i += each) all.emplace_back(parts[i], each == 2 ? parts[i + 1] : 0);
  }
  Complex at(int64_t m, int64_t i, int64_t j) const {
    return all[static_cast<size_t>((m * rows + i) * columns + j)];
  }
  int64_t rows, columns;
  std::vector<Complex> all;
};

// How far the product with the factors `scale` between is from a matrix.
double distance(const Numbers& x, const std::vector<double>& scale, const Numbers& y, const Numbers& a,
                int64_t count, int64_t terms) {
  double most = 0;
  for (int64_t m = 0; m < count; ++m)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < a.columns; ++j) {
        Complex sum = 0;
        for (int64_t k = 0; k < terms; ++k)
          sum +=
              x.at(m, i, k) * (scale.empty() ? 1 : scale[static_cast<size_t>(m * terms + k)]) * y.at(m, k, j);
        most = std::max(most, std::abs(sum - a.at(m, i, j)));
      }
  return most;
}

// How far the columns, or the rows, are from orthonormal ones.
double skew(const Numbers& x, int64_t count, bool of_columns) {
  double most = 0;
  const int64_t vectors = of_columns ? x.columns : x.rows, length = of_columns ? x.rows : x.columns;
  for (int64_t m = 0; m < count; ++m)
    for (int64_t i = 0; i < vectors; ++i)
      for (int64_t j = 0; j < vectors; ++j) {
        Complex sum = i == j ? -1 : 0;
        for (int64_t k = 0; k < length; ++k)
          sum += of_columns ? std::conj(x.at(m, k, i)) * x.at(m, k, j)
                            : x.at(m, i, k) * std::conj(x.at(m, j, k));
        most = std::max(most, std::abs(sum));
      }
  return most;
}

double tolerance(DType t) { return part_type(t) == DType::kF32 ? 2e-5 : 1e-12; }

const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1}, {5, 5}, {9, 6}, {6, 9}, {40, 36}, {36, 50}};

}  // namespace

TEST_CASE("QR factors of every type and shape are calls of cuSOLVER", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const auto& [m, n] : kShapes)
      for (const bool full : {false, true}) {
        const LiteralPtr a = any_array(t, {3, m, n});
        const OnCuda got = run_on_cuda(routine_program("lamina.qr", {a}, Numerics::kSame, full), {a});
        INFO(got.steps);
        CHECK(got.says("qr by cuSOLVER 11.6.2 in f64, 3 of " + std::to_string(m) + " rows"));
        CHECK_FALSE(got.says("on the host"));
        const Numbers q(*got.results[0]), r(*got.results[1]);
        CHECK(distance(q, {}, r, Numbers(*a), 3, q.columns) <= tolerance(t));
        CHECK(skew(q, 3, true) <= tolerance(t));
        for (int64_t i = 0; i < r.rows; ++i)
          for (int64_t j = 0; j < std::min(i, r.columns); ++j) CHECK(r.at(1, i, j) == 0.0);
        // Signs, too, are the CPU's.
        check_near_on_cuda(routine_program("lamina.qr", {a}), {a}, tolerance(t));
        CHECK(has(check_near_on_cuda(routine_program("lamina.geqrf", {a}), {a}, tolerance(t)),
                  "geqrf by cuSOLVER 11.6.2 in f64"));
      }
}

TEST_CASE("a matrix with a number that is not finite has orthogonal factors of NaN",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  std::vector<double> numbers = numbers_of(*any_array(DType::kF64, {3, 6, 4}));
  numbers[30] = std::numeric_limits<double>::infinity();
  const LiteralPtr a = array_of(DType::kF64, {3, 6, 4}, numbers);
  for (const std::string name : {"lamina.qr", "lamina.geqrf", "lamina.svd", "lamina.svdvals"}) {
    const OnCuda got = run_on_cuda(routine_program(name, {a}), {a});
    CHECK(got.says("by cuSOLVER"));
    for (const LiteralPtr& result : got.results) {
      const std::vector<double> all = numbers_of(*result);
      const size_t each = all.size() / 3;
      for (size_t i = 0; i < all.size(); ++i) {
        const bool is_below = name == "lamina.qr" && each == 16 && i % 16 / 4 > i % 4;
        CHECK(std::isnan(all[i]) == (i / each == 1 && !is_below));
      }
    }
  }
}

TEST_CASE("singular values of every type and shape are calls of cuSOLVER", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const auto& [m, n] : kShapes) {
      const LiteralPtr a = any_array(t, {3, m, n});
      for (const bool full : {false, true}) {
        const OnCuda got = run_on_cuda(routine_program("lamina.svd", {a}, Numerics::kSame, full), {a});
        INFO(got.steps);
        CHECK(got.says("svd by cuSOLVER 11.6.2 in f64, 3 of " + std::to_string(m) + " rows"));
        CHECK_FALSE(got.says("on the host"));
        const Numbers u(*got.results[1]), v(*got.results[2]);
        CHECK(distance(u, numbers_of(*got.results[0]), v, Numbers(*a), 3, std::min(m, n)) <= tolerance(t));
        CHECK(skew(u, 3, true) <= tolerance(t));
        CHECK(skew(v, 3, false) <= tolerance(t));
      }
      CHECK(has(check_near_on_cuda(routine_program("lamina.svdvals", {a}), {a}, tolerance(t)),
                "svdvals by cuSOLVER 11.6.2 in f64, 3 of "));
    }
}

}  // namespace lamina::testing
