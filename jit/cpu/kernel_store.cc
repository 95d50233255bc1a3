#include "jit/cpu/kernel_store.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "hlo/isa.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "jit/cpu/cpu_features.h"
#include "jit/cpu/kept_code.h"
#include "jit/cpu/perf_symbols.h"

namespace lamina::jit {
namespace {

// Measured on a Zen 3 core at 2.6 GHz; only their ratios matter. A formula of n instructions compiles in 4 to
// 330 ms, 0.1 ms for each; a reduction adds what its tree takes, 10 to 50 ms. The interpreter takes 0.11-0.6
// ns for an element of an instruction.
constexpr int64_t kInterpretCallNs = 3000;
constexpr int64_t kInterpretElementPs = 300;
constexpr int64_t kCompileNs = 4'000'000, kCompileInstrNs = 100'000, kCompileReductionNs = 30'000'000;
// Of an object, with its part of the code generator, which has to be there. An image takes a tenth at most;
// but most kernels that would be asked for so early are on no disk.
constexpr int64_t kLoadNs = 2'000'000;
// What has run so often is expected to go on: the price of a compile counts for less, down to this part. It
// is paid beside the run, not by it, and counts for less again.
constexpr int64_t kLeastPart = 16, kAside = 4;

int64_t count_instrs(const LoopKernel& kernel) {
  int64_t instrs = 0;
  for_each_section(kernel, [&](const std::vector<KernelInstr>& section) {
    instrs += static_cast<int64_t>(section.size());
  });
  return instrs;
}

int64_t compile_ns(const LoopKernel& kernel, int64_t instrs) {
  return kCompileNs + instrs * kCompileInstrNs + (kernel.has_reduction ? kCompileReductionNs : 0);
}

// Of what tells most kernels apart.
size_t hash_of(const LoopKernel& kernel, const Schedule& schedule) {
  uint64_t hash = kernel.num_args;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  const auto mix_list = [&](const std::vector<uint32_t>& values) {
    mix(values.size());
    for (uint32_t v : values) mix(v);
  };
  mix(static_cast<uint64_t>(schedule.reduce) | uint64_t{schedule.tiles} << 8 |
      uint64_t{schedule.streams} << 9 | static_cast<uint64_t>(schedule.lanes) << 10 |
      uint64_t{kernel.parallel_rank} << 16 | uint64_t{kernel.reduce_rank} << 24 |
      uint64_t{kernel.has_reduction} << 32);
  for (const BufferDecl& b : kernel.buffers) mix(static_cast<uint64_t>(b.type) << 1 | uint64_t{b.written});
  for (const Access& a : kernel.accesses) {
    mix(uint64_t{a.buffer} << 32 | static_cast<uint32_t>(a.offset_slot));
    for (const AccessTerm& t : a.terms)
      mix(uint64_t{t.dim} << 40 | uint64_t{static_cast<uint8_t>(t.unit)} << 32 | t.stride_slot);
  }
  for_each_section(kernel, [&](const std::vector<KernelInstr>& section) {
    mix(section.size());
    for (const KernelInstr& i : section) {
      mix(static_cast<uint64_t>(i.op) | static_cast<uint64_t>(i.prim) << 8 |
          static_cast<uint64_t>(i.type) << 24 | uint64_t{i.predicated} << 31 | uint64_t{i.operands[2]} << 32);
      mix(uint64_t{i.operands[0]} << 32 | i.operands[1]);
      mix(i.imm);
    }
  });
  for (const Store& s : kernel.stores) mix(uint64_t{s.access} << 32 | s.value);
  for (const Repeat& r : kernel.repeats) {
    mix_list(r.init);
    mix_list(r.next);
  }
  return hash;
}

void name_code(const Kernel& kernel, const MachineCode& code) {
  if (PerfSymbols& symbols = PerfSymbols::get(); symbols.on())
    symbols.add(kernel.text().text, reinterpret_cast<const void*>(code.entry()), code.bytes());
}

bool compiles_first() {
  const char* chosen = std::getenv("LAMINA_COMPILE");
  return chosen && std::string_view(chosen) == "first";
}

}  // namespace

Kernel::Kernel(LoopKernel spec, const Schedule& schedule)
    : spec_(std::move(spec)),
      schedule_(schedule),
      instrs_(count_instrs(spec_)),
      compile_ns_(compile_ns(spec_, instrs_)) {}

Kernel::~Kernel() {
  delete text_.load();
  delete interpreter_.load();
}

int64_t Kernel::price() const {
  return not_on_disk_.load(std::memory_order_relaxed) ? compile_ns_ : std::min(kLoadNs, compile_ns_);
}

double Kernel::urgency() const {
  const int64_t runs = std::min(interpreted_runs_.load(std::memory_order_relaxed), kLeastPart);
  return static_cast<double>(interpreted_ns_.load(std::memory_order_relaxed)) *
         static_cast<double>(runs * kAside) / static_cast<double>(price());
}

bool Kernel::has_paid() const {
  return interpreted_ns_.load(std::memory_order_relaxed) >= kAside * compile_ns_;
}

KernelStore::KernelStore()
    : eager_(compiles_first()), queue_([this](Kernel& kernel) { compile(kernel, Waits::kNobody); }) {}

std::shared_ptr<Kernel> KernelStore::get(LoopKernel spec, const Schedule& schedule) {
  const size_t hash = hash_of(spec, schedule);
  std::vector<std::shared_ptr<Kernel>> dropped;  // let go of after the lock
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(Structure{&spec, schedule, hash}); known != kernels_.end())
    return known->second;
  const auto made = std::make_shared<Kernel>(std::move(spec), schedule);
  if (kernels_.size() >= sweep_kernels_ || bytes_ >= sweep_bytes_) dropped = sweep();
  kernels_.try_emplace(Structure{&made->spec(), schedule, hash}, made);
  bytes_ += made->bytes();
  ++stats_.kernels;
  return made;
}

std::vector<std::shared_ptr<Kernel>> KernelStore::sweep() {
  std::vector<std::shared_ptr<Kernel>> dropped;
  dropped.reserve(kernels_.size());
  erase_if(kernels_, [&](auto& entry) {
    if (entry.second.use_count() > 1) return false;
    bytes_ -= entry.second->bytes();
    stats_.code_bytes -= static_cast<int64_t>(entry.second->code_.bytes());
    dropped.push_back(std::move(entry.second));
    return true;
  });
  sweep_kernels_ = std::max(max_kernels_, 2 * kernels_.size());
  sweep_bytes_ = std::max(max_bytes_, 2 * bytes_);
  return dropped;
}

void KernelStore::drop_unused() {
  std::vector<std::shared_ptr<Kernel>> dropped;  // let go of after the lock
  std::lock_guard lock(mutex_);
  dropped = sweep();
}

void KernelStore::set_limits(size_t kernels, size_t bytes) {
  std::lock_guard lock(mutex_);
  max_kernels_ = sweep_kernels_ = kernels;
  max_bytes_ = sweep_bytes_ = bytes;
}

Tier KernelStore::tier_for(Kernel& kernel, int64_t work, int64_t runs) {
  if (!compiling_.load(std::memory_order_relaxed)) {
    interpreted_runs_.fetch_add(runs, std::memory_order_relaxed);
    return {};
  }
  KernelEntry code = kernel.entry_.load(std::memory_order_acquire);
  if (!code && kernel.state_.load(std::memory_order_acquire) != Kernel::State::kRefused) {
    kernel.interpreted_ns_.fetch_add(runs * (kInterpretCallNs + work / 1000 * kInterpretElementPs +
                                             work % 1000 * kInterpretElementPs / 1000));
    kernel.interpreted_runs_.fetch_add(runs);
    if (eager_.load(std::memory_order_relaxed)) {
      if (queue_.claim(kernel)) compile(kernel, Waits::kAtAnyCost);
    } else if (kernel.state_.load(std::memory_order_relaxed) == Kernel::State::kCold &&
               kernel.urgency() > 1 && !queue_.add(kernel.shared_from_this()) && kernel.urgency() > kAside &&
               queue_.claim(kernel)) {
      compile(kernel, Waits::kCaller);  // no thread can be had
    }
    code = kernel.entry_.load(std::memory_order_acquire);
  }
  (code ? compiled_runs_ : interpreted_runs_).fetch_add(runs, std::memory_order_relaxed);
  return {code, &kernel.entry_};
}

absl::StatusOr<const CodeGenerator*> KernelStore::generator(Pace pace) {
  std::lock_guard turn(turn_);
  if (!generator_ && missing_.ok()) {
    absl::StatusOr<std::unique_ptr<CodeGenerator>> made = CodeGenerator::create(options_, pace);
    if (absl::IsResourceExhausted(made.status())) return made.status();  // there may be memory later
    if (made.ok()) {
      generator_ = *std::move(made);
      identity_.reset();  // the file may be another than before
    } else {
      missing_ = made.status();
    }
  }
  if (!generator_) return missing_;
  return generator_.get();
}

void KernelStore::compile(Kernel& kernel, Waits waits) {
  const ProfiledSpan span(Doing::kCompile);
  struct Settled {
    CompileQueue& queue;
    Kernel& kernel;
    ~Settled() { queue.settle(kernel); }
  } const settled{queue_, kernel};
  absl::StatusOr<MachineCode> code = load_or_compile(kernel, waits, waits == Waits::kAtAnyCost);
  if (absl::IsNotFound(code.status()) && kernel.urgency() > 1) code = load_or_compile(kernel, waits, true);
  if (absl::IsNotFound(code.status())) return;
  std::lock_guard lock(mutex_);
  if (!code.ok()) {
    unavailable_ = std::string(code.status().message());
    if (absl::IsResourceExhausted(code.status()))
      kernel.interpreted_ns_.store(0);  // not again at once
    else
      kernel.state_.store(Kernel::State::kRefused);
    return;
  }
  kernel.code_ = *std::move(code);
  name_code(kernel, kernel.code_);
  stats_.code_bytes += static_cast<int64_t>(kernel.code_.bytes());
  stats_.compile_ms += kernel.code_.compile_ms;
  kernel.entry_.store(kernel.code_.entry(), std::memory_order_release);
  kernel.state_.store(Kernel::State::kCompiled, std::memory_order_release);
}

std::string KernelStore::disk_key(const KernelText& kernel) {
  std::lock_guard turn(turn_);
  if (!identity_) {
    const std::string build = generator_ ? generator_->build() : CodeGenerator::build_of(options_);
    std::string processor = processor_words();
    if (processor.empty() && generator_) processor = generator_->target();
    const absl::StatusOr<hlo::Isa> limit = hlo::isa_limit();
    const bool known = !build.empty() && !processor.empty() && limit.ok();
    identity_ = !known ? ""
                       : str_cat(processor, "\nlimit ", static_cast<int64_t>(*limit), " cpu ", options_.cpu,
                                 " features ", options_.features, " vectors ",
                                 static_cast<int64_t>(options_.vector_bits), " build ", build, "\n");
  }
  return identity_->empty() ? "" : str_cat(*identity_, kernel.text, to_string(kernel.schedule));
}

absl::StatusOr<MachineCode> KernelStore::load(const std::string& key) {
  std::optional<std::string> packed;
  if (!key.empty()) {
    std::lock_guard turn(turn_);
    packed = disk_.load(key);
  }
  const std::optional<KeptCode> kept = packed ? unpack_code(*packed) : std::nullopt;
  if (!kept) return absl::NotFoundError("not on disk");
  MachineCode code;
  if (kept->entry) {
    absl::StatusOr<std::unique_ptr<const MappedCode>> image = MappedCode::map(kept->bytes, *kept->entry);
    if (!image.ok()) return absl::NotFoundError(image.status().message());
    code.image = *std::move(image);
    return code;
  }
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  absl::StatusOr<CompiledKernel> linked = (*g)->load(kept->bytes);
  if (!linked.ok()) return absl::NotFoundError(linked.status().message());
  code.linked = *std::move(linked);
  code.compile_ms = code.linked.stats().total_ms;
  return code;
}

absl::StatusOr<MachineCode> KernelStore::load_or_compile(Kernel& kernel, Waits waits, bool may_compile) {
  const auto count = [&](int64_t KernelStats::*what) {
    std::lock_guard lock(mutex_);
    ++(stats_.*what);
  };
  std::string key = disk_key(kernel.text());
  if (key.empty()) {
    if (const absl::Status found = generator().status(); !found.ok()) return found;
    key = disk_key(kernel.text());
  }
  if (!kernel.not_on_disk_.load()) {
    absl::StatusOr<MachineCode> code = load(key);
    if (code.ok()) count(&KernelStats::loads);
    if (!absl::IsNotFound(code.status())) return code;
    kernel.not_on_disk_.store(true);
  }
  if (!may_compile) return absl::NotFoundError("not on disk");
  // Runs may be few: until they have paid for the code, it does not take their processors.
  const Pace pace = waits == Waits::kNobody && !kernel.has_paid() ? Pace::kAside : Pace::kNow;
  const absl::StatusOr<const CodeGenerator*> g = generator(pace);
  if (!g.ok()) return g.status();
  key = disk_key(kernel.text());  // now of the generator that is open
  const bool keep = [&] {
    std::lock_guard turn(turn_);
    return !key.empty() && disk_.unusable().empty();
  }();
  absl::StatusOr<CompiledKernel> linked =
      (*g)->compile(kernel.text().text, kernel.schedule_, /*keep_object=*/true, pace);
  if (!linked.ok()) return linked.status();
  count(&KernelStats::compiles);
  const double compile_ms = linked->stats().total_ms;
  const std::string packed = pack_code(linked->take_object());
  if (keep) {
    std::lock_guard turn(turn_);
    disk_.store(key, packed);
  }
  // What the generator linked takes three mappings of pages for each kernel, of which a process may have no
  // more than some ten thousand; an image takes one.
  if (const std::optional<KeptCode> kept = unpack_code(packed); kept && kept->entry)
    if (absl::StatusOr<std::unique_ptr<const MappedCode>> image = MappedCode::map(kept->bytes, *kept->entry);
        image.ok())
      return MachineCode{CompiledKernel(), *std::move(image), compile_ms};
  return MachineCode{*std::move(linked), nullptr, compile_ms};
}

void KernelStore::set_cache_directory(std::string directory) {
  std::lock_guard turn(turn_);
  disk_ = DiskCache(std::move(directory));
}

std::string KernelStore::disk_unusable() {
  std::lock_guard turn(turn_);
  return disk_.unusable();
}

DiskCache::Contents KernelStore::clear_disk() {
  std::lock_guard turn(turn_);
  return disk_.clear();
}

void KernelStore::set_generator_options(CodeGeneratorOptions options) {
  std::lock_guard turn(turn_);
  if (!generator_) {
    options_ = std::move(options);
    identity_.reset();
  }
  missing_ = absl::OkStatus();  // it may be where they say
  std::lock_guard lock(mutex_);
  unavailable_.clear();
}

KernelStats KernelStore::stats() const {
  std::lock_guard lock(mutex_);
  KernelStats s = stats_;
  s.bytes = static_cast<int64_t>(bytes_);
  s.interpreted_runs = interpreted_runs_.load();
  s.compiled_runs = compiled_runs_.load();
  s.switched_runs = switched_runs_.load();
  s.pending = queue_.pending();
  return s;
}

std::string KernelStore::unavailable() const {
  std::lock_guard lock(mutex_);
  return unavailable_;
}

absl::StatusOr<std::string> KernelStore::ir(const KernelText& kernel) {
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  return (*g)->ir(kernel.text, kernel.schedule);
}

absl::StatusOr<std::string> KernelStore::assembly(const KernelText& kernel) {
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  return (*g)->assembly(kernel.text, kernel.schedule);
}

absl::StatusOr<std::string> KernelStore::machine() {
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  return machine_line((*g)->target());
}

absl::StatusOr<KernelCode> KernelStore::code(const KernelText& kernel) {
  const absl::StatusOr<const CodeGenerator*> found = generator();
  if (!found.ok()) return found.status();
  const std::string key = disk_key(kernel);
  std::optional<std::string> packed;
  if (!key.empty()) {
    std::lock_guard turn(turn_);
    packed = disk_.load(key);
  }
  if (const auto kept = packed ? unpack_code(*packed) : std::nullopt; kept && kept->entry)
    return KernelCode{kernel, std::string(kept->bytes), *kept->entry};
  absl::StatusOr<CompiledKernel> code = (*found)->compile(kernel.text, kernel.schedule, /*keep_object=*/true);
  if (!code.ok()) return code.status();
  const std::string object = code->take_object();
  if (!key.empty()) {
    packed = pack_code(object);
    std::lock_guard turn(turn_);
    disk_.store(key, *packed);
  }
  absl::StatusOr<Image> image = link_object(object);
  if (!image.ok()) return image.status();
  return KernelCode{kernel, std::move(image->bytes), image->entry};
}

absl::StatusOr<std::shared_ptr<const Kernel>> KernelStore::adopt(const KernelCode& code) {
  absl::StatusOr<LoopKernel> spec = parse_kernel(code.kernel.text);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<std::unique_ptr<const MappedCode>> mapped = MappedCode::map(code.image, code.entry);
  if (!mapped.ok()) return mapped.status();
  std::shared_ptr<Kernel> kernel = get(*std::move(spec), code.kernel.schedule);
  // No generator could be had for it: none is needed.
  Kernel::State refused = Kernel::State::kRefused;
  kernel->state_.compare_exchange_strong(refused, Kernel::State::kCold);
  if (queue_.claim(*kernel)) {
    kernel->code_.image = *std::move(mapped);
    name_code(*kernel, kernel->code_);
    kernel->entry_.store(kernel->code_.entry(), std::memory_order_release);
    kernel->state_.store(Kernel::State::kCompiled, std::memory_order_release);
    queue_.settle(*kernel);
    std::lock_guard lock(mutex_);
    ++stats_.adopted;
    stats_.code_bytes += static_cast<int64_t>(kernel->code_.bytes());
  }
  return kernel;
}

void KernelStore::clear() {
  Kernels dropped;  // let go of after the lock
  std::lock_guard lock(mutex_);
  std::swap(kernels_, dropped);
  bytes_ = 0;
  stats_.code_bytes = 0;
}

}  // namespace lamina::jit
