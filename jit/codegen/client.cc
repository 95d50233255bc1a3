#include "jit/codegen/client.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "hlo/isa.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "jit/client/build_id.h"
#include "jit/client/library_path.h"
#include "jit/codegen/api.h"
#include "jit/codegen/ptx.h"

namespace lamina::jit {
namespace {

constexpr size_t kCompileStack = size_t{64} << 20;
// What is added to the nice value of work that nobody waits for: it gets a tenth of a processor that others
// use.
constexpr int kAsideNice = 10;

// LLVM ends the process where it finds no memory. So it is only called where this much can be had: by the
// whole library with its engine and its thread (measured: 160 MiB of addresses), and by one compile
// (measured: 3 KiB for an instruction, which is a line of the kernel's text).
constexpr size_t kLibraryRoom = size_t{320} << 20;
constexpr size_t kCompileRoom = size_t{64} << 20;
constexpr size_t kTextRoom = 512;

absl::Status check_room(size_t bytes) {
  void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return absl::ResourceExhaustedError(
        absl::StrCat("the machine has no ", bytes >> 20, " MiB of memory left to compile in"));
  munmap(room, bytes);
  return absl::OkStatus();
}

// The threads that run LLVM, one at a time: priority that a thread gave up it does not get back. Deep
// recursion in LLVM's instruction selection needs the large stack. Never destroyed, so that code may be
// released while the process ends.
class CompileThreads final : private hlo::ForkGuarded {
 public:
  static CompileThreads& get() {
    static constinit hlo::Once<CompileThreads> threads;
    return threads.get([] { return new CompileThreads; });
  }

  // Runs the task, whose own allocations may fail.
  absl::Status run(Pace pace, const std::function<void()>& task) {
    std::lock_guard turn(turn_);
    std::unique_lock<std::mutex> lock(mutex_);
    Worker& worker = workers_[static_cast<size_t>(pace)];
    if (!worker.started) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, kCompileStack);
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      pthread_t id;
      const int error =
          pthread_create(&id, &attributes, pace == Pace::kAside ? &serve_aside : &serve_now, this);
      pthread_attr_destroy(&attributes);
      if (error != 0)
        return absl::ResourceExhaustedError(
            absl::StrCat("the compile thread could not start (error ", error, ")"));
      worker.started = true;
    }
    worker.task = &task;
    pthread_cond_signal(&worker.wake);
    while (worker.task != nullptr) pthread_cond_wait(&done_, mutex_.native_handle());
    return std::exchange(out_of_memory_, false) ? absl::ResourceExhaustedError("no memory for a compile")
                                                : absl::OkStatus();
  }

 private:
  struct Worker {
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    bool started = false;
    const std::function<void()>* task = nullptr;
  };

  CompileThreads() : ForkGuarded(hlo::LockRank::kCompiler) {}

  // turn_ is held across the fork, which means that no compile was under way and LLVM's state is whole; only
  // the threads are gone. What their condition variables and mutex were waiting with went with them: they are
  // made anew.
  void before_fork() override {}
  void after_fork(bool in_child) override {
    if (!in_child) return;
    workers_ = {};
    new (&mutex_) std::mutex();
    done_ = PTHREAD_COND_INITIALIZER;
  }

  static void* serve_now(void* self) {
    static_cast<CompileThreads*>(self)->serve(Pace::kNow);
    return nullptr;
  }
  static void* serve_aside(void* self) {
    [[maybe_unused]] const int now = nice(kAsideNice);  // of this thread alone, on Linux
    static_cast<CompileThreads*>(self)->serve(Pace::kAside);
    return nullptr;
  }

  void serve(Pace pace) {
    Worker& worker = workers_[static_cast<size_t>(pace)];
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      while (worker.task == nullptr) pthread_cond_wait(&worker.wake, mutex_.native_handle());
      try {
        (*worker.task)();
      } catch (const std::bad_alloc&) {
        out_of_memory_ = true;
      }
      worker.task = nullptr;
      pthread_cond_signal(&done_);
    }
  }

  hlo::Mutex turn_{hlo::LockRank::kCompiler};  // one caller at a time
  std::mutex mutex_;                           // what follows
  pthread_cond_t done_ = PTHREAD_COND_INITIALIZER;
  std::array<Worker, 2> workers_;  // by Pace
  bool out_of_memory_ = false;
};

std::string path_of(const CodeGeneratorOptions& options) {
  return options.library_path.empty() ? library_path("LAMINA_LLVM_PATH", "liblamina_llvm.so")
                                      : options.library_path;
}

struct Library {
  const LaminaLlvmApi* api;
  std::string build_id;
};

absl::StatusOr<Library> open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return absl::FailedPreconditionError(absl::StrCat("no code generator: ", dlerror()));
  auto get = reinterpret_cast<LaminaLlvmGetApi>(dlsym(handle, "lamina_llvm_get_api"));
  const LaminaLlvmApi* api = get ? get(LAMINA_LLVM_API_VERSION) : nullptr;
  if (!api)
    return absl::FailedPreconditionError(absl::StrCat("no code generator: ", path,
                                                      " is not the liblamina_llvm of this build (interface ",
                                                      LAMINA_LLVM_API_VERSION, ")"));
  return Library{api, build_id_of_loaded(reinterpret_cast<void*>(get))};
}

LaminaSource source_of(const std::string& kernel, const std::string& schedule) {
  return {kernel.data(), kernel.size(), schedule.data(), schedule.size()};
}

double now_ms() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

}  // namespace

namespace internal {

struct GeneratorState {
  const LaminaLlvmApi* api = nullptr;
  LaminaEngine* engine = nullptr;
  std::string target, build;

  ~GeneratorState() {
    if (!engine) return;
    // Without a thread the engine's memory stays, which harms nobody.
    (void)CompileThreads::get().run(Pace::kNow, [this] { api->engine_destroy(engine); });
  }
};

}  // namespace internal

CompiledKernel::CompiledKernel(CompiledKernel&& other) noexcept { *this = std::move(other); }

CompiledKernel& CompiledKernel::operator=(CompiledKernel&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(code_, other.code_);
  std::swap(entry_, other.entry_);
  std::swap(stats_, other.stats_);
  std::swap(object_, other.object_);
  return *this;
}

CompiledKernel::~CompiledKernel() {
  if (!code_) return;
  (void)CompileThreads::get().run(
      Pace::kNow, [this] { state_->api->code_release(state_->engine, static_cast<LaminaCode*>(code_)); });
}

absl::StatusOr<std::unique_ptr<CodeGenerator>> CodeGenerator::create(const CodeGeneratorOptions& options,
                                                                     Pace pace) {
  if (absl::Status status = check_room(kLibraryRoom); !status.ok()) return status;
  absl::StatusOr<Library> library = absl::UnknownError("not opened");
  absl::Status opened = CompileThreads::get().run(pace, [&] { library = open_library(path_of(options)); });
  if (!opened.ok()) return opened;
  if (!library.ok()) return library.status();
  std::string cpu = options.cpu;
  absl::StatusOr<hlo::Isa> limit = hlo::isa_limit();
  if (!limit.ok()) return limit.status();
  if (cpu.empty() && *limit < hlo::Isa::kAvx512)
    cpu = hlo::best_isa() == hlo::Isa::kAvx2 ? "x86-64-v3" : "x86-64";
  auto state = std::make_shared<internal::GeneratorState>();
  state->api = library->api;
  char error[1024] = "";
  absl::Status status = CompileThreads::get().run(pace, [&] {
    LaminaEngineOptions raw = {};
    raw.struct_size = sizeof(raw);
    raw.vector_bits = options.vector_bits;
    raw.cpu = cpu.empty() ? nullptr : cpu.c_str();
    raw.features = options.features.empty() ? nullptr : options.features.c_str();
    state->engine = state->api->engine_create(&raw, error, sizeof(error));
    if (state->engine) state->target = state->api->engine_target(state->engine);
  });
  if (!status.ok()) return status;
  if (!state->engine) return absl::FailedPreconditionError(error);
  state->build = library->build_id;
  return std::unique_ptr<CodeGenerator>(new CodeGenerator(std::move(state)));
}

const std::string& CodeGenerator::target() const { return state_->target; }
const std::string& CodeGenerator::build() const { return state_->build; }

std::string CodeGenerator::build_of(const CodeGeneratorOptions& options) {
  return build_id_of_file(path_of(options));
}

namespace {

// Fills everything of the result that comes from the library.
struct Produced {
  LaminaCode* code = nullptr;
  LaminaCodeInfo info = {};
  std::string object;
  char error[1024] = "";

  void take(const LaminaLlvmApi& api, LaminaCode* made) {
    code = made;
    if (!code) return;
    info.struct_size = sizeof(info);
    api.code_info(code, &info);
    if (info.object_data) object.assign(reinterpret_cast<const char*>(info.object_data), info.object_size);
  }
};

// The text that the library makes, or what it wrote to `error`.
absl::StatusOr<std::string> take_text(const LaminaLlvmApi& api, const std::function<LaminaText*()>& make,
                                      const char* error) {
  std::string result;
  bool ok = false;
  absl::Status status = CompileThreads::get().run(Pace::kNow, [&] {
    LaminaText* text = make();
    if (!text) return;
    size_t size = 0;
    const char* data = api.text_data(text, &size);
    result.assign(data, size);
    api.text_free(text);
    ok = true;
  });
  if (!status.ok()) return status;
  if (!ok) return absl::InternalError(error);
  return result;
}

CompileStats stats_of(const LaminaCodeInfo& info, double total_ms) {
  return {info.code_bytes, info.vector_lanes, info.emit_ms, info.codegen_ms, info.link_ms, total_ms};
}

}  // namespace

absl::StatusOr<CompiledKernel> CodeGenerator::compile(const std::string& kernel, const Schedule& schedule,
                                                      bool keep_object, Pace pace) const {
  if (absl::Status status = check_room(kCompileRoom + kernel.size() * kTextRoom); !status.ok()) return status;
  const double start = now_ms();
  const std::string how = to_string(schedule);
  const LaminaSource source = source_of(kernel, how);
  Produced made;
  absl::Status status = CompileThreads::get().run(pace, [&] {
    made.take(*state_->api,
              state_->api->compile(state_->engine, &source, keep_object, made.error, sizeof(made.error)));
  });
  if (!status.ok()) return status;
  if (!made.code) return absl::InternalError(absl::StrCat("a kernel did not compile: ", made.error));
  CompiledKernel result;
  result.state_ = state_;
  result.code_ = made.code;
  result.entry_ = reinterpret_cast<KernelEntry>(made.info.entry);
  result.stats_ = stats_of(made.info, now_ms() - start);
  result.object_ = std::move(made.object);
  return result;
}

absl::StatusOr<CompiledKernel> CodeGenerator::load(std::span<const char> object) const {
  if (absl::Status status = check_room(kCompileRoom + object.size()); !status.ok()) return status;
  const double start = now_ms();
  Produced made;
  absl::Status status = CompileThreads::get().run(Pace::kNow, [&] {
    made.take(*state_->api, state_->api->load_object(state_->engine, object.data(), object.size(), made.error,
                                                     sizeof(made.error)));
  });
  if (!status.ok()) return status;
  if (!made.code)
    return absl::InvalidArgumentError(absl::StrCat("a saved kernel did not load: ", made.error));
  CompiledKernel result;
  result.state_ = state_;
  result.code_ = made.code;
  result.entry_ = reinterpret_cast<KernelEntry>(made.info.entry);
  result.stats_ = stats_of(made.info, now_ms() - start);
  return result;
}

absl::StatusOr<std::string> CodeGenerator::text(const std::string& kernel, const Schedule& schedule,
                                                int kind) const {
  const std::string how = to_string(schedule);
  const LaminaSource source = source_of(kernel, how);
  char error[1024] = "";
  return take_text(
      *state_->api, [&] { return state_->api->text(state_->engine, &source, kind, error, sizeof(error)); },
      error);
}

absl::StatusOr<PtxGenerator> PtxGenerator::create(const std::string& library_path) {
  if (absl::Status status = check_room(kLibraryRoom); !status.ok()) return status;
  CodeGeneratorOptions options;
  options.library_path = library_path;
  auto library = open_library(path_of(options));
  if (!library.ok()) return library.status();
  return PtxGenerator(library->api, library->build_id);
}

std::string PtxGenerator::build_of(const std::string& library_path) {
  CodeGeneratorOptions options;
  options.library_path = library_path;
  return CodeGenerator::build_of(options);
}

absl::StatusOr<std::string> PtxGenerator::ptx(const std::string& kernels, const std::string& schedules,
                                              const std::string& chip) const {
  if (absl::Status status = check_room(kCompileRoom + kernels.size() * kTextRoom); !status.ok())
    return status;
  const LaminaSource source = source_of(kernels, schedules);
  char error[1024] = "";
  return take_text(
      *api_, [&] { return api_->ptx(chip.c_str(), &source, error, sizeof(error)); }, error);
}

absl::StatusOr<std::string> CodeGenerator::ir(const std::string& kernel, const Schedule& schedule) const {
  return text(kernel, schedule, LAMINA_TEXT_IR);
}

absl::StatusOr<std::string> CodeGenerator::assembly(const std::string& kernel,
                                                    const Schedule& schedule) const {
  return text(kernel, schedule, LAMINA_TEXT_ASM);
}

}  // namespace lamina::jit
