#include "jit/program/kernel_store.h"

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
  std::lock_guard lock(mutex_);
  if (kernels_.size() >= limit_.load())
    erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
  std::shared_ptr<Kernel>& slot = kernels_[std::move(key)];
  if (!slot) {
    slot = std::make_shared<Kernel>();
    slot->spec_ = std::move(spec);
    slot->schedule_ = schedule;
    slot->text_ = std::move(text);
    ++stats_.kernels;
  }
  return slot;
}

KernelEntry KernelStore::entry_for(Kernel& kernel, int64_t work) {
  if (!compiling_.load(std::memory_order_relaxed)) {
    interpreted_runs_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  KernelEntry entry = kernel.entry_.load(std::memory_order_acquire);
  if (!entry && !kernel.refused_) {
    const int64_t cost = kInterpretCallNs + work * kInterpretElementNs;
    const int64_t spent = kernel.interpreted_ns_.fetch_add(cost) + cost;
    const int64_t runs = kernel.interpreted_runs_.fetch_add(1) + 1;
    if (eager_.load() || spent > kCompileNs / std::min(runs, kLeastPart)) compile(kernel);
    entry = kernel.entry_.load(std::memory_order_acquire);
  }
  (entry ? compiled_runs_ : interpreted_runs_).fetch_add(1, std::memory_order_relaxed);
  return entry;
}

CodeGenerator* KernelStore::generator() {
  if (!tried_) {
    tried_ = true;
    absl::StatusOr<std::unique_ptr<CodeGenerator>> made = CodeGenerator::create(options_);
    if (made.ok())
      generator_ = *std::move(made);
    else
      unavailable_ = std::string(made.status().message());
  }
  return generator_.get();
}

void KernelStore::compile(Kernel& kernel) {
  std::lock_guard lock(mutex_);
  if (kernel.is_compiled() || kernel.refused_) return;
  absl::StatusOr<CompiledKernel> code = load_or_compile(kernel);
  if (!code.ok()) {
    kernel.refused_ = true;
    unavailable_ = std::string(code.status().message());
    return;
  }
  kernel.compiled_ = *std::move(code);
  stats_.code_bytes += static_cast<int64_t>(kernel.compiled_.stats().code_bytes);
  stats_.compile_ms += kernel.compiled_.stats().total_ms;
  kernel.entry_.store(kernel.compiled_.entry(), std::memory_order_release);
}

absl::StatusOr<CompiledKernel> KernelStore::load_or_compile(const Kernel& kernel) {
  CodeGenerator* g = generator();
  if (!g) return absl::UnavailableError(unavailable_);
  const bool keep = !g->identity().empty() && disk_.unusable().empty();
  const std::string key = keep ? str_cat(g->identity(), "\n", kernel.text_, to_string(kernel.schedule_)) : "";
  if (const std::optional<std::string> object = keep ? disk_.load(key) : std::nullopt) {
    absl::StatusOr<CompiledKernel> code = g->load(*object);
    if (code.ok()) {
      ++stats_.loads;
      return code;
    }
  }
  absl::StatusOr<CompiledKernel> code = g->compile(kernel.text_, kernel.schedule_, keep);
  if (code.ok()) {
    ++stats_.compiles;
    if (keep) disk_.store(key, code->take_object());
  }
  return code;
}

void KernelStore::set_cache_directory(std::string directory) {
  std::lock_guard lock(mutex_);
  disk_ = DiskCache(std::move(directory));
}

std::string KernelStore::disk_unusable() {
  std::lock_guard lock(mutex_);
  return disk_.unusable();
}

DiskCache::Contents KernelStore::clear_disk() {
  std::lock_guard lock(mutex_);
  return disk_.clear();
}

void KernelStore::set_generator_options(CodeGeneratorOptions options) {
  std::lock_guard lock(mutex_);
  options_ = std::move(options);
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

absl::StatusOr<std::string> KernelStore::ir(const Kernel& kernel) {
  std::lock_guard lock(mutex_);
  CodeGenerator* g = generator();
  if (!g) return absl::UnavailableError(unavailable_);
  return g->ir(kernel.text_, kernel.schedule_);
}

absl::StatusOr<std::string> KernelStore::assembly(const Kernel& kernel) {
  std::lock_guard lock(mutex_);
  CodeGenerator* g = generator();
  if (!g) return absl::UnavailableError(unavailable_);
  return g->assembly(kernel.text_, kernel.schedule_);
}

void KernelStore::clear() {
  std::lock_guard lock(mutex_);
  kernels_.clear();
}

}  // namespace lamina::jit
