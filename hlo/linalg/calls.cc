#include "hlo/linalg/calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "hlo/batching.h"
#include "hlo/linalg/derivatives.h"
#include "hlo/linalg/fourier.h"
#include "hlo/linalg/host.h"
#include "hlo/linalg/lanes.h"
#include "hlo/linalg/lapack.h"
#include "hlo/nodes.h"
#include "hlo/once.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

template <FourierKind kind>
constexpr Plans kFourier = {[](const Type& operand, const Type& result) {
                              const Type& numbers = kind == FourierKind::kRealInverse ? result : operand;
                              return has_fourier_plan(kind, numbers.dims.back());
                            },
                            [](const Type& operand, const Type& result) {
                              return plan_fourier(kind, kind == FourierKind::kRealInverse ? result : operand);
                            }};
template <FourierKind kind>
constexpr Plans kFourierColumns = {
    [](const Type& operand, const Type&) {
      return has_fourier_plan(kind, operand.dims[operand.dims.size() - 2]);
    },
    [](const Type& operand, const Type&) { return plan_fourier_columns(kind, operand); }};

template <FourierKind kind, int64_t rank>
constexpr Plans kFourierOfMany = {
    [](const Type& operand, const Type&) { return has_fourier_plan(kind, operand, rank); },
    [](const Type& operand, const Type&) { return plan_fourier(kind, operand, rank); }};

#define LAMINA_RUN(name) name<double>, name<Complex>
constexpr Routine kRoutines[] = {
    {"lamina.cholesky", "T[n,n] -> T[n,n]", LAMINA_RUN(run_cholesky), cholesky_jvp, nullptr, lanes_cholesky,
     nullptr, true},
    // Of the mean of a and its adjoint, where sum and half are numbers that their type holds (hlo/passes).
    {"lamina.mean_cholesky", "T[n,n] -> T[n,n]", LAMINA_RUN(run_mean_cholesky), nullptr, nullptr,
     lanes_mean_cholesky, nullptr, true},
    // Packed factors, zero-based pivots, and the order of rows that they make.
    {"lamina.lu", "T[m,n] -> T[m,n] I[k] I[m]", LAMINA_RUN(run_lu), lu_jvp, nullptr, lanes_lu, nullptr, true},
    // Of a, its packed factors and their order; the derivative is that by a.
    {"lamina.lu_solve", "T[n,n] T[n,n] I[n] T[n,m] -> T[n,m]", LAMINA_RUN(run_lu_solve), lu_solve_jvp,
     lu_solve_transpose, lanes_lu_solve, nullptr, true},
    {"lamina.lu_solve_transposed", "T[n,n] T[n,n] I[n] T[n,m] -> T[n,m]", LAMINA_RUN(run_lu_solve_transposed),
     lu_solve_transposed_jvp, lu_solve_transposed_transpose, lanes_lu_solve_transposed, nullptr, true},
    // Both, factoring first (hlo/passes): the factors have numbers that their type holds.
    {"lamina.solve", "T[n,n] T[n,m] -> T[n,m]", LAMINA_RUN(run_solve), nullptr, nullptr, lanes_solve, nullptr,
     true},
    {"lamina.det", "T[n,n] T[n,n] I[n] -> T[]", LAMINA_RUN(run_det), det_jvp, nullptr, lanes_det, nullptr,
     true},
    {"lamina.slogdet", "T[n,n] T[n,n] I[n] -> T[] R[]", LAMINA_RUN(run_slogdet), slogdet_jvp, nullptr,
     lanes_slogdet, nullptr, true},
    {"lamina.adjugate", "T[n,n] -> T[n,n]", LAMINA_RUN(run_adjugate), adjugate_jvp, nullptr},
    // Reflections below the diagonal with the triangle above, and the reflections' scales.
    {"lamina.geqrf", "T[m,n] -> T[m,n] T[k]", LAMINA_RUN(run_geqrf), nullptr, nullptr},
    {"lamina.qr", "T[m,n] -> T[m,p] T[p,n]", LAMINA_RUN(run_qr), qr_jvp, nullptr},
    {"lamina.solve_lower", "T[n,n] T[n,m] -> T[n,m]", LAMINA_RUN(run_lower_solve), triangular_jvp,
     triangular_transpose, lanes_lower_solve, nullptr, true},
    {"lamina.solve_upper", "T[n,n] T[n,m] -> T[n,m]", LAMINA_RUN(run_upper_solve), triangular_jvp,
     triangular_transpose, lanes_upper_solve, nullptr, true},
    {"lamina.solve_unit_lower", "T[n,n] T[n,m] -> T[n,m]", LAMINA_RUN(run_unit_lower_solve), triangular_jvp,
     triangular_transpose, lanes_unit_lower_solve, nullptr, true},
    {"lamina.solve_unit_upper", "T[n,n] T[n,m] -> T[n,m]", LAMINA_RUN(run_unit_upper_solve), triangular_jvp,
     triangular_transpose, lanes_unit_upper_solve, nullptr, true},
    // The lower triangle is read: vectors as columns, values in ascending order.
    {"lamina.eigh", "T[n,n] -> T[n,n] R[n]", LAMINA_RUN(run_eigh), eigh_jvp, nullptr, lanes_eigh},
    {"lamina.eigvalsh", "T[n,n] -> R[n]", LAMINA_RUN(run_eigvalsh), eigvalsh_jvp, nullptr, lanes_eigvalsh},
    // Values in descending order, left vectors as columns, right ones as conjugated rows.
    {"lamina.svd", "T[m,n] -> R[k] T[m,p] T[q,n]", LAMINA_RUN(run_svd), svd_jvp, nullptr, lanes_svd, nullptr,
     false, lapack::kLeast - 1},
    {"lamina.svdvals", "T[m,n] -> R[k]", LAMINA_RUN(run_svdvals), svdvals_jvp, nullptr, lanes_svdvals,
     nullptr, false, lapack::kLeast - 1},
    // Values, left and right vectors as columns, of unit length with a real largest entry.
    {"lamina.eig", "T[n,n] -> C[n] C[n,n] C[n,n]", LAMINA_RUN(run_eig), eig_jvp, nullptr},
    {"lamina.eigvals", "T[n,n] -> C[n]", LAMINA_RUN(run_eigvals), eigvals_jvp, nullptr},
    // The triangle (of real matrices with blocks) and the vectors.
    {"lamina.schur", "T[n,n] -> T[n,n] T[n,n]", LAMINA_RUN(run_schur), nullptr, nullptr},
    // Reflections below the first subdiagonal with the result above, and the reflections' scales, the last of
    // them 0.
    {"lamina.hessenberg", "T[n,n] -> T[n,n] T[n]", LAMINA_RUN(run_hessenberg), nullptr, nullptr},
    // x with a x + x b = c.
    {"lamina.sylvester", "T[m,m] T[n,n] T[m,n] -> T[m,n]", LAMINA_RUN(run_sylvester), sylvester_jvp,
     sylvester_transpose},
    {"lamina.sqrtm", "T[n,n] -> C[n,n]", LAMINA_RUN(run_sqrtm), sqrtm_jvp, nullptr},
    {"lamina.fft", "C[n] -> C[n]", nullptr, nullptr, fourier_jvp, fourier_transpose, nullptr,
     &kFourier<FourierKind::kForward>},
    {"lamina.ifft", "C[n] -> C[n]", nullptr, nullptr, fourier_jvp, fourier_transpose, nullptr,
     &kFourier<FourierKind::kInverse>},
    {"lamina.fft_columns", "C[n,m] -> C[n,m]", nullptr, nullptr, fourier_jvp, fourier_transpose, nullptr,
     &kFourierColumns<FourierKind::kForward>},
    {"lamina.ifft_columns", "C[n,m] -> C[n,m]", nullptr, nullptr, fourier_jvp, fourier_transpose, nullptr,
     &kFourierColumns<FourierKind::kInverse>},
    {"lamina.rfft", "R[n] -> C[h]", nullptr, nullptr, fourier_jvp, rfft_transpose, nullptr,
     &kFourier<FourierKind::kReal>},
    {"lamina.irfft", "C[h] -> R[n]", nullptr, nullptr, fourier_jvp, irfft_transpose, nullptr,
     &kFourier<FourierKind::kRealInverse>},
    // Along several dimensions (hlo/passes).
    {"lamina.fft2", "C[m,n] -> C[m,n]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kForward, 2>},
    {"lamina.ifft2", "C[m,n] -> C[m,n]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kInverse, 2>},
    {"lamina.rfft2", "R[m,n] -> C[m,h]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kReal, 2>},
    {"lamina.fft3", "C[l,m,n] -> C[l,m,n]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kForward, 3>},
    {"lamina.ifft3", "C[l,m,n] -> C[l,m,n]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kInverse, 3>},
    {"lamina.rfft3", "R[l,m,n] -> C[l,m,h]", nullptr, nullptr, nullptr, nullptr, nullptr,
     &kFourierOfMany<FourierKind::kReal, 3>},
};
#undef LAMINA_RUN

// One operand or result of a signature.
struct Slot {
  char kind;
  std::string letters;
};
struct Signature {
  std::vector<Slot> operands, results;
};

Signature parse(std::string_view text) {
  Signature s;
  std::vector<Slot>* list = &s.operands;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '-') list = &s.results;
    if (c < 'A' || c > 'Z') continue;
    Slot slot{c, {}};
    for (i += 2; text[i] != ']'; ++i)
      if (text[i] != ',') slot.letters.push_back(text[i]);
    list->push_back(std::move(slot));
  }
  return s;
}

const Signature& signature_of(const Routine& r) {
  static constinit Once<const std::vector<Signature>> all;
  return all.get([] {
    auto parsed = std::make_unique<std::vector<Signature>>();
    for (const Routine& row : kRoutines) parsed->push_back(parse(row.signature));
    return parsed.release();
  })[static_cast<size_t>(&r - kRoutines)];
}

DType complex_of(DType t) { return part_type(t) == DType::kF32 ? DType::kC64 : DType::kC128; }
DType dtype_of(char kind, DType t) {
  return kind == 'T' ? t : kind == 'R' ? part_type(t) : kind == 'C' ? complex_of(t) : DType::kS32;
}

// What the letters of a signature stand for in one call.
struct Binding {
  DType dtype = DType::kF32;
  Dims outer;
  std::map<char, int64_t> sizes;
};

absl::Status misfit(const Routine& r, Types types, std::string_view why) {
  std::string list;
  for (const Type* t : types) list += (list.empty() ? "" : ", ") + to_string(*t);
  return invalid(r.name, " (", r.signature, ") does not take ", list, ": ", why);
}

absl::Status bind_letters(const Routine& r, Types operands, Binding& b) {
  const Signature& s = signature_of(r);
  if (operands.size() != s.operands.size())
    return misfit(r, operands, str_cat("it has ", s.operands.size(), " operands"));
  for (size_t i = 0; i < operands.size(); ++i) {
    const Type& t = *operands[i];
    const Slot& slot = s.operands[i];
    if (!t.is_array() || t.rank() < static_cast<int64_t>(slot.letters.size()))
      return misfit(r, operands, str_cat("operand ", i, " has too few dimensions"));
    if (i == 0) {
      if (!is_inexact(t.dtype) || is_storage_float(t.dtype))
        return misfit(r, operands, "elements are f32, f64, c64 or c128");
      b.dtype = t.dtype;
    }
    if (t.dtype != dtype_of(slot.kind, b.dtype))
      return misfit(r, operands, str_cat("operand ", i, " has another element type"));
    const size_t outer = t.dims.size() - slot.letters.size();
    for (size_t d = 0; d < slot.letters.size(); ++d) {
      const auto [at, fresh] = b.sizes.try_emplace(slot.letters[d], t.dims[outer + d]);
      if (!fresh && at->second != t.dims[outer + d])
        return misfit(r, operands, i == 0 ? "the matrices must be square" : "the sizes differ");
    }
    if (i == 0) b.outer.assign(outer, 1);
    if (outer != b.outer.size()) return misfit(r, operands, "the batches have different ranks");
    for (size_t d = 0; d < outer; ++d) {
      if (b.outer[d] == 1) b.outer[d] = t.dims[d];
      if (t.dims[d] != 1 && t.dims[d] != b.outer[d]) return misfit(r, operands, "the batches differ");
    }
  }
  if (b.sizes.contains('m')) b.sizes['k'] = std::min(b.sizes['m'], b.sizes['n']);
  if (r.signature.find("h]") != std::string_view::npos && b.sizes.contains('n')) {
    if (b.sizes['n'] % 2 != 0) return misfit(r, operands, "lines must have an even length");
    b.sizes['h'] = b.sizes['n'] / 2 + 1;
  }
  return absl::OkStatus();
}

// Whether no matrix goes to LAPACK, whatever the machine has.
bool fits_lanes(const Routine& r, const Binding& b) {
  // Lanes begin with the first row, which empty matrices do not have.
  return std::ranges::all_of(
      b.sizes, [&](const auto& size) { return size.second >= 1 && size.second <= r.most_lane_rows; });
}

}  // namespace

const Routine* find_routine(std::string_view name) {
  if (!name.starts_with("lamina.")) return nullptr;
  for (const Routine& r : kRoutines)
    if (r.name == name) return &r;
  return nullptr;
}

absl::Status check_call(const Routine& r, Types operands, Types results) {
  Binding b;
  LAMINA_RETURN_IF_ERROR(bind_letters(r, operands, b));
  const Signature& s = signature_of(r);
  if (results.size() != s.results.size())
    return misfit(r, operands, str_cat("it has ", s.results.size(), " results, not ", results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& t = *results[i];
    const Slot& slot = s.results[i];
    bool fits = t.is_array() && t.dtype == dtype_of(slot.kind, b.dtype) &&
                t.dims.size() == b.outer.size() + slot.letters.size() &&
                std::equal(b.outer.begin(), b.outer.end(), t.dims.begin());
    for (size_t d = 0; fits && d < slot.letters.size(); ++d) {
      const int64_t have = t.dims[b.outer.size() + d];
      const char letter = slot.letters[d];
      if (letter == 'p' || letter == 'q') {
        fits = have >= b.sizes['k'] && have <= b.sizes[letter == 'p' ? 'm' : 'n'] &&
               b.sizes.try_emplace(letter, have).first->second == have;
      } else if (letter == 'n' && !b.sizes.contains('n')) {
        fits = have % 2 == 0 && have / 2 + 1 == b.sizes['h'];
      } else {
        fits = have == b.sizes[letter];
      }
    }
    if (!fits) return misfit(r, operands, str_cat("result ", i, " is no ", to_string(t)));
  }
  if (r.plans && !r.plans->exist(*operands[0], *results[0]))
    return misfit(r, operands, "there is no plan for this length");
  return absl::OkStatus();
}

absl::StatusOr<MatrixCall> MatrixCall::make(const Routine& routine, Types operands, Types results) {
  Binding b;
  LAMINA_RETURN_IF_ERROR(bind_letters(routine, operands, b));
  const Signature& s = signature_of(routine);
  MatrixCall out;
  out.routine_ = &routine;
  const auto array = [&](const Type* type, const Slot& slot) {
    int64_t count = 1;
    for (size_t d = 0; d < b.outer.size(); ++d) count *= type->dims[d];
    return Array{type, static_cast<int>(slot.letters.size()), count};
  };
  for (size_t i = 0; i < operands.size(); ++i) out.in_.push_back(array(operands[i], s.operands[i]));
  for (size_t i = 0; i < results.size(); ++i) out.out_.push_back(array(results[i], s.results[i]));
  out.outer_.assign(b.outer.begin(), b.outer.end());
  out.count_ = product(b.outer);
  out.complex_ = is_complex(b.dtype);
  out.in_lanes_ = routine.lanes && !out.complex_ && fits_lanes(routine, b);
  return out;
}

// Where matrix `linear` of the batch is in each operand.
void MatrixCall::place(int64_t linear, std::span<int64_t> at) const {
  for (size_t i = 0; i < in_.size(); ++i) {
    if (in_[i].count == count_ || in_[i].count == 1) {
      at[i] = in_[i].count == 1 ? 0 : linear;
      continue;
    }
    int64_t rest = linear, stride = 1;
    at[i] = 0;
    for (size_t d = outer_.size(); d-- > 0;) {
      const int64_t size = in_[i].type->dims[d];
      if (size != 1) at[i] += rest % outer_[d] * stride;
      rest /= outer_[d];
      stride *= size;
    }
  }
}

absl::Status MatrixCall::run(const void* const* operands, void* const* results, int64_t begin, int64_t end,
                             const EachMatrix& each) const {
  absl::InlinedVector<Matrices, 4> in, out;
  for (size_t i = 0; i < in_.size(); ++i)
    in.push_back({in_[i].type, const_cast<void*>(operands[i]), in_[i].rank});
  for (size_t i = 0; i < out_.size(); ++i) out.push_back({out_[i].type, results[i], out_[i].rank});
  const int64_t count = end - begin, lanes = num_lanes();
  // Less than half of the lanes are not worth while.
  if (in_lanes_ && 2 * count >= lanes) {
    // Tasks of several groups, where there are many, so that what a task costs does not show.
    const int64_t groups = (count + lanes - 1) / lanes, of_task = std::clamp<int64_t>(groups / 64, 1, 8);
    each((groups + of_task - 1) / of_task, [&](int64_t task) {
      absl::InlinedVector<int64_t, 32> at(static_cast<size_t>(lanes) * in.size());
      const int64_t first = begin + task * of_task * lanes, last = std::min(first + of_task * lanes, end);
      for (int64_t group = first; group < last; group += lanes) {
        const int64_t size = std::min(lanes, last - group);
        for (int64_t l = 0; l < size; ++l)
          place(group + l,
                std::span(at.data(), at.size()).subspan(static_cast<size_t>(l) * in.size(), in.size()));
        routine_->lanes({in, out, at, group, size});
      }
    });
    return absl::OkStatus();
  }
  std::mutex mutex;
  absl::Status failed;
  int64_t first = 0;  // that failed
  each(count, [&](int64_t i) {
    absl::InlinedVector<int64_t, 4> at(in.size());
    place(begin + i, std::span(at.data(), at.size()));
    absl::Status status;
    (complex_ ? routine_->complex : routine_->real)(Problem(in, out, at, begin + i, status));
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (failed.ok() || i < first) {
      failed = std::move(status);
      first = i;
    }
  });
  return failed;
}

absl::Status run_call(const Routine& r, EvalIn in, EvalOut out) {
  const EachMatrix in_turn = [](int64_t count, const std::function<void(int64_t)>& one) {
    for (int64_t i = 0; i < count; ++i) one(i);
  };
  if (r.plans) {
    r.plans->make(*in[0]->type(), *out[0]->type())(in[0]->data(), out[0]->data(), in_turn);
    return absl::OkStatus();
  }
  std::vector<const Type*> operand_types, result_types;
  std::vector<const void*> operands;
  std::vector<void*> results;
  for (const LiteralPtr& l : in) {
    operand_types.push_back(l->type());
    operands.push_back(l->data());
  }
  for (const auto& l : out) {
    result_types.push_back(l->type());
    results.push_back(l->data());
  }
  const absl::StatusOr<MatrixCall> made = MatrixCall::make(r, operand_types, result_types);
  if (!made.ok()) return made.status();
  return made->run(operands.data(), results.data(), 0, made->count(), in_turn);
}

BatchResult batch_call(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                       int64_t size) {
  Values operands;
  for (size_t i = 0; i < x.size(); ++i) {
    if (batched[i] || i + 1 == x.size())
      operands.push_back(with_batch(b, x[i], batched[i], size));
    else
      operands.push_back(x[i] ? b.reshape(x[i], prepend(1, x[i].dims())) : x[i]);
  }
  std::vector<const Type*> types;
  for (uint32_t i = 0; i < node.num_results(); ++i) types.push_back(batched_type(node.result_type(i), size));
  return all_batched(
      b.make_multi(Op::custom_call, operands, with_attr(node.attrs(), Attr::result_types, std::move(types))));
}

Values call(Builder& b, std::string_view name, std::span<const Value> operands, bool full) {
  const Routine& r = *find_routine(name);
  const Signature& s = signature_of(r);
  Values none(s.results.size());
  std::vector<const Type*> types;
  for (const Value& x : operands) {
    if (!x) return none;
    types.push_back(x.type());
  }
  Binding bound;
  if (absl::Status status = bind_letters(r, types, bound); !status.ok()) {
    b.fail(std::move(status));
    return none;
  }
  bound.sizes['p'] = bound.sizes[full ? 'm' : 'k'];
  bound.sizes['q'] = bound.sizes[full ? 'n' : 'k'];
  std::vector<const Type*> results;
  for (const Slot& slot : s.results) {
    Dims dims = bound.outer;
    for (char letter : slot.letters) dims.push_back(bound.sizes[letter]);
    absl::StatusOr<const Type*> type = array_type(dtype_of(slot.kind, bound.dtype), dims);
    if (!type.ok()) {
      b.fail(type.status());
      return none;
    }
    results.push_back(*type);
  }
  return b.make_multi(
      Op::custom_call, operands,
      intern_attrs({{Attr::call_target_name, std::string(name)}, {Attr::result_types, std::move(results)}}));
}

}  // namespace lamina::hlo::linalg
