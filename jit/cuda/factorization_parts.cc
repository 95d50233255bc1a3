#include "jit/cuda/factorization_parts.h"

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "hlo/batching.h"
#include "hlo/linalg/matrix.h"
#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::DType;
using hlo::Value;

class FactorizationCall final : public LibraryCall {
 public:
  FactorizationCall(std::shared_ptr<const Factorization> factorization, bool last)
      : factorization_(std::move(factorization)), last_(last) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    return factorization_->enqueue(queue, {at[0], at[1], at[2], at[3], at[4], at[5]}, last_);
  }

 private:
  const std::shared_ptr<const Factorization> factorization_;
  const bool last_;
};

// [batch..., dims] as [count, dims].
const hlo::Type* flat(const hlo::Type& type, size_t batch, int64_t count) {
  Dims dims{count};
  dims.insert(dims.end(), type.dims.begin() + static_cast<std::ptrdiff_t>(batch), type.dims.end());
  return hlo::array_type_or_die(type.dtype, dims);
}
size_t batch_rank(const hlo::Node& node) { return node.operand_type(0)->dims.size() - 2; }

Value nan_like(Builder& b, const Value& x) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (!hlo::is_complex(x.dtype())) return b.full_like(x, kNaN);
  const Value part = b.full_like(b.real(x), kNaN);
  return b.complex(part, part);
}

}  // namespace

FactorizationParts::FactorizationParts(std::unique_ptr<const Factorization> factorization,
                                       CudaKernels& kernels, const hlo::Node& node,
                                       std::span<const Value> reads, const SlotOf& slot_of,
                                       MakeKernel make_kernel)
    : factorization_(std::move(factorization)),
      form_(factorization_->form()),
      node_(node),
      turned_(cluster::turned(node, reads)),
      make_kernel_(make_kernel),
      step_(std::make_unique<PartsStep>(kernels, node, slot_of, reads)) {
  step_->set_description(str_cat(factorization_->describe(), ", ", hlo::to_string(*node.operand_type(0))));
  workspace_.number = step_->add_memory(factorization_->workspace_bytes());
  infos_ = memory(DType::kS32, {});
}

FactorizationParts::Array FactorizationParts::operand(size_t i) {
  const hlo::Type& type = *node_.operand_type(i);
  const size_t batch = batch_rank(node_);
  const Array own{step_->operand(i), &type};
  const Dims& all = node_.result_type(0)->dims;
  if (std::equal(type.dims.begin(), type.dims.begin() + static_cast<std::ptrdiff_t>(batch), all.begin()))
    return {own.number, flat(type, batch, form_.count)};
  Dims dims(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(batch));
  dims.insert(dims.end(), type.dims.begin() + static_cast<std::ptrdiff_t>(batch), type.dims.end());
  const hlo::Type* const spread = hlo::array_type_or_die(type.dtype, dims);
  const Array copy{step_->add_memory(spread->bytes()), flat(*spread, batch, form_.count)};
  add(
      {own}, [&](Builder& b, auto x) { return b.broadcast_in_dim(x[0], dims, hlo::all_dims(x[0].rank())); },
      copy);
  return copy;
}

FactorizationParts::Array FactorizationParts::result(size_t i) {
  return {step_->result(i),
          flat(*node_.result_type(static_cast<uint32_t>(i)), batch_rank(node_), form_.count)};
}

FactorizationParts::Array FactorizationParts::memory(DType type, std::initializer_list<int64_t> dims) {
  Dims all{form_.count};
  all.insert(all.end(), dims.begin(), dims.end());
  const hlo::Type* const of = hlo::array_type_or_die(type, all);
  return {step_->add_memory(of->bytes()), of};
}

FactorizationParts::Array FactorizationParts::number(DType type, int64_t value) {
  const hlo::Type* const scalar = hlo::scalar_type(type);
  const Array out{step_->add_memory(scalar->bytes()), scalar};
  add(
      {},
      [&](Builder& b, auto) {
        const DType part = hlo::part_type(type);
        const Value zero = b.iota(part, Dims{1}, 0),
                    one = b.add(zero, b.full_like(zero, static_cast<double>(value)));
        return hlo::linalg::as_type(b, one, type);
      },
      out);
  return out;
}

void FactorizationParts::add(std::initializer_list<Array> from, const Record& record, Array to) {
  std::vector<const hlo::Type*> types;
  std::vector<int> arrays;
  for (const Array& a : from) {
    types.push_back(a.type);
    arrays.push_back(a.number);
  }
  arrays.push_back(to.number);
  absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(make_kernel_, types, record);
  if (kernel.ok())
    step_->add(*std::move(kernel), std::move(arrays));
  else
    status_ = kernel.status();
}

void FactorizationParts::add_call(bool last) {
  step_->add(
      std::make_unique<FactorizationCall>(factorization_, last),
      {matrices_.number, values_.number, left_.number, right_.number, infos_.number, workspace_.number});
}

absl::StatusOr<std::unique_ptr<Step>> FactorizationParts::finish() && {
  if (!status_.ok()) return status_;
  return make_direct(std::move(step_));
}

Value of_each(Builder& b, const Value& v, const Value& like) {
  return b.broadcast_in_dim(v, like.dims(), Dims{0});
}

Value finite_flags(Builder& b, const Value& x, const Value& zero, bool only_lower) {
  const auto none = [&](const Value& part) {
    const Value asked = only_lower ? hlo::linalg::lower_part(b, part) : part;
    return b.multiply(asked, b.zeros_like(asked));
  };
  const Value each = hlo::is_complex(x.dtype()) ? b.add(none(b.real(x)), none(b.imag(x))) : none(x);
  return b.reduce(each, hlo::Op::add, zero, Dims{1, 2});
}
Value is_flagged_finite(Builder& b, const Value& flags) { return b.compare(flags, flags, "EQ"); }

Value has_factor(Builder& b, const Value& infos, const Value& flags) {
  return b.and_(b.compare(infos, b.zeros_like(infos), "EQ"), is_flagged_finite(b, flags));
}

Value nan_unless(Builder& b, const Value& is_good, const Value& x) {
  return b.select(x.rank() > 1 ? of_each(b, is_good, x) : is_good, x, nan_like(b, x));
}

Value computed(Builder& b, const Value& x, const Value& flags, const FactorizationForm& form) {
  const Value is_good = of_each(b, is_flagged_finite(b, flags), x);
  return b.convert(b.select(is_good, x, b.zeros_like(x)), form.compute);
}

FactorizationParts::Array add_general_operand(FactorizationParts& p, bool transposed) {
  const FactorizationForm& form = p.form();
  const int64_t m = form.rows, n = form.columns, each = form.matrix_elements / m;
  const FactorizationParts::Array a = p.operand(0), flags = p.memory(hlo::part_type(form.type), {}),
                                  matrices = transposed ? p.memory(form.compute, {each, m})
                                                        : p.memory(form.compute, {m, n});
  p.add(
      {a, p.number(flags.type->dtype, 0)},
      [](Builder& b, auto x) { return finite_flags(b, x[0], x[1], false); }, flags);
  p.add(
      {a, flags},
      [&](Builder& b, auto x) {
        // What is read may be turned already.
        const bool turns = transposed == (p.turned() == cluster::Turned::kNo);
        const Value own = p.turned() == cluster::Turned::kAdjoint ? hlo::linalg::conj(b, x[0]) : x[0],
                    whole = turns ? hlo::linalg::transposed(b, own) : own;
        const Value y = computed(b, whole, x[1], form);
        if (!transposed || each == n) return y;
        return b.concatenate(
            {{y, b.zeros(hlo::array_type_or_die(form.compute, Dims{form.count, each - n, m}))}}, 1);
      },
      matrices);
  p.set_matrices(matrices);
  return flags;
}

}  // namespace lamina::jit::cuda
