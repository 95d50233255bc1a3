// Checks of derivatives and batching for any recorded function:
//   jvp against central differences in f64, vjp against jvp by inner products, vmap against a loop bit for
//   bit, and the same again for the function's own vjp (second order).
#ifndef LAMINA_TESTS_TRACE_CHECK_GRADS_H_
#define LAMINA_TESTS_TRACE_CHECK_GRADS_H_

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "trace/jvp.h"
#include "trace/transpose.h"
#include "trace/vmap.h"

namespace lamina::trace::test {

using hlo::Builder;
using hlo::Dims;
using hlo::DType;
using hlo::LiteralPtr;
using hlo::Type;
using hlo::Value;
using hlo::Values;
using Fn = std::function<Values(Builder& b, std::span<const Value> x)>;

inline const Type* f64(Dims dims) { return hlo::array_type_or_die(DType::kF64, dims); }
inline const Type* s32(Dims dims) { return hlo::array_type_or_die(DType::kS32, dims); }

inline LiteralPtr literal(Dims dims, std::vector<double> values) {
  return hlo::Literal::copy_of(f64(std::move(dims)), values.data());
}
inline LiteralPtr integers(Dims dims, std::vector<int32_t> values) {
  return hlo::Literal::copy_of(s32(std::move(dims)), values.data());
}

// Reproducible numbers in (low, high).
class Numbers {
 public:
  explicit Numbers(uint64_t seed = 1) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double next(double low, double high) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (static_cast<double>(state_ >> 11) / 9007199254740992.0);
  }
  LiteralPtr array(Dims dims, double low = -2, double high = 2) {
    const Type* type = f64(std::move(dims));
    auto out = std::make_shared<hlo::Literal>(type);
    for (int64_t i = 0; i < out->size(); ++i) out->as<double>()[i] = next(low, high);
    return out;
  }

 private:
  uint64_t state_;
};

inline std::vector<const Type*> types_of(const std::vector<LiteralPtr>& xs) {
  std::vector<const Type*> out;
  for (const LiteralPtr& x : xs) out.push_back(x->type());
  return out;
}

inline std::vector<LiteralPtr> run(const Fn& f, const std::vector<LiteralPtr>& xs) {
  absl::StatusOr<hlo::ComputationPtr> c = hlo::record_region(types_of(xs), f);
  INFO(c.status());
  REQUIRE(c.ok());
  absl::StatusOr<std::vector<LiteralPtr>> out = hlo::evaluate(**c, xs);
  INFO(out.status());
  REQUIRE(out.ok());
  return *out;
}

// The status of recording `f`.
inline absl::Status record_status(const Fn& f, const std::vector<const Type*>& types) {
  return hlo::record_region(types, f).status();
}

inline Values open_inputs(std::span<const Value> x) {
  Values out;
  for (const Value& v : x)
    out.push_back(hlo::make_fresh_node(hlo::Op::identity, v.type(), hlo::no_attrs(), {{v.operand()}},
                                       hlo::fresh_stamp()));
  return out;
}

inline bool differentiable(const Type* t) { return t->is_array() && hlo::is_inexact(t->dtype); }

// (x, tangents of the differentiable x) -> tangents of the differentiable results (zeros where none).
inline Fn jvp_of(Fn f, size_t n, bool linear = false) {
  return [f = std::move(f), n, linear](Builder& b, std::span<const Value> all) {
    const Values x = open_inputs(all.first(n));
    Values t(n);
    size_t next = n;
    for (size_t i = 0; i < n; ++i)
      if (differentiable(x[i].type())) t[i] = all[next++];
    const Values y = f(b, x);
    if (!b.ok()) return Values();
    absl::StatusOr<JvpOut> out = linear ? linearize(y, x, t) : jvp(y, x, t);
    if (!out.ok()) {
      b.fail(out.status());
      return Values();
    }
    Values results;
    for (size_t i = 0; i < y.size(); ++i)
      if (differentiable(y[i].type()))
        results.push_back(out->tangents[i] ? out->tangents[i] : b.zeros_like(y[i]));
    return results;
  };
}

// (x, cotangents of the differentiable results) -> cotangents of the differentiable x.
inline Fn vjp_of(Fn f, size_t n) {
  return [f = std::move(f), n](Builder& b, std::span<const Value> all) {
    const Values x = open_inputs(all.first(n));
    const Values y = f(b, x);
    if (!b.ok()) return Values();
    Values ct(y.size());
    size_t next = n;
    for (size_t i = 0; i < y.size(); ++i)
      if (differentiable(y[i].type())) ct[i] = all[next++];
    absl::StatusOr<VjpOut> out = vjp(y, x, ct);
    if (!out.ok()) {
      b.fail(out.status());
      return Values();
    }
    Values results;
    for (size_t i = 0; i < n; ++i)
      if (differentiable(x[i].type()))
        results.push_back(out->cotangents[i] ? out->cotangents[i] : b.zeros_like(x[i]));
    return results;
  };
}

// Inputs marked carry a batch of `size` at dimension 0.
inline Fn vmap_of(Fn f, std::vector<bool> marks, int64_t size) {
  return [f = std::move(f), marks = std::move(marks), size](Builder& b, std::span<const Value> all) {
    Values x;
    absl::InlinedVector<bool, 8> batched(marks.begin(), marks.end());
    for (size_t i = 0; i < all.size(); ++i) {
      const Dims& dims = all[i].dims();
      x.push_back(hlo::make_parameter(
          marks[i] ? hlo::array_type_or_die(all[i].dtype(), std::span(dims).subspan(1)) : all[i].type()));
    }
    const Values y = f(b, x);
    if (!b.ok()) return Values();
    absl::StatusOr<std::vector<Value>> out = vmap(y, x, all, batched, size);
    if (!out.ok()) {
      b.fail(out.status());
      return Values();
    }
    return Values(out->begin(), out->end());
  };
}

// The gradient of the sum of all results.
inline Fn grad_of(Fn f, size_t n) {
  return [f = std::move(f), n](Builder& b, std::span<const Value> x) {
    const Values open = open_inputs(x);
    const Values y = f(b, open);
    if (!b.ok()) return Values();
    Values ones;
    for (const Value& v : y) ones.push_back(differentiable(v.type()) ? b.full_like(v, 1) : Value());
    absl::StatusOr<VjpOut> out = vjp(y, open, ones);
    if (!out.ok()) {
      b.fail(out.status());
      return Values();
    }
    Values results;
    for (size_t i = 0; i < n; ++i)
      if (differentiable(x[i].type()))
        results.push_back(out->cotangents[i] ? out->cotangents[i] : b.zeros_like(x[i]));
    return results;
  };
}

inline double inner_product(const std::vector<LiteralPtr>& a, const std::vector<LiteralPtr>& b) {
  double sum = 0;
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i]->type() == b[i]->type());
    for (int64_t k = 0; k < a[i]->size(); ++k) sum += a[i]->as<double>()[k] * b[i]->as<double>()[k];
  }
  return sum;
}

inline std::vector<LiteralPtr> only_f64(const std::vector<LiteralPtr>& xs) {
  std::vector<LiteralPtr> out;
  for (const LiteralPtr& x : xs)
    if (x->dtype() == DType::kF64) out.push_back(x);
  return out;
}

inline std::vector<LiteralPtr> random_like(const std::vector<LiteralPtr>& xs, Numbers& numbers) {
  std::vector<LiteralPtr> out;
  for (const LiteralPtr& x : only_f64(xs)) out.push_back(numbers.array(x->dims(), -1, 1));
  return out;
}

inline std::vector<LiteralPtr> concat(std::vector<LiteralPtr> a, const std::vector<LiteralPtr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline bool same_bits(const LiteralPtr& a, const LiteralPtr& b) {
  if (a->type() != b->type()) return false;
  if (*a == *b) return true;
  // NaNs have no particular payload.
  if (a->dtype() != DType::kF64) return false;
  for (int64_t i = 0; i < a->size(); ++i) {
    const double x = a->as<double>()[i], y = b->as<double>()[i];
    if (std::memcmp(&x, &y, 8) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

// The batch of size 3 whose lane k is xs varied by k.
inline void check_vmap(const Fn& f, const std::vector<LiteralPtr>& xs, std::vector<bool> marks,
                       Numbers& numbers) {
  constexpr int64_t kSize = 3;
  std::vector<std::vector<LiteralPtr>> lanes(kSize, xs);
  std::vector<LiteralPtr> batch = xs;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!marks[i]) continue;
    Dims dims = xs[i]->dims();
    dims.insert(dims.begin(), kSize);
    auto all = std::make_shared<hlo::Literal>(hlo::array_type_or_die(xs[i]->dtype(), dims));
    for (int64_t k = 0; k < kSize; ++k) {
      auto lane = std::make_shared<hlo::Literal>(xs[i]->type());
      std::memcpy(lane->data(), xs[i]->data(), lane->bytes());
      if (lane->dtype() == DType::kF64 && k > 0)
        for (int64_t e = 0; e < lane->size(); ++e) lane->as<double>()[e] *= 1 + 0.02 * numbers.next(-1, 1);
      if (lane->dtype() == DType::kS32 && k > 0)
        for (int64_t e = 0; e < lane->size(); ++e) lane->as<int32_t>()[e] += static_cast<int32_t>(k) - 1;
      if (lane->bytes() > 0) std::memcpy(all->element(0) + k * lane->bytes(), lane->data(), lane->bytes());
      lanes[k][i] = lane;
    }
    batch[i] = all;
  }
  const std::vector<LiteralPtr> whole = run(vmap_of(f, marks, kSize), batch);
  for (int64_t k = 0; k < kSize; ++k) {
    const std::vector<LiteralPtr> one = run(f, lanes[k]);
    REQUIRE(one.size() == whole.size());
    for (size_t i = 0; i < one.size(); ++i) {
      INFO("vmap, lane " << k << ", result " << i);
      REQUIRE(whole[i]->dims().size() == one[i]->dims().size() + 1);
      CHECK(same_bits(hlo::Literal::copy_of(one[i]->type(), whole[i]->element(0) + k * one[i]->bytes()),
                      one[i]));
    }
  }
}

// All inputs batched, and each alone.
inline void check_vmap(const Fn& f, const std::vector<LiteralPtr>& xs, Numbers& numbers) {
  check_vmap(f, xs, std::vector<bool>(xs.size(), true), numbers);
  if (xs.size() < 2) return;
  for (size_t i = 0; i < xs.size(); ++i) {
    std::vector<bool> marks(xs.size(), false);
    marks[i] = true;
    check_vmap(f, xs, marks, numbers);
  }
}

struct Options {
  int order = 2;
  bool batch = true;
  double tolerance = 1e-6;  // of central differences, relative
};

inline void check_grads(const Fn& f, const std::vector<LiteralPtr>& xs, Options options = {}) {
  Numbers numbers(7);
  const size_t n = xs.size();
  const std::vector<LiteralPtr> t = random_like(xs, numbers);
  const std::vector<LiteralPtr> y = run(f, xs);
  const std::vector<LiteralPtr> moved = run(jvp_of(f, n), concat(xs, t));
  {
    INFO("jvp against central differences");
    const double h = 1e-5;
    std::vector<LiteralPtr> ends[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<LiteralPtr> at = xs;
      size_t next = 0;
      for (LiteralPtr& x : at) {
        if (x->dtype() != DType::kF64) continue;
        auto shifted = std::make_shared<hlo::Literal>(x->type());
        for (int64_t i = 0; i < x->size(); ++i)
          shifted->as<double>()[i] = x->as<double>()[i] + (side == 0 ? h : -h) * t[next]->as<double>()[i];
        ++next;
        x = shifted;
      }
      ends[side] = only_f64(run(f, at));
    }
    REQUIRE(moved.size() == ends[0].size());
    for (size_t r = 0; r < moved.size(); ++r) {
      REQUIRE(moved[r]->type() == ends[0][r]->type());
      for (int64_t i = 0; i < moved[r]->size(); ++i) {
        const double want = (ends[0][r]->as<double>()[i] - ends[1][r]->as<double>()[i]) / (2 * h);
        const double got = moved[r]->as<double>()[i];
        INFO("result " << r << ", element " << i << ": " << got << " against " << want);
        CHECK(std::fabs(got - want) <=
              options.tolerance * std::max({1.0, std::fabs(want), std::fabs(got)}) * 10);
      }
    }
  }
  if (options.batch) check_vmap(f, xs, numbers);
  {
    INFO("linearize against jvp");
    const std::vector<LiteralPtr> linear = run(jvp_of(f, n, true), concat(xs, t));
    REQUIRE(linear.size() == moved.size());
    for (size_t r = 0; r < moved.size(); ++r)
      for (int64_t i = 0; i < moved[r]->size(); ++i)
        CHECK(linear[r]->as<double>()[i] == Approx(moved[r]->as<double>()[i]).epsilon(1e-12).margin(1e-12));
  }
  const std::vector<LiteralPtr> ct = random_like(y, numbers);
  const std::vector<LiteralPtr> back = run(vjp_of(f, n), concat(xs, ct));
  {
    INFO("vjp against jvp");
    const double a = inner_product(ct, moved), b = inner_product(back, t);
    INFO(a << " against " << b);
    CHECK(std::fabs(a - b) <= 1e-9 * std::max({1.0, std::fabs(a), std::fabs(b)}));
  }
  if (options.order < 2) return;
  INFO("second order");
  options.order = 1;
  check_grads(vjp_of(f, n), concat(xs, ct), options);
}

}  // namespace lamina::trace::test

#endif  // LAMINA_TESTS_TRACE_CHECK_GRADS_H_
