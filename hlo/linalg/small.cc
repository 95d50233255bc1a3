// Small matrices as elementwise ops on their elements, each an array over the batch.
#include <algorithm>
#include <limits>
#include <vector>

#include "hlo/batching.h"
#include "hlo/linalg/linalg.h"
#include "hlo/linalg/matrix.h"
#include "hlo/nodes.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

using Row = std::vector<Value>;
using Grid = std::vector<Row>;

Value element(Builder& b, const Value& x, int64_t i, int64_t j) {
  return b.reshape(columns(b, rows(b, x, i, i + 1), j, j + 1), outer_of(x));
}

Grid elements(Builder& b, const Value& x) {
  const int64_t m = x.dims()[x.rank() - 2], n = x.dims().back();
  Grid out(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) out[static_cast<size_t>(i)].push_back(element(b, x, i, j));
  return out;
}

// Rows of x as [..., n].
Row rows_of(Builder& b, const Value& x) {
  Row out;
  Dims dims = outer_of(x);
  dims.push_back(x.dims().back());
  for (int64_t i = 0; i < x.dims()[x.rank() - 2]; ++i) out.push_back(b.reshape(rows(b, x, i, i + 1), dims));
  return out;
}

// A number per matrix spread over [..., n].
Value spread(Builder& b, const Value& x, const Value& like) {
  return x && like ? b.broadcast_in_dim(x, like.dims(), all_dims(x.rank())) : Value();
}

Value stacked(Builder& b, const Row& lines, const Value& like) {
  if (!like || lines.empty()) return like;
  Dims dims = like.dims();
  dims[dims.size() - 2] = 1;
  Values parts;
  for (const Value& v : lines) parts.push_back(v ? b.reshape(v, dims) : v);
  return b.concatenate(parts, like.rank() - 2);
}

Value magnitude(Builder& b, const Value& x) {
  return x && is_complex(x.dtype()) ? b.add(b.abs(b.real(x)), b.abs(b.imag(x))) : b.abs(x);
}
Value squared_size(Builder& b, const Value& x) {
  if (!x || !is_complex(x.dtype())) return b.multiply(x, x);
  return b.add(b.multiply(b.real(x), b.real(x)), b.multiply(b.imag(x), b.imag(x)));
}

// Elimination with the largest pivot of each column; `right` takes the same steps. a becomes upper
// triangular. Returns where rows changed places, one flag per swap that may have happened.
Row eliminate(Builder& b, Grid& a, Row& right) {
  const size_t n = a.size();
  Row swaps;
  for (size_t k = 0; k < n; ++k) {
    Value most = magnitude(b, a[k][k]);
    for (size_t i = k + 1; i < n; ++i) {
      // Each greater one goes to row k at once, so that the greatest of all stays there.
      const Value size = magnitude(b, a[i][k]), greater = b.compare(size, most, "GT");
      auto swap = [&](Value& x, Value& y, const Value& when) {
        const Value up = b.select(when, y, x);
        y = b.select(when, x, y);
        x = up;
      };
      most = b.select(greater, size, most);
      for (size_t j = k; j < n; ++j) swap(a[k][j], a[i][j], greater);
      if (!right.empty()) swap(right[k], right[i], spread(b, greater, right[k]));
      swaps.push_back(greater);
    }
    for (size_t i = k + 1; i < n; ++i) {
      // A column of zeros needs no step.
      const Value pivot = a[k][k], zero = b.compare(pivot, b.zeros_like(pivot), "EQ");
      const Value safe = b.select(zero, b.full_like(pivot, 1), pivot);
      const Value factor = b.divide(a[i][k], safe);
      for (size_t j = k + 1; j < n; ++j) a[i][j] = b.subtract(a[i][j], b.multiply(factor, a[k][j]));
      if (!right.empty()) right[i] = b.subtract(right[i], b.multiply(spread(b, factor, right[i]), right[k]));
    }
  }
  return swaps;
}

void substitute(Builder& b, const Grid& a, Row& right, bool lower, bool unit) {
  const size_t n = a.size();
  for (size_t step = 0; step < n; ++step) {
    const size_t i = lower ? step : n - 1 - step;
    for (size_t done = 0; done < step; ++done) {
      const size_t j = lower ? done : n - 1 - done;
      right[i] = b.subtract(right[i], b.multiply(spread(b, a[i][j], right[j]), right[j]));
    }
    if (!unit) right[i] = b.divide(right[i], spread(b, a[i][i], right[i]));
  }
}

}  // namespace

Value small_solve(Builder& b, const Value& a, const Value& y) {
  Grid grid = elements(b, a);
  Row right = rows_of(b, y);
  eliminate(b, grid, right);
  substitute(b, grid, right, false, false);
  return stacked(b, right, y);
}

Value small_triangular_solve(Builder& b, const Value& a, const Value& y, bool lower, bool unit) {
  Row right = rows_of(b, y);
  substitute(b, elements(b, a), right, lower, unit);
  return stacked(b, right, y);
}

Value small_cholesky(Builder& b, const Value& a) {
  if (a.type()->num_elements == 0) return a;
  const Grid grid = elements(b, a);
  const size_t n = grid.size();
  const DType t = a.dtype();
  Grid l(n, Row(n));
  Value positive;
  for (size_t j = 0; j < n; ++j) {
    Value size = real_part(b, grid[j][j]);
    for (size_t k = 0; k < j; ++k) size = b.subtract(size, squared_size(b, l[j][k]));
    const Value good = b.compare(size, b.zeros_like(size), "GT");
    positive = positive ? b.and_(positive, good) : good;
    const Value root = b.sqrt(size);
    l[j][j] = as_type(b, root, t);
    for (size_t i = j + 1; i < n; ++i) {
      Value x = grid[i][j];
      for (size_t k = 0; k < j; ++k) x = b.subtract(x, b.multiply(l[i][k], conj(b, l[j][k])));
      l[i][j] = b.divide(x, l[j][j]);
    }
  }
  Values parts;
  Dims one = outer_of(a);
  one.push_back(1);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      Value x = l[i][j];
      if (j > i) {
        x = b.zeros_like(l[0][0]);
      } else if (x) {
        x = b.select(positive, x, b.full_like(x, std::numeric_limits<double>::quiet_NaN()));
      }
      parts.push_back(x ? b.reshape(x, one) : x);
    }
  return b.reshape(b.concatenate(parts, static_cast<int64_t>(one.size()) - 1), a.dims());
}

namespace {

// A zero has no sign: products with it may.
Value without_negative_zero(Builder& b, const Value& x) { return x ? b.add(x, b.zeros_like(x)) : x; }

Value expanded_determinant(Builder& b, const Value& a) {
  const Grid x = elements(b, a);
  auto two = [&](size_t r, size_t s, size_t i, size_t j) {
    return b.subtract(b.multiply(x[r][i], x[s][j]), b.multiply(x[r][j], x[s][i]));
  };
  switch (x.size()) {
    case 0:
      return b.full(array_type_or_die(a.dtype(), outer_of(a)), 1);
    case 1:
      return x[0][0];
    case 2:
      return two(0, 1, 0, 1);
    case 3:
      return b.add(b.subtract(b.multiply(x[0][0], two(1, 2, 1, 2)), b.multiply(x[0][1], two(1, 2, 0, 2))),
                   b.multiply(x[0][2], two(1, 2, 0, 1)));
    default: {
      // Laplace's expansion by pairs of columns of the first two rows.
      Value sum;
      for (size_t i = 0; i < 4; ++i)
        for (size_t j = i + 1; j < 4; ++j) {
          size_t rest[2];
          size_t count = 0;
          for (size_t c = 0; c < 4; ++c)
            if (c != i && c != j) rest[count++] = c;
          const Value term = b.multiply(two(0, 1, i, j), two(2, 3, rest[0], rest[1]));
          if (!sum)
            sum = term;
          else
            sum = (i + j) % 2 == 1 ? b.add(sum, term) : b.subtract(sum, term);
        }
      return sum;
    }
  }
}

}  // namespace

Value small_determinant(Builder& b, const Value& a) {
  return without_negative_zero(b, expanded_determinant(b, a));
}

SignAndLog small_log_determinant(Builder& b, const Value& a) {
  Grid grid = elements(b, a);
  Row none;
  const Row swaps = eliminate(b, grid, none);
  const DType t = a.dtype();
  Value sign = b.full(array_type_or_die(t, outer_of(a)), 1);
  Value log = b.full(array_type_or_die(part_type(t), outer_of(a)), 0);
  for (const Value& swapped : swaps) sign = sign ? b.select(swapped, b.negate(sign), sign) : sign;
  for (size_t k = 0; k < grid.size(); ++k) {
    const Value& pivot = grid[k][k];
    Value direction = b.sign(pivot);
    if (pivot && is_complex(t)) {
      const Value zero = b.compare(pivot, b.zeros_like(pivot), "EQ");
      const Value safe = b.select(zero, b.full_like(pivot, 1), pivot);
      direction = b.select(zero, b.zeros_like(pivot), b.divide(safe, as_type(b, b.abs(safe), t)));
    }
    sign = b.multiply(sign, direction);
    log = b.add(log, b.log(b.abs(pivot)));
  }
  return {without_negative_zero(b, sign), log};
}

}  // namespace lamina::hlo::linalg
