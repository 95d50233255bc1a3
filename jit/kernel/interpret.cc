// The interpreting tier: the body runs over blocks of up to kBlock elements of one row or of whole short
// rows; maximal runs of primitives go to hlo::interpret as scalar programs. A repeat runs all its steps for
// one block.
#include "jit/kernel/interpret.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "jit/kernel/schedule.h"

namespace lamina::jit {
namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kPollSteps = 1024;

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

// The lowest `size` (4 or 8) bytes of `bits`, n times.
void fill(int64_t bits, int64_t size, int64_t n, char* out) {
  if (size == 4)
    std::fill_n(reinterpret_cast<int32_t*>(out), n, static_cast<int32_t>(bits));
  else
    std::fill_n(reinterpret_cast<int64_t*>(out), n, bits);
}

// Of a section cut into instructions that the interpreter does itself and runs of primitives.
struct SectionPart {
  int32_t instr = -1;                     // not a run
  hlo::ScalarProgram program;             // a run
  std::vector<uint32_t> inputs, outputs;  // section values
  std::optional<hlo::PreparedProgram> prepared = {};
};

std::vector<SectionPart> parts_of(const std::vector<KernelInstr>& section) {
  constexpr uint32_t kUnseen = ~uint32_t{0}, kMade = kUnseen - 1;
  std::vector<SectionPart> parts;
  const auto alone = [&](size_t i) { parts.push_back({static_cast<int32_t>(i), {}, {}, {}, {}}); };
  // Arguments need nothing: ahead of everything, they cut no run.
  const auto is = [&](size_t i, KernelOp op) { return section[i].op == op; };
  for (size_t i = 0; i < section.size(); ++i)
    if (is(i, KernelOp::kArg)) alone(i);
  for (size_t i = 0; i < section.size();) {
    size_t end = i;
    SectionPart part;
    for (; end < section.size() && (is(end, KernelOp::kPrim) || is(end, KernelOp::kArg)); ++end)
      if (is(end, KernelOp::kPrim)) part.outputs.push_back(static_cast<uint32_t>(end));
    if (part.outputs.empty()) {
      if (end == i) alone(end++);
      i = end;
      continue;
    }
    // The run's own numbers: what it reads, then what it makes.
    std::vector<uint32_t> number(end, kUnseen);
    for (const uint32_t k : part.outputs) number[k] = kMade;
    for (const uint32_t k : part.outputs)
      for (int o = 0; o < hlo::prim_arity(section[k].prim); ++o) {
        const uint32_t operand = section[k].operands[o];
        if (number[operand] != kUnseen) continue;
        number[operand] = static_cast<uint32_t>(part.inputs.size());
        part.inputs.push_back(operand);
        part.program.inputs.push_back(section[operand].type);
      }
    for (size_t k = 0; k < part.outputs.size(); ++k)
      number[part.outputs[k]] = static_cast<uint32_t>(part.inputs.size() + k);
    for (const uint32_t k : part.outputs) {
      hlo::ScalarInstr instr;
      instr.prim = section[k].prim;
      instr.type = section[k].type;
      instr.imm = section[k].imm;
      for (int o = 0; o < hlo::prim_arity(instr.prim); ++o)
        instr.operands[o] = number[section[k].operands[o]];
      part.program.outputs.push_back(number[k]);
      part.program.code.push_back(instr);
    }
    parts.push_back(std::move(part));
    i = end;
  }
  return parts;
}

// Keeps as outputs of each run only what something outside it reads.
void trim_outputs(std::vector<SectionPart>& parts, const LoopKernel& kernel,
                  const std::vector<KernelInstr>& section, const std::vector<uint32_t>& results) {
  std::vector<bool> read(section.size(), false);
  for (uint32_t r : results) read[r] = true;
  for (const SectionPart& part : parts) {
    for (uint32_t input : part.inputs) read[input] = true;
    if (part.instr < 0) continue;
    for_each_operand(kernel, section[part.instr], [&](uint32_t v) { read[v] = true; });
  }
  for (SectionPart& part : parts) {
    std::vector<uint32_t> outputs, program_outputs;
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      if (!read[part.outputs[i]]) continue;
      outputs.push_back(part.outputs[i]);
      program_outputs.push_back(part.program.outputs[i]);
    }
    part.outputs = std::move(outputs);
    part.program.outputs = std::move(program_outputs);
    if (part.instr < 0) part.prepared.emplace(part.program);
  }
}

}  // namespace

struct KernelInterpreter::Prepared {
  struct RepeatSteps {
    std::vector<SectionPart> cond, body;
  };
  LoopKernel kernel;
  std::vector<SectionPart> body, epilogue;
  std::vector<RepeatSteps> repeats;
  std::optional<hlo::PreparedProgram> combine;  // with a reduction
  std::optional<hlo::PreparedProgram> before;   // of a sort
  bool asks = false;                            // see CancelQuestion
  int64_t lanes = 0;                            // of the reduction tree
};

namespace {

// One run over one range; owns the block buffers.
template <class PreparedType>
class RangeRun {
 public:
  RangeRun(const PreparedType& prepared, void* const* buffers, const int64_t* args, const int32_t* cancel,
           Handover* handover)
      : prepared_(prepared),
        k_(prepared.kernel),
        buffers_(buffers),
        args_(args),
        cancel_(cancel),
        handover_(handover),
        may_begin_again_(handover && begins_again(prepared.kernel, buffers)),
        along_(favoured_form(prepared.kernel, {args, prepared.kernel.num_args}) == ReduceForm::kAlongReduced),
        body_(k_.body, prepared.body),
        epilogue_(k_.epilogue, prepared.epilogue) {
    index_.assign(k_.parallel_rank + k_.reduce_rank + k_.repeats.size(), 0);
    for (size_t r = 0; r < k_.repeats.size(); ++r) {
      loops_.push_back({Section(k_.repeats[r].cond, prepared.repeats[r].cond),
                        Section(k_.repeats[r].body, prepared.repeats[r].body),
                        {},
                        {},
                        bytes_for(kBlock)});
      for (uint32_t v : k_.repeats[r].next) {
        loops_[r].carried.push_back(bytes_for(kBlock * size_of(k_.repeats[r].body[v].type)));
        loops_[r].spare.push_back(bytes_for(kBlock * size_of(k_.repeats[r].body[v].type)));
      }
    }
    if (!k_.has_reduction) return;
    for (size_t v = 0; v < k_.reduction.inputs.size(); ++v) {
      const int64_t size = size_of(type(v));
      for (auto& level : levels_) level.push_back(bytes_for(prepared.lanes * columns() * size));
      result_.push_back(bytes_for(kBlock * size));
      init_.push_back(bytes_for(kBlock * size));
    }
  }

  int32_t run(int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end) {
    if (k_.before) return sort(outer_begin, outer_end, inner_end);
    // A block is a part of a row, or several short rows.
    const bool along = k_.has_reduction && along_;
    const int64_t width = inner_end - inner_begin;
    const bool spans = k_.parallel_rank > 1 && !along && width > 0 && width <= kBlock / 2;
    const int64_t most_rows = spans ? kBlock / width : 1;
    const int64_t step = along ? 1 : spans ? width : kBlock;
    for (int64_t outer = outer_begin; outer < outer_end; outer += num_rows_) {
      set_rows(outer, std::min(most_rows, outer_end - outer));
      for (int64_t inner = inner_begin; inner < inner_end; inner += step) {
        if (cancelled() || code_is_there()) return ended_at(outer, inner);
        if (k_.parallel_rank > 0) index_[k_.parallel_rank - 1] = inner;
        if (!run_block(num_rows_ * std::min(step, inner_end - inner))) return ended_at(outer, inner);
      }
    }
    return 0;
  }

 private:
  using Scratch = hlo::PreparedProgram::Scratch;

  // Values of one section for a block of elements.
  struct Section {
    Section(const std::vector<KernelInstr>& instrs, const std::vector<SectionPart>& cut)
        : code(&instrs), parts(&cut), scratch(cut.size()) {
      // What no part gives out stays in the scratch of its run.
      std::vector<bool> given(instrs.size(), false);
      for (const SectionPart& part : cut) {
        if (part.instr >= 0) given[part.instr] = true;
        for (uint32_t v : part.outputs) given[v] = true;
      }
      own.reserve(instrs.size());
      at.reserve(instrs.size());
      for (size_t v = 0; v < instrs.size(); ++v) {
        const KernelInstr& i = instrs[v];
        const bool elsewhere = i.op == KernelOp::kCarried || i.op == KernelOp::kOuter || !has_value(i.op) ||
                               i.op == KernelOp::kRepeated;
        own.push_back(bytes_for(elsewhere || !given[v] ? 0 : kBlock * size_of(i.type)));
        at.push_back(data(own.back()));
      }
    }
    const std::vector<KernelInstr>* code;
    const std::vector<SectionPart>* parts;
    std::vector<Bytes> own;
    std::vector<char*> at;  // of each value: its own bytes, or those of the value that it names
    std::vector<Scratch> scratch;
  };
  struct Loop {
    Section cond, body;
    std::vector<Bytes> carried, spare;
    Bytes active;  // which elements go on
  };

  // Rows, each as a whole: the stored values of all its elements, then these in their order.
  int32_t sort(int64_t outer_begin, int64_t outer_end, int64_t length) {
    const int last = k_.parallel_rank - 1;
    const auto blocks = [&](auto&& f) {
      for (int64_t at = 0; at < length; at += kBlock) {
        index_[last] = at;
        f(at, std::min(kBlock, length - at));
      }
    };
    const auto size = [&](const Store& s) { return size_of(k_.body[s.value].type); };
    std::vector<Bytes> values;
    for (const Store& s : k_.stores) values.push_back(bytes_for(length * size(s)));
    std::vector<int64_t> order(static_cast<size_t>(length));
    const auto value = [&](size_t v, int64_t element) {
      return data(values[v]) + element * size(k_.stores[v]);
    };
    for (int64_t outer = outer_begin; outer < outer_end; ++outer) {
      if (cancelled() || code_is_there()) return ended_at(outer, 0);
      set_rows(outer, 1);
      blocks([&](int64_t at, int64_t n) {
        run_section(body_, last, n);
        for (size_t v = 0; v < values.size(); ++v)
          std::memcpy(value(v, at), body_.at[k_.stores[v].value],
                      static_cast<size_t>(n * size(k_.stores[v])));
      });
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
        in_.clear();
        for (int64_t element : {x, y})
          for (size_t v = 0; v < values.size(); ++v) in_.push_back(value(v, element));
        bool is_before = false;
        out_.assign(1, &is_before);
        prepared_.before->run(in_, out_, 1, combine_scratch_);
        return is_before;
      });
      blocks([&](int64_t at, int64_t n) {
        for (size_t v = 0; v < values.size(); ++v)
          for (int64_t i = 0; i < n; ++i)
            std::memcpy(body_.at[k_.stores[v].value] + i * size(k_.stores[v]), value(v, order[at + i]),
                        static_cast<size_t>(size(k_.stores[v])));
        run_stores(k_.stores, body_, last, n);
      });
    }
    return 0;
  }

  bool run_block(int64_t n) {
    if (k_.has_reduction) return reduce(n);
    run_section(body_, k_.parallel_rank - 1, n);
    if (!stopped_) run_stores(k_.stores, body_, k_.parallel_rank - 1, n);
    return !stopped_;
  }

  DType type(size_t v) const { return k_.reduction.combine.inputs[v]; }
  int64_t columns() const { return along_ ? 1 : kBlock; }
  bool cancelled() const { return __atomic_load_n(cancel_, __ATOMIC_RELAXED) != 0; }
  bool code_is_there() const {
    return handover_ && handover_->code->load(std::memory_order_acquire) != nullptr;
  }
  bool stop_in_block() const { return cancelled() || (may_begin_again_ && code_is_there()); }
  int32_t ended_at(int64_t outer, int64_t inner) {
    if (asked_to_stop_ || cancelled() || !code_is_there()) return 1;
    handover_->outer = outer;
    handover_->inner = inner;
    return kCodeIsThere;
  }
  // Whether a block may be run again after a part of it: unless it stores, before its end, what it reads.
  static bool begins_again(const LoopKernel& k, void* const* buffers) {
    bool stores = false;
    for (const Repeat& r : k.repeats) stores |= !r.stores.empty();
    for (size_t w = 0; stores && w < k.buffers.size(); ++w)
      for (size_t r = 0; k.buffers[w].written && r < k.buffers.size(); ++r)
        if (!k.buffers[r].written && buffers[r] == buffers[w]) return false;
    return true;
  }
  bool stop_in_steps() {
    if (++steps_ % kPollSteps) return false;
    if (may_begin_again_ && code_is_there()) return true;
    if (!prepared_.asks) return cancelled();
    auto* question = reinterpret_cast<CancelQuestion*>(const_cast<int32_t*>(cancel_));
    return asked_to_stop_ = question->ask(question) != 0;
  }

  void decompose(int64_t linear, int first, int count) {
    for (int d = count - 1; d > 0; --d) {
      const int64_t extent = std::max<int64_t>(args_[first + d], 1);
      index_[first + d] = linear % extent;
      linear /= extent;
    }
    if (count > 0) index_[first] = linear;
  }

  // The block is of `count` rows from the outer index `first` on.
  void set_rows(int64_t first, int64_t count) {
    const int outer_dims = std::max(k_.parallel_rank - 1, 0);
    num_rows_ = count;
    decompose(first, 0, outer_dims);
    rows_.assign(index_.begin(), index_.begin() + outer_dims);
    stepped_.clear();
    for (int64_t r = 1; r < count; ++r) {
      int d = outer_dims - 1;
      for (; d > 0 && index_[d] + 1 >= args_[d]; --d) index_[d] = 0;
      ++index_[d];
      rows_.insert(rows_.end(), index_.begin(), index_.begin() + outer_dims);
      stepped_.push_back(d);
    }
  }
  // The current index along a dimension, in one row of the block.
  int64_t index_at(int dim, int64_t row) const {
    const int outer_dims = k_.parallel_rank - 1;
    return dim < outer_dims ? rows_[row * outer_dims + dim] : index_[dim];
  }

  // Calls `use(address, stride)` for an access at the current index of each row of the block, in turn; its
  // stride is that along `dim`.
  template <class Use>
  void for_rows(const Access& access, int dim, Use use) {
    const int outer_dims = std::max(k_.parallel_rank - 1, 0);
    const int64_t size = size_of(k_.buffers[access.buffer].type);
    int64_t position = (access.offset_slot < 0 ? 0 : args_[access.offset_slot]) + access.beside, stride = 0;
    to_next_.assign(static_cast<size_t>(outer_dims), 0);
    for (const AccessTerm& t : access.terms) {
      const int64_t s = t.unit ? t.unit : args_[t.stride_slot];
      position += index_at(t.dim, 0) * s;
      if (t.dim == dim) stride += s;
      if (t.dim < outer_dims) to_next_[t.dim] += s * size;
    }
    char* at = static_cast<char*>(buffers_[access.buffer]) + position * size;
    use(at, stride);
    if (num_rows_ == 1) return;
    // Where a dimension steps, those inside it begin anew.
    int64_t back = 0;
    for (int d = outer_dims - 1; d >= 0; --d) {
      const int64_t step = to_next_[d];
      to_next_[d] -= back;
      if (d > 0) back += (args_[d] - 1) * step;
    }
    for (const int d : stepped_) {
      at += to_next_[d];
      use(at, stride);
    }
  }

  void load(const Access& access, int dim, int64_t n, const char* predicate, char* out) {
    const int64_t size = size_of(k_.buffers[access.buffer].type), width = n / num_rows_;
    for_rows(access, dim, [&](const char* from, int64_t stride) {
      if (!predicate) {
        gather(out, from, stride, width, size);
      } else {
        for (int64_t i = 0; i < width; ++i) {
          if (predicate[i])
            std::memcpy(out + i * size, from + i * stride * size, static_cast<size_t>(size));
          else
            std::memset(out + i * size, 0, static_cast<size_t>(size));
        }
        predicate += width;
      }
      out += width * size;
    });
  }

  // Values of the section for n elements along `dim` from the current index.
  void run_section(Section& section, int dim, int64_t n) {
    for (size_t s = 0; s < section.parts->size() && !stopped_; ++s) {
      const SectionPart& part = (*section.parts)[s];
      if (part.instr < 0) {
        in_.clear();
        out_.clear();
        for (uint32_t v : part.inputs) in_.push_back(section.at[v]);
        for (uint32_t v : part.outputs) out_.push_back(section.at[v]);
        part.prepared->run(in_, out_, n, section.scratch[s]);
        continue;
      }
      const KernelInstr& instr = (*section.code)[part.instr];
      char* out = section.at[part.instr];
      switch (instr.op) {
        case KernelOp::kLoad:
          load(k_.accesses[instr.imm], dim, n, instr.predicated ? section.at[instr.operands[0]] : nullptr,
               out);
          break;
        case KernelOp::kLoadAt:
          load_at(instr, section, n, out);
          break;
        case KernelOp::kStoreAt:
          store_at(instr, section);
          break;
        case KernelOp::kCopy: {
          const auto count = *reinterpret_cast<const int64_t*>(section.at[instr.operands[0]]);
          const uint64_t to = instr.imm >> 32, from = instr.imm & ~uint32_t{0};
          std::memcpy(buffers_[to], buffers_[from],
                      static_cast<size_t>(count * size_of(k_.buffers[to].type)));
          break;
        }
        case KernelOp::kIndex: {
          auto* to = reinterpret_cast<int64_t*>(out);
          const int of = static_cast<int>(instr.imm);
          for (int64_t row = 0, width = n / num_rows_; row < num_rows_; ++row)
            for (int64_t i = 0; i < width; ++i) *to++ = index_at(of, row) + (of == dim ? i : 0);
          break;
        }
        case KernelOp::kArg:
          fill(args_[instr.imm], size_of(instr.type), n, out);
          break;
        case KernelOp::kReduced:
          std::memcpy(out, result_[instr.imm].data(), static_cast<size_t>(n * size_of(instr.type)));
          break;
        case KernelOp::kRepeat:
          repeat(instr.imm, section, dim, n);
          break;
        case KernelOp::kRepeated:
          section.at[part.instr] = data(loops_[(*section.code)[instr.operands[0]].imm].carried[instr.imm]);
          break;
        case KernelOp::kPrim:
        case KernelOp::kCarried:  // see `repeat`
        case KernelOp::kOuter:
          break;
      }
    }
  }

  // ---- repeats

  // The outer and carried values that the code of a repeat names.
  static void name_values(Section& inside, const Section& outer, std::vector<Bytes>& carried) {
    for (size_t i = 0; i < inside.code->size(); ++i) {
      const KernelInstr& instr = (*inside.code)[i];
      if (instr.op == KernelOp::kOuter) inside.at[i] = outer.at[instr.imm];
      if (instr.op == KernelOp::kCarried) inside.at[i] = data(carried[instr.imm]);
    }
  }

  void repeat(uint64_t number, const Section& outer, int dim, int64_t n) {
    const Repeat& r = k_.repeats[number];
    Loop& loop = loops_[number];
    for (size_t i = 0; i < r.init.size(); ++i)
      std::memcpy(data(loop.carried[i]), outer.at[r.init[i]],
                  static_cast<size_t>(n * size_of((*outer.code)[r.init[i]].type)));
    name_values(loop.cond, outer, loop.carried);
    name_values(loop.body, outer, loop.carried);
    const int step_dim = k_.parallel_rank + k_.reduce_rank + static_cast<int>(number);
    const char* around = active_;
    for (int64_t step = 0; !r.counted || step < args_[step_dim]; ++step) {
      if (stop_in_steps()) stopped_ = true;
      if (stopped_) break;
      index_[step_dim] = step;
      if (!r.counted) {
        run_section(loop.cond, dim, n);
        if (stopped_ || !find_active(loop, loop.cond.at[r.condition], around, n)) break;
        active_ = data(loop.active);
      }
      run_section(loop.body, dim, n);
      if (stopped_) break;
      run_stores(r.stores, loop.body, dim, n);
      carry(r, loop, n);
      active_ = around;
    }
    active_ = around;
  }

  // Whether any element goes on, and which.
  static bool find_active(Loop& loop, const char* condition, const char* around, int64_t n) {
    char* active = data(loop.active);
    bool any = false;
    for (int64_t e = 0; e < n; ++e) {
      active[e] = condition[e] && (!around || around[e]);
      any |= active[e] != 0;
    }
    return any;
  }

  void carry(const Repeat& r, Loop& loop, int64_t n) {
    const auto bytes = [&](size_t i) { return size_of(r.body[r.next[i]].type); };
    // A value that is handed on as another one would be overwritten before it is read.
    for (size_t i = 0; i < r.next.size(); ++i) {
      const KernelOp op = r.body[r.next[i]].op;
      const bool moves = op == KernelOp::kCarried && r.body[r.next[i]].imm != i;
      if (moves) std::memcpy(data(loop.spare[i]), loop.body.at[r.next[i]], static_cast<size_t>(n * bytes(i)));
    }
    for (size_t i = 0; i < r.next.size(); ++i) {
      const KernelInstr& next = r.body[r.next[i]];
      if (next.op == KernelOp::kCarried && next.imm == i) continue;
      const char* from = next.op == KernelOp::kCarried ? data(loop.spare[i]) : loop.body.at[r.next[i]];
      char* to = data(loop.carried[i]);
      const size_t size = static_cast<size_t>(bytes(i));
      if (r.counted) {
        std::memcpy(to, from, static_cast<size_t>(n) * size);
        continue;
      }
      const char* active = data(loop.active);
      for (int64_t e = 0; e < n; ++e)
        if (active[e]) std::memcpy(to + e * size, from + e * size, size);
    }
  }

  void load_at(const KernelInstr& instr, const Section& section, int64_t n, char* out) const {
    const int64_t size = size_of(instr.type);
    const auto* positions = reinterpret_cast<const int64_t*>(section.at[instr.operands[0]]);
    const char* predicate = instr.predicated ? section.at[instr.operands[1]] : nullptr;
    const char* from = static_cast<const char*>(buffers_[instr.imm]);
    for (int64_t i = 0; i < n; ++i) {
      if (!predicate || predicate[i])
        std::memcpy(out + i * size, from + positions[i] * size, static_cast<size_t>(size));
      else
        std::memset(out + i * size, 0, static_cast<size_t>(size));
    }
  }

  // Of the one element that there is.
  void store_at(const KernelInstr& instr, const Section& section) {
    if (instr.predicated && !*section.at[instr.operands[2]]) return;
    const auto size = static_cast<size_t>(size_of(instr.type));
    const auto position = *reinterpret_cast<const int64_t*>(section.at[instr.operands[0]]);
    std::memcpy(static_cast<char*>(buffers_[instr.imm]) + position * static_cast<int64_t>(size),
                section.at[instr.operands[1]], size);
  }

  void run_stores(const std::vector<Store>& stores, const Section& section, int dim, int64_t n) {
    for (const Store& s : stores) {
      const Access& access = k_.accesses[s.access];
      const int64_t size = size_of(k_.buffers[access.buffer].type), width = n / num_rows_;
      const char* from = section.at[s.value];
      for_rows(access, dim, [&](char* to, int64_t stride) {
        scatter(to, from, stride, width, size);
        from += width * size;
      });
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
    prepared_.combine->run(in_, out_, n, combine_scratch_);
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
    count = std::min(count, prepared_.lanes);
    for (int64_t s = prepared_.lanes / 2; s > 0; s /= 2) {
      const int64_t pairs = std::min(s, count - s);
      if (pairs <= 0) continue;
      if (along_)
        enter(lane_pointers(level, 0), lane_pointers(level, s), pairs, false);
      else
        for (int64_t j = 0; j < pairs; ++j)
          enter(lane_pointers(level, j), lane_pointers(level, j + s), n, false);
    }
  }

  void push(Level& to, int64_t position, Level& from, int64_t n) {
    enter(lane_pointers(to, position % prepared_.lanes), lane_pointers(from, 0), n,
          position < prepared_.lanes);
  }

  // Reduces for n output elements from the current parallel index on, runs the epilogue and stores.
  bool reduce(int64_t n) {
    const int rank = k_.parallel_rank;
    int64_t total = 1;
    for (int d = 0; d < k_.reduce_rank; ++d) total *= args_[rank + d];
    const int64_t chunks = (total + kReduceChunk - 1) / kReduceChunk;
    for (int64_t c = 0; c < chunks; ++c) {
      if (stop_in_block()) return false;
      const int64_t start = c * kReduceChunk;
      const int64_t count = std::min(total - start, kReduceChunk);
      if (!(along_ ? along_chunk(start, count) : across_chunk(start, count, n))) return false;
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
    const int dim = along_ ? -1 : rank - 1;
    std::vector<char*> results, inits;
    for (size_t v = 0; v < result_.size(); ++v) results.push_back(data(result_[v]));
    for (size_t v = 0; v < k_.reduction.init.size(); ++v) {
      load(k_.accesses[k_.reduction.init[v]], dim, n, nullptr, data(init_[v]));
      inits.push_back(data(init_[v]));
    }
    enter(results, total == 0 ? inits : lane_pointers(levels_[chunks > 1 ? 2 : 0], 0), n, true);
    if (total > 0 && !inits.empty()) enter(results, inits, n, false);
    run_section(epilogue_, dim, n);
    run_stores(k_.stores, epilogue_, dim, n);
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
          std::min({args_[last] - index_[last], count - e, prepared_.lanes - e % prepared_.lanes, kBlock});
      run_section(body_, last, n);
      if (stopped_) return false;
      enter(lane_pointers(levels_[0], e % prepared_.lanes), body_elements(), n, e < prepared_.lanes);
      e += n;
    }
    return true;
  }

  bool across_chunk(int64_t start, int64_t count, int64_t n) {
    for (int64_t e = 0; e < count; ++e) {
      if (stop_in_block()) return false;
      decompose(start + e, k_.parallel_rank, k_.reduce_rank);
      run_section(body_, k_.parallel_rank - 1, n);
      if (stopped_) return false;
      enter(lane_pointers(levels_[0], e % prepared_.lanes), body_elements(), n, e < prepared_.lanes);
    }
    return true;
  }

  std::vector<char*> body_elements() {
    std::vector<char*> result;
    for (uint32_t id : k_.reduction.inputs) result.push_back(body_.at[id]);
    return result;
  }

  const PreparedType& prepared_;
  const LoopKernel& k_;
  void* const* buffers_;
  const int64_t* args_;
  const int32_t* cancel_;
  Handover* const handover_;
  const bool may_begin_again_;
  const bool along_;  // blocks of reduced elements, else of results
  Section body_, epilogue_;
  std::vector<Loop> loops_;       // per repeat
  const char* active_ = nullptr;  // elements for which the loops around go on; null: all
  bool stopped_ = false, asked_to_stop_ = false;
  int64_t steps_ = 0;  // of all repeats
  std::vector<Bytes> result_, init_, scratch_;
  Scratch combine_scratch_;       // and of the order
  std::vector<int64_t> index_;    // of the first row's first element
  std::vector<int64_t> rows_;     // outer indices of each row of the block
  std::vector<int> stepped_;      // which of them is one more than in the row before, for each but the first
  std::vector<int64_t> to_next_;  // scratch of `for_rows`: bytes to the next row where it does
  int64_t num_rows_ = 1;
  Level levels_[3];
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

KernelInterpreter::KernelInterpreter(const LoopKernel& kernel) {
  auto prepared = std::make_unique<Prepared>();
  prepared->kernel = kernel;
  prepared->body = parts_of(kernel.body);
  prepared->epilogue = parts_of(kernel.epilogue);
  std::vector<uint32_t> stored;
  for (const Store& s : kernel.stores) stored.push_back(s.value);
  trim_outputs(prepared->body, kernel, kernel.body, kernel.has_reduction ? kernel.reduction.inputs : stored);
  trim_outputs(prepared->epilogue, kernel, kernel.epilogue,
               kernel.has_reduction ? stored : std::vector<uint32_t>());
  for (const Repeat& r : kernel.repeats) {
    prepared->repeats.push_back({parts_of(r.cond), parts_of(r.body)});
    std::vector<uint32_t> read = r.next;
    for (const Store& s : r.stores) read.push_back(s.value);
    if (!r.counted) trim_outputs(prepared->repeats.back().cond, kernel, r.cond, {r.condition});
    trim_outputs(prepared->repeats.back().body, kernel, r.body, read);
  }
  prepared->asks = holds_question(kernel);
  int64_t widest = 1;
  for (DType t : kernel.reduction.combine.inputs) widest = std::max(widest, size_of(t));
  prepared->lanes = kReduceLaneBytes / widest;
  if (kernel.has_reduction) prepared->combine.emplace(kernel.reduction.combine);
  if (kernel.before) prepared->before.emplace(*kernel.before);
  prepared_ = std::move(prepared);
}

KernelInterpreter::~KernelInterpreter() = default;
KernelInterpreter::KernelInterpreter(KernelInterpreter&&) noexcept = default;
KernelInterpreter& KernelInterpreter::operator=(KernelInterpreter&&) noexcept = default;

int32_t KernelInterpreter::run(void* const* buffers, const int64_t* args, int64_t outer_begin,
                               int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                               const int32_t* cancel, Handover* handover) const {
  RangeRun<Prepared> run(*prepared_, buffers, args, cancel, handover);
  return run.run(outer_begin, outer_end, inner_begin, inner_end);
}

int32_t interpret_kernel(const LoopKernel& kernel, void* const* buffers, const int64_t* args,
                         int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                         const int32_t* cancel) {
  return KernelInterpreter(kernel).run(buffers, args, outer_begin, outer_end, inner_begin, inner_end, cancel);
}

}  // namespace lamina::jit
