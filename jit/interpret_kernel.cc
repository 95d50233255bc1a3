// The interpreting tier: the body runs over blocks of up to kBlock elements of one row; maximal runs of
// primitives go to hlo::interpret as scalar programs.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop_kernel.h"

namespace lamina::jit {
namespace {

constexpr int64_t kBlock = 256;

using Bytes = std::vector<uint64_t>;  // 8-byte aligned storage

int64_t size_of(DType t) { return hlo::byte_size(t); }

Bytes bytes_for(int64_t bytes) { return Bytes(static_cast<size_t>((bytes + 7) / 8)); }
char* data(Bytes& b) { return reinterpret_cast<char*>(b.data()); }

// dst[i] = src[i * stride] for elements of `size` bytes.
template <class T>
void gather(char* dst, const char* src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(dst + i * sizeof(T), src + i * stride * static_cast<int64_t>(sizeof(T)), sizeof(T));
}
template <class T>
void scatter(char* dst, const char* src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(dst + i * stride * static_cast<int64_t>(sizeof(T)), src + i * sizeof(T), sizeof(T));
}

void gather(char* dst, const char* src, int64_t stride, int64_t n, int64_t size) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n * size));
    return;
  }
  switch (size) {
    case 1:
      return gather<uint8_t>(dst, src, stride, n);
    case 2:
      return gather<uint16_t>(dst, src, stride, n);
    case 4:
      return gather<uint32_t>(dst, src, stride, n);
    default:
      return gather<uint64_t>(dst, src, stride, n);
  }
}

void scatter(char* dst, const char* src, int64_t stride, int64_t n, int64_t size) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n * size));
    return;
  }
  switch (size) {
    case 1:
      return scatter<uint8_t>(dst, src, stride, n);
    case 2:
      return scatter<uint16_t>(dst, src, stride, n);
    case 4:
      return scatter<uint32_t>(dst, src, stride, n);
    default:
      return scatter<uint64_t>(dst, src, stride, n);
  }
}

// A section cut into instructions that the interpreter does itself and runs of primitives.
struct Step {
  int32_t instr = -1;                     // not a run
  hlo::ScalarProgram program;             // a run
  std::vector<uint32_t> inputs, outputs;  // section values
  std::optional<hlo::PreparedProgram> prepared = {};
};

std::vector<Step> make_steps(const std::vector<KernelInstr>& section) {
  std::vector<Step> steps;
  for (size_t i = 0; i < section.size();) {
    if (section[i].op != KernelOp::kPrim) {
      steps.push_back({static_cast<int32_t>(i), {}, {}, {}, {}});
      ++i;
      continue;
    }
    size_t end = i;
    while (end < section.size() && section[end].op == KernelOp::kPrim) ++end;
    Step step;
    for (size_t k = i; k < end; ++k)
      for (int o = 0; o < hlo::prim_arity(section[k].prim); ++o) {
        const uint32_t operand = section[k].operands[o];
        if (operand < i && std::find(step.inputs.begin(), step.inputs.end(), operand) == step.inputs.end())
          step.inputs.push_back(operand);
      }
    for (uint32_t input : step.inputs) step.program.inputs.push_back(section[input].type);
    auto renumber = [&](uint32_t operand) {
      if (operand >= i) return static_cast<uint32_t>(step.inputs.size() + operand - i);
      return static_cast<uint32_t>(std::find(step.inputs.begin(), step.inputs.end(), operand) -
                                   step.inputs.begin());
    };
    for (size_t k = i; k < end; ++k) {
      hlo::ScalarInstr instr;
      instr.prim = section[k].prim;
      instr.type = section[k].type;
      instr.imm = section[k].imm;
      for (int o = 0; o < hlo::prim_arity(instr.prim); ++o)
        instr.operands[o] = renumber(section[k].operands[o]);
      step.program.code.push_back(instr);
      step.program.outputs.push_back(static_cast<uint32_t>(step.inputs.size() + k - i));
      step.outputs.push_back(static_cast<uint32_t>(k));
    }
    steps.push_back(std::move(step));
    i = end;
  }
  return steps;
}

// Keeps as outputs of each run only what something outside it reads.
void trim_outputs(std::vector<Step>& steps, const std::vector<KernelInstr>& section,
                  const std::vector<uint32_t>& results) {
  std::vector<bool> read(section.size(), false);
  for (uint32_t r : results) read[r] = true;
  for (const Step& step : steps) {
    for (uint32_t input : step.inputs) read[input] = true;
    if (step.instr < 0) continue;
    const KernelInstr& instr = section[step.instr];
    const int count = instr.op == KernelOp::kLoad     ? instr.predicated
                      : instr.op == KernelOp::kLoadAt ? 1 + instr.predicated
                                                      : 0;
    for (int k = 0; k < count; ++k) read[instr.operands[k]] = true;
  }
  for (Step& step : steps) {
    std::vector<uint32_t> outputs, program_outputs;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (!read[step.outputs[i]]) continue;
      outputs.push_back(step.outputs[i]);
      program_outputs.push_back(step.program.outputs[i]);
    }
    step.outputs = std::move(outputs);
    step.program.outputs = std::move(program_outputs);
    if (step.instr < 0) step.prepared.emplace(step.program);
  }
}

}  // namespace

struct KernelInterpreter::Plan {
  LoopKernel kernel;
  std::vector<Step> body, epilogue;
  std::optional<hlo::PreparedProgram> combine;  // with a reduction
  bool along = true;
  int64_t lanes = 0;  // of the reduction tree
};

namespace {

// One run over one range; owns the block buffers.
template <class PlanType>
class Run {
 public:
  Run(const PlanType& plan, void* const* buffers, const int64_t* args, const int32_t* cancel)
      : plan_(plan), k_(plan.kernel), buffers_(buffers), args_(args), cancel_(cancel) {
    body_.resize(k_.body.size());
    for (size_t i = 0; i < body_.size(); ++i) body_[i] = bytes_for(kBlock * size_of(k_.body[i].type));
    epilogue_.resize(k_.epilogue.size());
    for (size_t i = 0; i < epilogue_.size(); ++i)
      epilogue_[i] = bytes_for(kBlock * size_of(k_.epilogue[i].type));
    index_.assign(k_.parallel_rank + k_.reduce_rank, 0);
    body_scratch_.resize(plan.body.size());
    epilogue_scratch_.resize(plan.epilogue.size());
    if (!k_.has_reduction) return;
    for (size_t v = 0; v < k_.reduction.inputs.size(); ++v) {
      const int64_t size = size_of(type(v));
      for (auto& level : levels_) level.push_back(bytes_for(plan.lanes * columns() * size));
      result_.push_back(bytes_for(kBlock * size));
      init_.push_back(bytes_for(kBlock * size));
    }
  }

  int32_t run(int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end) {
    const int rank = k_.parallel_rank;
    const int64_t step = k_.has_reduction && plan_.along ? 1 : kBlock;
    for (int64_t outer = outer_begin; outer < outer_end; ++outer) {
      decompose(outer, 0, rank - 1);
      for (int64_t inner = inner_begin; inner < inner_end; inner += step) {
        if (cancelled()) return 1;
        if (rank > 0) index_[rank - 1] = inner;
        const int64_t n = std::min(step, inner_end - inner);
        if (!k_.has_reduction) {
          run_section(plan_.body, k_.body, body_, body_scratch_, rank - 1, n);
          run_stores(body_, rank - 1, n);
        } else if (!reduce(n)) {
          return 1;
        }
      }
    }
    return 0;
  }

 private:
  using Scratch = hlo::PreparedProgram::Scratch;

  DType type(size_t v) const { return k_.reduction.combine.inputs[v]; }
  int64_t columns() const { return plan_.along ? 1 : kBlock; }
  bool cancelled() const { return __atomic_load_n(cancel_, __ATOMIC_RELAXED) != 0; }

  void decompose(int64_t linear, int first, int count) {
    for (int d = count - 1; d > 0; --d) {
      const int64_t extent = std::max<int64_t>(args_[first + d], 1);
      index_[first + d] = linear % extent;
      linear /= extent;
    }
    if (count > 0) index_[first] = linear;
  }

  // Address of an access at the current index, and its stride along `dim`.
  char* address(const Access& access, int dim, int64_t* stride) const {
    int64_t position = access.offset_slot < 0 ? 0 : args_[access.offset_slot];
    *stride = 0;
    for (const AccessTerm& t : access.terms) {
      const int64_t s = t.unit ? t.unit : args_[t.stride_slot];
      position += index_[t.dim] * s;
      if (t.dim == dim) *stride += s;
    }
    return static_cast<char*>(buffers_[access.buffer]) + position * size_of(k_.buffers[access.buffer].type);
  }

  void load(const Access& access, int dim, int64_t n, const char* predicate, char* out) const {
    const int64_t size = size_of(k_.buffers[access.buffer].type);
    int64_t stride;
    const char* from = address(access, dim, &stride);
    if (!predicate) return gather(out, from, stride, n, size);
    for (int64_t i = 0; i < n; ++i) {
      if (predicate[i])
        std::memcpy(out + i * size, from + i * stride * size, static_cast<size_t>(size));
      else
        std::memset(out + i * size, 0, static_cast<size_t>(size));
    }
  }

  // Values of the section for n elements along `dim` from the current index.
  void run_section(const std::vector<Step>& steps, const std::vector<KernelInstr>& section,
                   std::vector<Bytes>& values, std::vector<Scratch>& scratch, int dim, int64_t n) {
    for (size_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      if (step.instr < 0) {
        in_.clear();
        out_.clear();
        for (uint32_t v : step.inputs) in_.push_back(values[v].data());
        for (uint32_t v : step.outputs) out_.push_back(values[v].data());
        step.prepared->run(in_, out_, n, scratch[s]);
        continue;
      }
      const KernelInstr& instr = section[step.instr];
      char* out = data(values[step.instr]);
      switch (instr.op) {
        case KernelOp::kLoad:
          load(k_.accesses[instr.imm], dim, n, instr.predicated ? data(values[instr.operands[0]]) : nullptr,
               out);
          break;
        case KernelOp::kLoadAt:
          load_at(instr, values, n, out);
          break;
        case KernelOp::kIndex: {
          auto* to = reinterpret_cast<int64_t*>(out);
          const int64_t step_by = static_cast<int>(instr.imm) == dim ? 1 : 0;
          for (int64_t i = 0; i < n; ++i) to[i] = index_[instr.imm] + i * step_by;
          break;
        }
        case KernelOp::kArg:
          std::fill_n(reinterpret_cast<int64_t*>(out), n, args_[instr.imm]);
          break;
        case KernelOp::kReduced:
          std::memcpy(out, result_[instr.imm].data(), static_cast<size_t>(n * size_of(instr.type)));
          break;
        case KernelOp::kPrim:
          break;
      }
    }
  }

  void load_at(const KernelInstr& instr, std::vector<Bytes>& values, int64_t n, char* out) const {
    const int64_t size = size_of(instr.type);
    const auto* positions = reinterpret_cast<const int64_t*>(values[instr.operands[0]].data());
    const char* predicate = instr.predicated ? data(values[instr.operands[1]]) : nullptr;
    const char* from = static_cast<const char*>(buffers_[instr.imm]);
    for (int64_t i = 0; i < n; ++i) {
      if (!predicate || predicate[i])
        std::memcpy(out + i * size, from + positions[i] * size, static_cast<size_t>(size));
      else
        std::memset(out + i * size, 0, static_cast<size_t>(size));
    }
  }

  void run_stores(std::vector<Bytes>& values, int dim, int64_t n) {
    for (const Store& s : k_.stores) {
      const Access& access = k_.accesses[s.access];
      int64_t stride;
      char* to = address(access, dim, &stride);
      scatter(to, data(values[s.value]), stride, n, size_of(k_.buffers[access.buffer].type));
    }
  }

  // ---- the tree

  using Level = std::vector<Bytes>;  // per reduced value: lanes x columns()

  char* at(Level& level, size_t v, int64_t lane) {
    return data(level[v]) + lane * columns() * size_of(type(v));
  }

  // into[v] = combine(into[v], from[v]) over n contiguous elements, or a copy.
  void enter(const std::vector<char*>& into, const std::vector<char*>& from, int64_t n, bool copy) {
    const size_t m = into.size();
    if (copy) {
      for (size_t v = 0; v < m; ++v) std::memcpy(into[v], from[v], static_cast<size_t>(n * size_of(type(v))));
      return;
    }
    in_.assign(into.begin(), into.end());
    in_.insert(in_.end(), from.begin(), from.end());
    // Outputs may be read as inputs of other values, so they go to scratch first.
    scratch_.resize(m);
    out_.clear();
    for (size_t v = 0; v < m; ++v) {
      const size_t words = static_cast<size_t>((n * size_of(type(v)) + 7) / 8);
      if (scratch_[v].size() < words) scratch_[v].resize(words);
      out_.push_back(scratch_[v].data());
    }
    plan_.combine->run(in_, out_, n, combine_scratch_);
    for (size_t v = 0; v < m; ++v)
      std::memcpy(into[v], scratch_[v].data(), static_cast<size_t>(n * size_of(type(v))));
  }

  std::vector<char*> lane_pointers(Level& level, int64_t lane) {
    std::vector<char*> result;
    for (size_t v = 0; v < level.size(); ++v) result.push_back(at(level, v, lane));
    return result;
  }

  // Lanes 0 ... count-1 of n columns each fold into lane 0.
  void fold(Level& level, int64_t count, int64_t n) {
    count = std::min(count, plan_.lanes);
    for (int64_t s = plan_.lanes / 2; s > 0; s /= 2) {
      const int64_t pairs = std::min(s, count - s);
      if (pairs <= 0) continue;
      if (plan_.along)
        enter(lane_pointers(level, 0), lane_pointers(level, s), pairs, false);
      else
        for (int64_t j = 0; j < pairs; ++j)
          enter(lane_pointers(level, j), lane_pointers(level, j + s), n, false);
    }
  }

  void push(Level& to, int64_t position, Level& from, int64_t n) {
    enter(lane_pointers(to, position % plan_.lanes), lane_pointers(from, 0), n, position < plan_.lanes);
  }

  // Reduces for n output elements from the current parallel index on, runs the epilogue and stores.
  bool reduce(int64_t n) {
    const int rank = k_.parallel_rank;
    int64_t total = 1;
    for (int d = 0; d < k_.reduce_rank; ++d) total *= args_[rank + d];
    const int64_t chunks = (total + kReduceChunk - 1) / kReduceChunk;
    for (int64_t c = 0; c < chunks; ++c) {
      if (cancelled()) return false;
      const int64_t start = c * kReduceChunk;
      const int64_t count = std::min(total - start, kReduceChunk);
      if (!(plan_.along ? along_chunk(start, count) : across_chunk(start, count, n))) return false;
      fold(levels_[0], count, n);
      if (chunks == 1) continue;
      const int64_t position = c % kReduceChunk;
      push(levels_[1], position, levels_[0], n);
      if (position + 1 == kReduceChunk || c + 1 == chunks) {
        fold(levels_[1], position + 1, n);
        push(levels_[2], c / kReduceChunk, levels_[1], n);
      }
    }
    if (chunks > 1) fold(levels_[2], (chunks + kReduceChunk - 1) / kReduceChunk, n);
    const int dim = plan_.along ? -1 : rank - 1;
    std::vector<char*> results, inits;
    for (size_t v = 0; v < result_.size(); ++v) {
      load(k_.accesses[k_.reduction.init[v]], dim, n, nullptr, data(init_[v]));
      results.push_back(data(result_[v]));
      inits.push_back(data(init_[v]));
    }
    enter(results, total == 0 ? inits : lane_pointers(levels_[chunks > 1 ? 2 : 0], 0), n, true);
    if (total > 0) enter(results, inits, n, false);
    run_section(plan_.epilogue, k_.epilogue, epilogue_, epilogue_scratch_, dim, n);
    run_stores(epilogue_, dim, n);
    return true;
  }

  bool along_chunk(int64_t start, int64_t count) {
    const int first = k_.parallel_rank;
    const int last = first + k_.reduce_rank - 1;
    for (int64_t e = 0; e < count;) {
      const int64_t linear = start + e;
      decompose(linear / args_[last], first, k_.reduce_rank - 1);
      index_[last] = linear % args_[last];
      const int64_t n =
          std::min({args_[last] - index_[last], count - e, plan_.lanes - e % plan_.lanes, kBlock});
      run_section(plan_.body, k_.body, body_, body_scratch_, last, n);
      enter(lane_pointers(levels_[0], e % plan_.lanes), body_elements(), n, e < plan_.lanes);
      e += n;
    }
    return true;
  }

  bool across_chunk(int64_t start, int64_t count, int64_t n) {
    for (int64_t e = 0; e < count; ++e) {
      if (cancelled()) return false;
      decompose(start + e, k_.parallel_rank, k_.reduce_rank);
      run_section(plan_.body, k_.body, body_, body_scratch_, k_.parallel_rank - 1, n);
      enter(lane_pointers(levels_[0], e % plan_.lanes), body_elements(), n, e < plan_.lanes);
    }
    return true;
  }

  std::vector<char*> body_elements() {
    std::vector<char*> result;
    for (uint32_t id : k_.reduction.inputs) result.push_back(data(body_[id]));
    return result;
  }

  const PlanType& plan_;
  const LoopKernel& k_;
  void* const* buffers_;
  const int64_t* args_;
  const int32_t* cancel_;
  std::vector<Bytes> body_, epilogue_, result_, init_, scratch_;
  std::vector<Scratch> body_scratch_, epilogue_scratch_;  // per step
  Scratch combine_scratch_;
  std::vector<int64_t> index_;
  Level levels_[3];
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

KernelInterpreter::KernelInterpreter(const LoopKernel& kernel) {
  auto plan = std::make_unique<Plan>();
  plan->kernel = kernel;
  plan->body = make_steps(kernel.body);
  plan->epilogue = make_steps(kernel.epilogue);
  std::vector<uint32_t> stored;
  for (const Store& s : kernel.stores) stored.push_back(s.value);
  trim_outputs(plan->body, kernel.body, kernel.has_reduction ? kernel.reduction.inputs : stored);
  trim_outputs(plan->epilogue, kernel.epilogue, kernel.has_reduction ? stored : std::vector<uint32_t>());
  plan->along = kernel.parallel_rank == 0 || kernel.reduction.form == ReduceForm::kAlongReduced;
  int64_t widest = 1;
  for (DType t : kernel.reduction.combine.inputs) widest = std::max(widest, size_of(t));
  plan->lanes = kReduceLaneBytes / widest;
  if (kernel.has_reduction) plan->combine.emplace(kernel.reduction.combine);
  plan_ = std::move(plan);
}

KernelInterpreter::~KernelInterpreter() = default;
KernelInterpreter::KernelInterpreter(KernelInterpreter&&) noexcept = default;
KernelInterpreter& KernelInterpreter::operator=(KernelInterpreter&&) noexcept = default;

int32_t KernelInterpreter::run(void* const* buffers, const int64_t* args, int64_t outer_begin,
                               int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                               const int32_t* cancel) const {
  Run<Plan> run(*plan_, buffers, args, cancel);
  return run.run(outer_begin, outer_end, inner_begin, inner_end);
}

int32_t interpret_kernel(const LoopKernel& kernel, void* const* buffers, const int64_t* args,
                         int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                         const int32_t* cancel) {
  return KernelInterpreter(kernel).run(buffers, args, outer_begin, outer_end, inner_begin, inner_end, cancel);
}

}  // namespace lamina::jit
