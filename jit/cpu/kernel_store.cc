#include "jit/cpu/kernel_store.h"

#include <algorithm>

#include "hlo/strings.h"

namespace lamina::jit {
namespace {

// Rough costs on any machine; only their ratio matters.
constexpr int64_t kInterpretCallNs = 1500;
constexpr int64_t kInterpretElementNs = 1;
constexpr int64_t kCompileNs = 2'000'000;
// What has run so often is expected to go on: the price of a compile counts for less, down to this part.
constexpr int64_t kLeastPart = 16;

}  // namespace

std::shared_ptr<Kernel> KernelStore::get(LoopKernel spec, const Schedule& schedule) {
  std::string text = to_string(spec);
  std::string key = text + to_string(schedule);
  std::vector<std::shared_ptr<Kernel>> dropped;  // after the lock: code is released when no compile runs
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  if (kernels_.size() >= limit_.load()) {
    dropped.reserve(kernels_.size());
    erase_if(kernels_, [&](auto& entry) {
      if (entry.second.use_count() > 1) return false;
      dropped.push_back(std::move(entry.second));
      return true;
    });
  }
  auto made = std::make_shared<Kernel>();
  made->spec_ = std::move(spec);
  made->text_ = {std::move(text), schedule};
  kernels_.try_emplace(std::move(key), made);
  ++stats_.kernels;
  return made;
}

KernelEntry KernelStore::entry_for(Kernel& kernel, int64_t work) {
  if (!compiling_.load(std::memory_order_relaxed)) {
    interpreted_runs_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  KernelEntry entry = kernel.entry_.load(std::memory_order_acquire);
  if (!entry && !kernel.refused_.load(std::memory_order_relaxed)) {
    const int64_t cost = kInterpretCallNs + work * kInterpretElementNs;
    const int64_t spent = kernel.interpreted_ns_.fetch_add(cost) + cost;
    const int64_t runs = kernel.interpreted_runs_.fetch_add(1) + 1;
    if (eager_.load() || spent > kCompileNs / std::min(runs, kLeastPart)) compile(kernel);
    entry = kernel.entry_.load(std::memory_order_acquire);
  }
  (entry ? compiled_runs_ : interpreted_runs_).fetch_add(1, std::memory_order_relaxed);
  return entry;
}

absl::StatusOr<const CodeGenerator*> KernelStore::generator() {
  if (!generator_ && missing_.ok()) {
    absl::StatusOr<std::unique_ptr<CodeGenerator>> made = CodeGenerator::create(options_);
    if (absl::IsResourceExhausted(made.status())) return made.status();  // there may be memory later
    if (made.ok())
      generator_ = *std::move(made);
    else
      missing_ = made.status();
  }
  if (!generator_) return missing_;
  return generator_.get();
}

void KernelStore::compile(Kernel& kernel) {
  std::lock_guard turn(turn_);
  if (kernel.is_compiled() || kernel.refused_.load()) return;
  absl::StatusOr<CompiledKernel> code = load_or_compile(kernel);
  std::lock_guard lock(mutex_);
  if (!code.ok()) {
    unavailable_ = std::string(code.status().message());
    kernel.refused_.store(!absl::IsResourceExhausted(code.status()));
    return;
  }
  kernel.compiled_ = *std::move(code);
  stats_.code_bytes += static_cast<int64_t>(kernel.compiled_.stats().code_bytes);
  stats_.compile_ms += kernel.compiled_.stats().total_ms;
  kernel.entry_.store(kernel.compiled_.entry(), std::memory_order_release);
}

absl::StatusOr<CompiledKernel> KernelStore::load_or_compile(const Kernel& kernel) {
  const absl::StatusOr<const CodeGenerator*> found = generator();
  if (!found.ok()) return found.status();
  const CodeGenerator& g = **found;
  const auto count = [&](int64_t KernelStats::*what) {
    std::lock_guard lock(mutex_);
    ++(stats_.*what);
  };
  const bool keep = !g.identity().empty() && disk_.unusable().empty();
  const std::string key =
      keep ? str_cat(g.identity(), "\n", kernel.text_.text, to_string(kernel.text_.schedule)) : "";
  if (const std::optional<std::string> object = keep ? disk_.load(key) : std::nullopt) {
    absl::StatusOr<CompiledKernel> code = g.load(*object);
    if (code.ok()) {
      count(&KernelStats::loads);
      return code;
    }
  }
  absl::StatusOr<CompiledKernel> code = g.compile(kernel.text_.text, kernel.text_.schedule, keep);
  if (code.ok()) {
    count(&KernelStats::compiles);
    if (keep) disk_.store(key, code->take_object());
  }
  return code;
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
  options_ = std::move(options);
  missing_ = absl::OkStatus();  // it may be where they say
  std::lock_guard lock(mutex_);
  unavailable_.clear();
}

KernelStats KernelStore::stats() const {
  std::lock_guard lock(mutex_);
  KernelStats s = stats_;
  s.interpreted_runs = interpreted_runs_.load();
  s.compiled_runs = compiled_runs_.load();
  return s;
}

std::string KernelStore::unavailable() const {
  std::lock_guard lock(mutex_);
  return unavailable_;
}

absl::StatusOr<std::string> KernelStore::ir(const KernelText& kernel) {
  std::lock_guard turn(turn_);
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  return (*g)->ir(kernel.text, kernel.schedule);
}

absl::StatusOr<std::string> KernelStore::assembly(const KernelText& kernel) {
  std::lock_guard turn(turn_);
  const absl::StatusOr<const CodeGenerator*> g = generator();
  if (!g.ok()) return g.status();
  return (*g)->assembly(kernel.text, kernel.schedule);
}

void KernelStore::clear() {
  HashMap<std::string, std::shared_ptr<Kernel>> dropped;  // let go of after the lock
  std::lock_guard lock(mutex_);
  std::swap(kernels_, dropped);
}

}  // namespace lamina::jit
