#include "jit/cuda/kernels.h"

#include <algorithm>
#include <array>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

// Chips that code can be made for; what is made for one runs on all later ones.
constexpr std::array kChips = {75, 80, 86, 87, 89, 90};

std::string chip_for(int capability) {
  const auto later = std::upper_bound(kChips.begin(), kChips.end(), capability);
  return str_cat("sm_", later == kChips.begin() ? kChips.front() : *(later - 1));
}

// The text as comments.
std::string commented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    str_append(&out, "// ", text.substr(0, end), "\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

CudaKernel::~CudaKernel() {
  for (const Loaded& l : loaded_)
    l.gpu->call("unloading code", l.gpu->driver().unload_module, l.module).IgnoreError();
}

CudaKernel::Loaded* CudaKernel::loaded_on(const Gpu& gpu) const {
  const auto found =
      std::find_if(loaded_.begin(), loaded_.end(), [&](const Loaded& l) { return l.gpu == &gpu; });
  return found == loaded_.end() ? nullptr : &*found;
}

absl::StatusOr<ModuleHandle> CudaKernel::load(Gpu& gpu) const {
  constexpr std::string_view kDoing = "loading a kernel's code";
  ModuleHandle module = nullptr;
  const int capability = gpu.facts().capability;
  if (const absl::StatusOr<std::string> code = store_.machine_code(*this, capability); code.ok()) {
    const Result result = gpu.ask(gpu.driver().load_module, &module, static_cast<const void*>(code->data()));
    const bool is_refused = result == Result::kInvalidImage || result == Result::kNoBinaryForDevice;
    if (!is_refused) {
      if (absl::Status s = gpu.check(result, kDoing); !s.ok()) return s;
      return module;
    }
  }
  const absl::StatusOr<std::string> ptx = store_.ptx(*this, capability);
  if (!ptx.ok()) return ptx.status();
  const absl::Status status =
      gpu.call(kDoing, gpu.driver().load_module, &module, static_cast<const void*>(ptx->c_str()));
  if (!status.ok()) return status;
  return module;
}

absl::StatusOr<FunctionHandle> CudaKernel::find(Gpu& gpu, std::string_view entry) const {
  bool is_loaded = false;
  {
    std::lock_guard lock(mutex_);
    is_loaded = loaded_on(gpu) != nullptr;
  }
  // The store's lock comes first.
  absl::StatusOr<ModuleHandle> module = nullptr;
  if (!is_loaded) module = load(gpu);
  if (!module.ok()) return module.status();
  std::lock_guard lock(mutex_);
  Loaded* loaded = loaded_on(gpu);
  if (!loaded)
    loaded = &*loaded_.insert(loaded_.end(), {&gpu, *module});
  else if (*module)  // another thread was quicker
    gpu.call("unloading code", gpu.driver().unload_module, *module).IgnoreError();
  const std::string name(entry);
  FunctionHandle function = nullptr;
  const absl::Status status = gpu.call("looking for a kernel's entry", gpu.driver().function, &function,
                                       loaded->module, name.c_str());
  if (!status.ok()) return status;
  found_.store(&all_found_.emplace_back(&gpu, name, function, found_.load(std::memory_order_relaxed)),
               std::memory_order_release);
  return function;
}

absl::StatusOr<std::shared_ptr<const CudaKernel>> CudaKernels::get(std::vector<GridPart> parts,
                                                                   int capability, Code code) {
  for (const GridPart& p : parts)
    if (absl::Status s = grid_takes(p.kernel); !s.ok()) return s;
  std::pair key(kernel_texts(parts), schedule_texts(parts));
  std::lock_guard lock(mutex_);
  capability_ = capability;
  if (const auto known = kernels_.find(key); known != kernels_.end())
    if (std::shared_ptr<const CudaKernel> alive = known->second.lock()) return alive;
  auto made =
      std::make_shared<const CudaKernel>(*this, std::move(parts), KernelText{key.first, {}, key.second});
  // Whether there can be code is told now: where there is no generator for what will be made later, too.
  if (code == Code::kNow || build_locked().empty())
    if (const absl::Status machine = machine_code_locked(*made, capability).status(); !machine.ok())
      if (const absl::Status ptx = ptx_locked(*made, capability).status(); !ptx.ok()) return ptx;
  std::erase_if(kernels_, [](const auto& k) { return k.second.expired(); });
  kernels_[std::move(key)] = made;
  return made;
}

absl::StatusOr<AlignedKernel> CudaKernels::get_aligned(std::vector<GridPart> parts, int capability,
                                                       Code code) {
  std::vector<GridPart> inexact;
  if (std::any_of(parts.begin(), parts.end(), [](const GridPart& p) { return p.schedule.exact; })) {
    inexact = parts;
    for (GridPart& p : inexact) p.schedule.exact = false;
  }
  absl::StatusOr<std::shared_ptr<const CudaKernel>> kernel = get(std::move(parts), capability, code);
  if (!kernel.ok()) return kernel.status();
  AlignedKernel out{*std::move(kernel)};
  if (inexact.empty()) return out;
  kernel = get(std::move(inexact), capability, Code::kLater);
  if (!kernel.ok()) return kernel.status();
  out.anywhere = *std::move(kernel);
  return out;
}

absl::StatusOr<std::string> CudaKernels::ptx_locked(const CudaKernel& kernel, int capability) {
  if (!kernel.ptx_.empty()) return kernel.ptx_;
  if (!generator_) generator_ = PtxGenerator::create(library_);
  if (!generator_->ok()) return generator_->status();
  absl::StatusOr<std::string> ptx =
      (*generator_)->ptx(kernel.text_.text, kernel.text_.grid, chip_for(std::min(capability, capability_)));
  if (!ptx.ok()) return ptx.status();
  ++stats_.generated;
  return kernel.ptx_ = str_cat(commented(kernel.text_.text), commented(kernel.text_.grid), *ptx);
}

absl::StatusOr<std::string> CudaKernels::machine_code_locked(const CudaKernel& kernel, int capability) {
  if (const auto known = kernel.machine_code_.find(capability); known != kernel.machine_code_.end())
    return known->second;
  const absl::StatusOr<Assembler>& assembler = assembler_locked();
  if (!assembler.ok()) return assembler.status();
  const std::string key = disk_key(kernel, capability);
  if (!key.empty())
    if (std::optional<std::string> kept = disk_.load(key)) {
      ++stats_.loaded;
      return kernel.machine_code_[capability] = *std::move(kept);
    }
  const absl::StatusOr<std::string> ptx = ptx_locked(kernel, capability);
  if (!ptx.ok()) return ptx.status();
  absl::StatusOr<std::string> code = assembler->assemble(*ptx, capability);
  if (!code.ok()) return code.status();
  ++stats_.assembled;
  if (!key.empty()) disk_.store(key, *code);
  return kernel.machine_code_[capability] = *std::move(code);
}

const absl::StatusOr<Assembler>& CudaKernels::assembler_locked() {
  if (!assembler_) assembler_ = Assembler::open(driver_version_);
  return *assembler_;
}

const std::string& CudaKernels::build_locked() {
  if (!build_)
    build_ = generator_ && generator_->ok() ? (*generator_)->build() : PtxGenerator::build_of(library_);
  return *build_;
}

std::string CudaKernels::disk_key(const CudaKernel& kernel, int capability) {
  if (build_locked().empty()) return "";
  return str_cat("cuda sm_", capability, " from ", chip_for(std::min(capability, capability_)), " nvJitLink ",
                 (*assembler_)->version(), " build ", *build_, "\n", kernel.text_.text, kernel.text_.grid);
}

absl::StatusOr<std::string> CudaKernels::machine_code(const CudaKernel& kernel, int capability) {
  std::lock_guard lock(mutex_);
  return machine_code_locked(kernel, capability);
}
absl::StatusOr<std::string> CudaKernels::ptx(const CudaKernel& kernel, int capability) {
  std::lock_guard lock(mutex_);
  return ptx_locked(kernel, capability);
}

void CudaKernels::set_library(std::string path) {
  std::lock_guard lock(mutex_);
  if (path == library_) return;
  library_ = std::move(path);
  generator_.reset();
  build_.reset();
}

void CudaKernels::set_driver_version(int version) {
  std::lock_guard lock(mutex_);
  driver_version_ = version;
  assembler_.reset();
}

void CudaKernels::set_cache_directory(std::string directory) {
  std::lock_guard lock(mutex_);
  disk_ = DiskCache(std::move(directory));
}

std::string CudaKernels::assembler() {
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Assembler>& found = assembler_locked();
  return found.ok() ? str_cat(found->library(), ", version ", found->version())
                    : str_cat("the driver's own: ", found.status().message());
}

CudaKernelStats CudaKernels::stats() {
  std::lock_guard lock(mutex_);
  CudaKernelStats stats = stats_;
  stats.runs = runs_.load(std::memory_order_relaxed);
  stats.graphs = graphs_.load(std::memory_order_relaxed);
  stats.graph_runs = graph_runs_.load(std::memory_order_relaxed);
  stats.graphs_refused = graphs_refused_.load(std::memory_order_relaxed);
  // Those of which code was made: some are there in case that an address is odd.
  stats.kernels = std::count_if(kernels_.begin(), kernels_.end(), [](const auto& k) {
    const std::shared_ptr<const CudaKernel> alive = k.second.lock();
    return alive && (!alive->ptx_.empty() || !alive->machine_code_.empty());
  });
  return stats;
}

absl::StatusOr<std::string> CudaKernels::ptx(const KernelText& kernel) {
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(std::pair(kernel.text, kernel.grid)); known != kernels_.end())
    if (const std::shared_ptr<const CudaKernel> alive = known->second.lock())
      return ptx_locked(*alive, capability_);
  return absl::UnavailableError("there is no code of this kernel");
}

}  // namespace lamina::jit::cuda
