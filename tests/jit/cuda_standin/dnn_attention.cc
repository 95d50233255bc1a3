// Attention of the stand-in for cuDNN: what the library takes of graphs of operations, and plain loops. Where
// the library was seen to crash (features that do not lie side by side, masks of bools in memory) is a
// violation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hlo/half.h"
#include "hlo/narrow.h"
#include "hlo/strings.h"
#include "tests/jit/cuda_standin/dnn_descriptor.h"

namespace standins {
namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using enum DnnAttribute;

hlo::DType dtype_of(DnnType t) {
  return t == DnnType::kF16 ? hlo::DType::kF16 : (t == DnnType::kBF16 ? hlo::DType::kBF16 : hlo::DType::kF32);
}
bool is_half(DnnType t) { return t == DnnType::kF16 || t == DnnType::kBF16; }

// Goes through the operations in their order, each of which takes what the one before it made.
class Reader {
 public:
  explicit Reader(std::span<const DnnDescriptor> operations) : operations_(operations) {}

  bool is_at(DnnPointwise mode) const {
    return next_ < operations_.size() && operations_[next_]->kind == DnnKind::kPointwiseOperation &&
           mode_of(*operations_[next_]) == mode;
  }
  DnnTensor at(DnnAttribute attribute) const {
    const auto* const d = operations_[next_];
    return d->has(attribute) ? tensor_of(d->one<DnnDescriptor>(attribute)) : DnnTensor();
  }
  // The operands' numbers, and that between operations which it makes, in f32 or another type.
  int64_t product() { return made(DnnKind::kProductOperation, kProductHow, kProductType, kProductC); }
  int64_t reduce(DnnReduction mode, int64_t of) {
    expect(next_ < operations_.size() && operations_[next_]->kind == DnnKind::kReductionOperation &&
               operations_[next_]
                       ->one<DnnDescriptor>(kReductionHow)
                       ->one<DnnReduction>(DnnAttribute::kReductionMode) == mode &&
               at(kReductionX).id == of,
           "a reduction of something else");
    return made(DnnKind::kReductionOperation, kReductionHow, kReductionType, kReductionY, {}, true);
  }
  // 0: none; -1: any.
  int64_t pointwise(DnnPointwise mode, int64_t x, int64_t b, std::vector<DnnType> types = {}) {
    expect(is_at(mode) && at(kPointwiseX).id == x && (b < 0 || at(kPointwiseB).id == b),
           "an elementwise operation of something else");
    const bool is_each = mode == DnnPointwise::kLogarithm || (is_ok() && at(kPointwiseX).dims[3] == 1 &&
                                                              x > 0 && b > 0 && mode == DnnPointwise::kAdd);
    return made(DnnKind::kPointwiseOperation, kPointwiseHow, kPointwiseType, kPointwiseY, std::move(types),
                is_each);
  }
  int64_t axis() const {
    const auto* const how = operations_[next_]->one<DnnDescriptor>(kPointwiseHow);
    return how->has(kPointwiseAxis) ? how->one<int64_t>(kPointwiseAxis) : -1;
  }

  void expect(bool holds, const char* otherwise) {
    if (!holds && !why_) why_ = otherwise;
  }
  void expect_end() { expect(next_ == operations_.size(), "operations behind the last product"); }
  void set_scores(std::vector<int64_t> dims) { scores_ = std::move(dims); }
  bool is_ok() const { return !why_; }
  const char* why() const { return why_; }

 private:
  static DnnPointwise mode_of(const OpaqueDnnDescriptor& operation) {
    return operation.one<DnnDescriptor>(kPointwiseHow)->one<DnnPointwise>(DnnAttribute::kPointwiseMode);
  }
  int64_t made(DnnKind kind, DnnAttribute how, DnnAttribute type, DnnAttribute result,
               std::vector<DnnType> types = {}, bool is_each = false) {
    expect(next_ < operations_.size() && operations_[next_]->kind == kind, "another operation");
    if (!is_ok()) return 0;
    expect(operations_[next_]->one<DnnDescriptor>(how)->one<DnnType>(type) == DnnType::kF32,
           "an operation that is not in f32");
    const DnnTensor out = at(result);
    std::vector<int64_t> dims = scores_;
    if (is_each && !dims.empty()) dims[3] = 1;
    if (types.empty()) types = {DnnType::kF32};
    if (!scores_.empty() && out.is_virtual) {
      expect(out.dims == dims, "scores of another shape");
      expect(std::find(types.begin(), types.end(), out.type) != types.end(), "scores of another type");
    }
    ++next_;
    return out.id;
  }

  const std::span<const DnnDescriptor> operations_;
  size_t next_ = 0;
  std::vector<int64_t> scores_;
  const char* why_ = nullptr;
};

}  // namespace

std::shared_ptr<const DnnAttention> DnnAttention::of(std::span<const DnnDescriptor> operations) {
  auto out = std::make_shared<DnnAttention>();
  DnnAttention& a = *out;
  Reader read(operations);
  read.expect(operations[0]->kind == DnnKind::kProductOperation,
              "a graph that does not begin with a product");
  if (read.is_ok()) {
    a.query_ = read.at(kProductA);
    a.key_ = read.at(kProductB);
    const DnnTensor scores = read.at(kProductC);
    const auto &q = a.query_.dims, &k = a.key_.dims;
    read.expect(q.size() == 4 && k.size() == 4 && q[0] == k[0] && q[1] % k[1] == 0 && q[3] == k[2],
                "queries and keys that do not go together");
    read.expect(scores.is_virtual, "scores in memory");
    if (read.is_ok()) read.set_scores({q[0], q[1], q[2], k[3]});
  }
  int64_t at = read.product();
  if (read.is_ok() && read.is_at(DnnPointwise::kMultiply)) {
    a.scale_ = read.at(kPointwiseB);
    read.expect(a.scale_.elements() == 1 && a.scale_.type == DnnType::kF32, "a scale that is no number");
    at = read.pointwise(DnnPointwise::kMultiply, at, -1);
  }
  if (read.is_ok() && read.is_at(DnnPointwise::kAdd)) {
    a.bias_ = read.at(kPointwiseB);
    read.expect(!a.bias_.is_virtual && !a.bias_.by_value && a.bias_.dims.size() == 4, "a bias in no memory");
    at = read.pointwise(DnnPointwise::kAdd, at, -1);
  }
  if (read.is_ok() && read.is_at(DnnPointwise::kIndex)) {
    const std::vector<DnnType> places{DnnType::kS32, DnnType::kF32}, truths{DnnType::kPred};
    read.expect(read.axis() == 2, "an index along another dimension");
    const int64_t row = read.pointwise(DnnPointwise::kIndex, at, 0, places);
    read.expect(read.is_ok() && read.is_at(DnnPointwise::kIndex) && read.axis() == 3,
                "an index along another dimension");
    const int64_t column = read.pointwise(DnnPointwise::kIndex, at, 0, places);
    const int64_t is_past = read.pointwise(DnnPointwise::kGreaterOrEqual, row, column, truths);
    if (read.is_ok()) {
      read.expect(read.is_at(DnnPointwise::kSelect) && read.at(kPointwiseChoice).id == is_past,
                  "a choice by something else");
      a.masked_ = read.at(kPointwiseB);
      read.expect(a.masked_.by_value && a.masked_.type == DnnType::kF32, "masked scores that are no number");
    }
    at = read.pointwise(DnnPointwise::kSelect, at, -1);
  } else if (read.is_ok() && read.is_at(DnnPointwise::kSelect)) {
    violation("attention with a mask in memory");
  }
  const int64_t most = read.reduce(DnnReduction::kMaximum, at);
  const int64_t below = read.pointwise(DnnPointwise::kSubtract, at, most);
  const int64_t terms = read.pointwise(DnnPointwise::kExponential, below, 0);
  const int64_t sums = read.reduce(DnnReduction::kAdd, terms);
  const int64_t logs = read.pointwise(DnnPointwise::kLogarithm, sums, 0);
  read.pointwise(DnnPointwise::kAdd, most, logs);
  const int64_t probabilities = read.pointwise(DnnPointwise::kDivide, terms, sums, {a.query_.type});
  if (read.is_ok() && operations.back()->kind == DnnKind::kProductOperation) {
    read.expect(read.at(kProductA).id == probabilities, "a product of something else");
    a.value_ = read.at(kProductB);
    a.result_ = read.at(kProductC);
    const auto &k = a.key_.dims, &v = a.value_.dims, &o = a.result_.dims, &q = a.query_.dims;
    read.expect(v.size() == 4 && o.size() == 4 && v[0] == k[0] && v[1] == k[1] && v[2] == k[3] &&
                    o == std::vector<int64_t>{q[0], q[1], q[2], v[3]},
                "values that do not go with the keys");
  }
  read.product();
  read.expect_end();
  if (!read.is_ok()) {
    refused(DnnStatus::kBadParam, read.why());
    return nullptr;
  }
  return out;
}

bool DnnAttention::is_taken() const {
  const auto lies_side_by_side = [](const DnnTensor& t, size_t d) { return t.strides[d] == 1; };
  if (!lies_side_by_side(query_, 3) || !lies_side_by_side(key_, 2) || !lies_side_by_side(value_, 3) ||
      !lies_side_by_side(result_, 3) || (bias_.id != 0 && !lies_side_by_side(bias_, 3)))
    violation("attention of arrays whose features do not lie side by side");
  for (const DnnTensor* t : {&query_, &key_, &value_, &result_})
    if (t->is_virtual || t->by_value || t->type != query_.type || !is_half(t->type)) return false;
  if (bias_.id != 0 && bias_.type != DnnType::kF32 && bias_.type != query_.type) return false;
  return query_.dims[3] % 8 == 0 && value_.dims[3] % 8 == 0;
}

int64_t DnnAttention::workspace_bytes() const {
  return query_.dims[0] * query_.dims[1] * query_.dims[2] * static_cast<int64_t>(sizeof(float)) + 3;
}

std::vector<DnnAttention::Array> DnnAttention::arrays() const {
  std::vector<Array> out{{&query_, false}, {&key_, false}, {&value_, false}, {&result_, true}};
  for (const DnnTensor* t : {&bias_, &scale_})
    if (t->id != 0 && !t->by_value) out.push_back({t, false});
  return out;
}
std::vector<const DnnTensor*> DnnAttention::numbers() const {
  std::vector<const DnnTensor*> out;
  for (const DnnTensor* t : {&scale_, &masked_})
    if (t->id != 0 && t->by_value) out.push_back(t);
  return out;
}

void DnnAttention::compute(const Memory& memory) const {
  const auto place = [](const DnnTensor& t, std::array<int64_t, 4> i) {
    int64_t out = 0;
    for (size_t d = 0; d < i.size(); ++d) {
      // Fewer heads of keys serve several of queries; what has an extent of 1 is for all.
      const int64_t own = t.dims[d] == 1 ? 0 : i[d];
      out += own * t.strides[d];
    }
    return out;
  };
  const auto number = [](const DnnTensor& t, const std::byte* at, int64_t i) {
    const hlo::DType type = dtype_of(t.type);
    return hlo::element_to_f32(type, at + i * hlo::byte_size(type));
  };
  const auto round = [&](float x) {
    return query_.type == DnnType::kF16 ? hlo::to_f32(hlo::to_f16(x)) : hlo::to_f32(hlo::to_bf16(x));
  };
  DnnTensor key = key_;
  if (made(kStandinMisreadsStrides)) {
    const auto& d = key.dims;
    key.strides = {d[1] * d[2] * d[3], d[2] * d[3], 1, d[2]};
  }
  float scale = 1, masked = 0;
  if (memory.scale && !made(kStandinForgetsScale)) std::memcpy(&scale, memory.scale, sizeof scale);
  if (memory.masked) std::memcpy(&masked, memory.masked, sizeof masked);
  const int64_t keys = key.dims[3], shared = query_.dims[1] / key.dims[1];
  std::vector<float> scores(static_cast<size_t>(keys));
  for (int64_t b = 0; b < query_.dims[0]; ++b)
    for (int64_t h = 0; h < query_.dims[1]; ++h)
      for (int64_t q = 0; q < query_.dims[2]; ++q) {
        float most = -std::numeric_limits<float>::infinity(), sum = 0;
        for (int64_t k = 0; k < keys; ++k) {
          float s = 0;
          for (int64_t d = 0; d < query_.dims[3]; ++d)
            s += number(query_, memory.query, place(query_, {b, h, q, d})) *
                 number(key, memory.key, place(key, {b, h / shared, d, k}));
          s *= scale;
          if (memory.bias) s += number(bias_, memory.bias, place(bias_, {b, h, q, k}));
          if (memory.masked && k > q) s = masked;
          scores[static_cast<size_t>(k)] = s;
          most = std::max(most, s);
        }
        for (float& s : scores) sum += s = std::exp(s - most);
        for (int64_t d = 0; d < value_.dims[3]; ++d) {
          float all = 0;
          for (int64_t k = 0; k < keys; ++k)
            all += round(scores[static_cast<size_t>(k)]) *
                   number(value_, memory.value, place(value_, {b, h / shared, k, d}));
          const int64_t to = place(result_, {b, h, q, d}) * 2;
          std::byte* const at = const_cast<std::byte*>(memory.result) + to;
          if (query_.type == DnnType::kF16)
            *reinterpret_cast<hlo::F16*>(at) = hlo::to_f16(all / sum);
          else
            *reinterpret_cast<hlo::BF16*>(at) = hlo::to_bf16(all / sum);
        }
      }
}

}  // namespace standins
