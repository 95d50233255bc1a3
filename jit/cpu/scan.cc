// Scans whose body works element by element: every element runs its own recurrence, so the steps of a block
// of elements follow each other without leaving the caches. Running sums and the like (carry and output are
// the same combination) have loops of their own.
#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "hlo/attributes.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/region.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Computation;
using hlo::DType;
using hlo::Node;
using hlo::Op;

// Elements whose steps follow each other.
constexpr int64_t kBlock = 512;
// Longer bodies run faster as a program of compiled kernels.
constexpr size_t kMaxInstructions = 8;
// Element steps between two looks at the cancel flag.
constexpr int64_t kPollEvery = 16 * 1024;

// The body as a program on one element of every array; absent unless all arrays have one shape and every op
// works element by element or spreads a constant.
std::optional<hlo::ScalarProgram> element_program(const Computation& body) {
  if (body.parameters().empty()) return std::nullopt;
  const hlo::Dims& dims = body.parameters()[0].type()->dims;
  std::vector<DType> inputs;
  for (const hlo::Value& p : body.parameters()) {
    if (!p.type()->is_array() || p.type()->dims != dims) return std::nullopt;
    inputs.insert(inputs.end(), hlo::num_parts(p.dtype()), hlo::part_type(p.dtype()));
  }
  hlo::ScalarRecorder recorder(inputs);
  absl::flat_hash_map<const Node*, std::vector<hlo::Scalar>> parts;
  int next = 0;
  for (const hlo::Value& p : body.parameters())
    for (int i = 0; i < hlo::num_parts(p.dtype()); ++i) parts[p.node()].push_back(recorder.input(next++));
  for (const Node* n : body.nodes()) {
    if (parts.contains(n)) continue;
    if (!n->type()->is_array()) return std::nullopt;
    const bool is_uniform = n->type()->is_scalar();  // made of constants only, if arrays have dimensions
    if (n->op() == Op::constant) {
      const hlo::Literal& literal = *n->attrs().literal(Attr::value);
      if (!literal.is_splat() || !(is_uniform || n->type()->dims == dims)) return std::nullopt;
      const DType part = hlo::part_type(literal.dtype());
      for (int i = 0; i < hlo::num_parts(literal.dtype()); ++i) {
        uint64_t bits = 0;
        std::memcpy(&bits, literal.element(0) + i * hlo::byte_size(part), hlo::byte_size(part));
        parts[n].push_back(recorder.constant_bits(part, bits));
      }
      continue;
    }
    if (!is_uniform && n->type()->dims != dims) return std::nullopt;
    if (n->op() == Op::broadcast_in_dim && n->operand_type(0)->is_scalar()) {
      std::vector<hlo::Scalar> same = parts.at(n->operand(0).node());
      parts[n] = std::move(same);
      continue;
    }
    if (!n->def().is_elementwise()) return std::nullopt;
    std::vector<hlo::Scalar> args;
    for (size_t i = 0; i < n->operands().size(); ++i) {
      if (n->operand_type(i)->dims != n->type()->dims) return std::nullopt;
      for (const hlo::Scalar& s : parts.at(n->operand(i).node())) args.push_back(s);
    }
    parts[n] = recorder.inline_program(hlo::scalar_program(*n), args);
  }
  std::vector<hlo::Scalar> outputs;
  for (const hlo::Value& r : body.roots()) {
    if (r.type()->dims != dims) return std::nullopt;
    for (const hlo::Scalar& s : parts.at(r.node())) outputs.push_back(s);
  }
  return recorder.finish(outputs);
}

struct ElementScan {
  Region body;
  PrefixCombine prefix = nullptr;  // body: (c, x) -> (f(c, x), f(c, x))
  RowCombine combine = nullptr;    // that f on rows
  std::vector<int64_t> widths, out_widths;
  int64_t carries, length, elements;
  bool reverse;

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    const int64_t tasks = (elements + kBlock - 1) / kBlock;
    std::vector<absl::Status> statuses(tasks);
    context.parallel(tasks, [&](int64_t t) {
      const int64_t begin = t * kBlock, n = std::min(kBlock, elements - begin);
      statuses[t] = combine ? run_prefix(in, out, begin, n, context) : run_block(in, out, begin, n, context);
    });
    for (const absl::Status& s : statuses)
      if (!s.ok()) return s;
    return absl::OkStatus();
  }

  static absl::Status cancelled() { return absl::CancelledError("the run was cancelled"); }

  absl::Status run_prefix(const void* const* in, void* const* out, int64_t begin, int64_t n,
                          const KernelContext& context) const {
    const int64_t width = widths[0], row = elements * width;
    const std::byte* const x = static_cast<const std::byte*>(in[1]) + begin * width;
    std::byte* const y = static_cast<std::byte*>(out[1]) + begin * width;
    std::byte* const carry = static_cast<std::byte*>(out[0]) + begin * width;
    std::memcpy(carry, static_cast<const std::byte*>(in[0]) + begin * width, n * width);
    if (elements == 1) {
      for (int64_t done = 0; done < length; done += kPollEvery) {
        if (context.cancelled()) return cancelled();
        const int64_t count = std::min(kPollEvery, length - done);
        const int64_t at = (reverse ? length - 1 - done : done) * width;
        prefix(carry, x + at, y + at, reverse ? -1 : 1, count);
      }
      return absl::OkStatus();
    }
    const std::byte* last = carry;
    for (int64_t step = 0; step < length; ++step) {
      if (step % (kPollEvery / kBlock) == 0 && context.cancelled()) return cancelled();
      const int64_t at = (reverse ? length - 1 - step : step) * row;
      std::memcpy(y + at, last, n * width);
      combine(y + at, x + at, 1, n);
      last = y + at;
    }
    if (last != carry) std::memcpy(carry, last, n * width);
    return absl::OkStatus();
  }

  absl::Status run_block(const void* const* in, void* const* out, int64_t begin, int64_t n,
                         const KernelContext& context) const {
    Region::Scratch scratch(body);
    std::vector<const void*> args(widths.size());
    std::vector<void*> results(out_widths.size());
    for (int64_t c = 0; c < carries; ++c) {
      results[c] = static_cast<std::byte*>(out[c]) + begin * widths[c];
      std::memcpy(results[c], static_cast<const std::byte*>(in[c]) + begin * widths[c], n * widths[c]);
      args[c] = results[c];
    }
    const int64_t poll = std::max<int64_t>(kPollEvery / n, 1);
    for (int64_t step = 0; step < length; ++step) {
      if (step % poll == 0 && context.cancelled()) return cancelled();
      const int64_t at = (reverse ? length - 1 - step : step) * elements + begin;
      for (size_t i = carries; i < widths.size(); ++i)
        args[i] = static_cast<const std::byte*>(in[i]) + at * widths[i];
      for (size_t i = carries; i < out_widths.size(); ++i)
        results[i] = static_cast<std::byte*>(out[i]) + at * out_widths[i];
      if (absl::Status s = body.run(scratch, args, results, n); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
};

}  // namespace

NativeOp make_scan(const Node& n) {
  const hlo::ComputationPtr& body = n.attrs().computation(Attr::body);
  std::optional<hlo::ScalarProgram> program = element_program(*body);
  if (!program) return {};
  size_t instructions = 0;
  for (const hlo::ScalarInstr& i : program->code) instructions += i.prim != hlo::Prim::constant;
  const std::span<const hlo::Value> parameters = body->parameters(), roots = body->roots();
  const int64_t carries = n.attrs().integer(Attr::num_carry);
  const DType type = parameters[0].dtype();
  CombineKind kind = CombineKind::kOther;
  if (carries == 1 && parameters.size() == 2 && roots.size() == 2 && roots[0] == roots[1])
    kind = combine_kind(parameters[0], parameters[1], roots[0]);
  ElementScan s{.body = Region(body, std::move(program)),
                .widths = {},
                .out_widths = {},
                .carries = carries,
                .length = n.attrs().integer(Attr::length),
                .elements = parameters[0].type()->num_elements,
                .reverse = n.attrs().flag(Attr::reverse)};
  s.combine = row_combine(kind, type);
  s.prefix = prefix_combine(kind, type);
  if (!s.combine && instructions > kMaxInstructions) return {};
  for (const hlo::Value& p : parameters) s.widths.push_back(hlo::byte_size(p.dtype()));
  for (const hlo::Value& r : roots) s.out_widths.push_back(hlo::byte_size(r.dtype()));
  NativeOp op;
  op.what = str_cat(s.length, " steps of ", s.elements, " elements, ", s.combine ? "prefix" : "region");
  op.run = [s = std::move(s)](const void* const* in, void* const* out, const KernelContext& context) {
    return s.run(in, out, context);
  };
  return op;
}

}  // namespace lamina::jit
