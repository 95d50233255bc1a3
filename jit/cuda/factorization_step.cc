#include "jit/cuda/factorization_step.h"

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "hlo/builder.h"
#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::DType;
using hlo::Value;
using hlo::Values;

// A step of parts that is in no graph.
class DirectStep final : public Step {
 public:
  explicit DirectStep(std::unique_ptr<PartsStep> parts) : parts_(std::move(parts)) {}

  absl::Status enqueue(Frame& frame) const override { return parts_->enqueue(frame); }
  bool may_take_long() const override { return true; }
  std::string describe() const override { return parts_->describe(); }
  std::vector<MayOverwrite> overwrites() const override { return parts_->overwrites(); }
  std::vector<int64_t> scratch_bytes() const override { return parts_->scratch_bytes(); }
  void place(const Placing& placing) override { parts_->place(placing); }

 private:
  const std::unique_ptr<PartsStep> parts_;
};

class FactorizationCall final : public LibraryCall {
 public:
  explicit FactorizationCall(std::unique_ptr<const Factorization> factorization)
      : factorization_(std::move(factorization)) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    return factorization_->enqueue(queue, {at[0], at[1], at[2], at[3]});
  }

 private:
  const std::unique_ptr<const Factorization> factorization_;
};

// Numbers of rows and columns of matrices x.
Value number_of(Builder& b, const Value& x, int64_t dimension) {
  return b.iota(DType::kS32, x.dims(), dimension);
}
Value spread(Builder& b, const Value& v, const Value& like) {
  return b.broadcast_in_dim(v, like.dims(), Dims{0});
}
Value lower_part(Builder& b, const Value& x) {
  const Value is_lower = b.compare(number_of(b, x, 1), number_of(b, x, 2), "GE");
  return b.select(is_lower, x, b.zeros_like(x));
}
Value conjugate(Builder& b, const Value& x) {
  return hlo::is_complex(x.dtype()) ? b.complex(b.real(x), b.negate(b.imag(x))) : x;
}
Value nan_like(Builder& b, const Value& x) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (!hlo::is_complex(x.dtype())) return b.full_like(x, kNaN);
  const Value part = b.full_like(b.real(x), kNaN);
  return b.complex(part, part);
}

// The mean of each matrix and its adjoint, in the numbers that their type holds.
Value mean_of(Builder& b, const Value& x, const Value& turned) {
  const Value sum = b.add(x, conjugate(b, turned));
  if (!hlo::is_complex(x.dtype())) return b.multiply(sum, b.full_like(sum, 0.5));
  const Value re = b.real(sum), half = b.full_like(re, 0.5);
  return b.complex(b.multiply(re, half), b.multiply(b.imag(sum), half));
}
// 0, or NaN where a matrix has a number that is not finite.
Value unless_finite(Builder& b, const Value& x) {
  const Value lower = lower_part(b, x);
  const auto none = [&](const Value& part) { return b.multiply(part, b.zeros_like(part)); };
  const Value each =
      hlo::is_complex(x.dtype()) ? b.add(none(b.real(lower)), none(b.imag(lower))) : none(lower);
  return b.reduce_sum(each, Dims{1, 2});
}
// The lower triangle of Hermitian matrices in the type that they are computed in; 0 in place of what is not
// finite.
Value operand_of(Builder& b, const Value& x, const Value& flags, const FactorizationForm& form) {
  Value y = x;
  if (hlo::is_complex(y.dtype())) {
    const Value is_own = b.compare(number_of(b, x, 1), number_of(b, x, 2), "EQ"), im = b.imag(y);
    y = b.complex(b.real(y), b.select(is_own, b.zeros_like(im), im));
  }
  const Value is_finite = spread(b, b.compare(flags, flags, "EQ"), x);
  return b.convert(b.select(is_finite, lower_part(b, y), b.zeros_like(y)), form.compute);
}
Value nan_unless(Builder& b, const Value& is_good, const Value& x) {
  return b.select(spread(b, is_good, x), x, nan_like(b, x));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_factorization_step(Factorizations& factorizations,
                                                              CudaKernels& kernels, const hlo::Node& node,
                                                              const SlotOf& slot_of, MakeKernel make_kernel) {
  absl::StatusOr<std::unique_ptr<const Factorization>> planned = factorizations.plan(node);
  if (!planned.ok()) return planned.status();
  if (!*planned) return nullptr;
  const FactorizationForm form = (*planned)->form();
  auto step = std::make_unique<PartsStep>(kernels, node, slot_of);
  absl::Status status;
  const auto add = [&](std::vector<const hlo::Type*> types,
                       const std::function<Value(Builder&, std::span<const Value>)>& record,
                       std::vector<int> arrays) {
    absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(make_kernel, types, record);
    if (kernel.ok())
      step->add(*std::move(kernel), std::move(arrays));
    else
      status = kernel.status();
  };
  const auto type = [&](DType of, Dims dims) { return hlo::array_type_or_die(of, dims); };
  const Dims all{form.count, form.n, form.n}, each{form.count}, rows{form.count, form.n};
  const DType part = hlo::part_type(form.type), computed_part = hlo::part_type(form.compute);
  const hlo::Type *const a = type(form.type, all), *const flag = type(part, each),
                         *const matrix = type(form.compute, all), *const info = type(DType::kS32, each),
                         *const value = type(computed_part, rows);

  step->set_description(str_cat((*planned)->describe(), ", ", hlo::to_string(*node.operand_type(0))));
  int operand = step->operand(0);
  const int workspace = step->add_memory((*planned)->workspace_bytes()),
            flags = step->add_memory(flag->bytes()), infos = step->add_memory(info->bytes()),
            matrices = step->add_memory(matrix->bytes());
  const int values = form.is_eigen() ? step->add_memory(value->bytes()) : -1;
  if (form.kind == FactorizationKind::kMeanCholesky) {
    // Of one element the matrix is its own transpose.
    const int turned = form.n > 1 ? step->add_memory(a->bytes()) : operand,
              mean = step->add_memory(a->bytes());
    if (turned != operand)
      add({a}, [&](Builder& b, auto x) { return b.transpose(x[0], Dims{0, 2, 1}); }, {operand, turned});
    add({a, a}, [&](Builder& b, auto x) { return mean_of(b, x[0], x[1]); }, {operand, turned, mean});
    operand = mean;
  }
  add({a}, [&](Builder& b, auto x) { return unless_finite(b, x[0]); }, {operand, flags});
  add({a, flag}, [&](Builder& b, auto x) { return operand_of(b, x[0], x[1], form); },
      {operand, flags, matrices});
  step->add(std::make_unique<FactorizationCall>(*std::move(planned)), {matrices, values, infos, workspace});
  const auto has_factor = [](Builder& b, const Value& of, const Value& finite) {
    return b.and_(b.compare(of, b.zeros_like(of), "EQ"), b.compare(finite, finite, "EQ"));
  };
  if (!form.is_eigen()) {
    add({matrix, info, flag},
        [&](Builder& b, auto x) {
          // Above the diagonal there is 0 in any case.
          return lower_part(b, b.convert(nan_unless(b, has_factor(b, x[1], x[2]), x[0]), form.type));
        },
        {matrices, infos, flags, step->result(0)});
  } else {
    if (form.kind == FactorizationKind::kEigen)
      add({matrix, info, flag},
          [&](Builder& b, auto x) {
            const Value vectors = conjugate(b, b.transpose(x[0], Dims{0, 2, 1}));
            return b.convert(nan_unless(b, has_factor(b, x[1], x[2]), vectors), form.type);
          },
          {matrices, infos, flags, step->result(0)});
    add({value, info, flag},
        [&](Builder& b, auto x) { return b.convert(nan_unless(b, has_factor(b, x[1], x[2]), x[0]), part); },
        {values, infos, flags, step->result(form.kind == FactorizationKind::kEigen ? 1 : 0)});
  }
  if (!status.ok()) return status;
  return std::make_unique<DirectStep>(std::move(step));
}

}  // namespace lamina::jit::cuda
