// The exported table: texts in, opaque handles out.
#include "jit/codegen/api.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/codegen/nvptx.h"
#include "jit/codegen/orc.h"
#include "jit/kernel/grid_chain.h"
#include "jit/kernel/schedule.h"

using lamina::jit::GridPart;
using lamina::jit::LoopKernel;
using lamina::jit::Schedule;
using lamina::jit::codegen::Code;
using lamina::jit::codegen::OrcCompiler;

struct LaminaEngine {
  std::unique_ptr<OrcCompiler> engine;
};
struct LaminaCode {
  std::unique_ptr<Code> code;
};
struct LaminaText {
  std::string text;
};

namespace {

// A source that was read; words in place of what could not be.
template <class Parsed>
std::optional<Parsed> read(absl::StatusOr<Parsed> parsed, char* error, size_t error_size) {
  if (parsed.ok()) return *std::move(parsed);
  if (error_size > 0)
    std::snprintf(error, error_size, "%.*s", static_cast<int>(parsed.status().message().size()),
                  parsed.status().message().data());
  return std::nullopt;
}

struct ScheduledKernel {
  LoopKernel kernel;
  Schedule schedule;
};

absl::StatusOr<ScheduledKernel> scheduled_kernel(const LaminaSource& source) {
  absl::StatusOr<LoopKernel> kernel = lamina::jit::parse_kernel({source.kernel, source.kernel_size});
  if (!kernel.ok()) return kernel.status();
  const absl::StatusOr<Schedule> schedule =
      lamina::jit::parse_schedule({source.schedule, source.schedule_size});
  if (!schedule.ok()) return schedule.status();
  drop_unused(*kernel);
  return ScheduledKernel{*std::move(kernel), *schedule};
}

absl::StatusOr<std::vector<GridPart>> grid_parts(const LaminaSource& source) {
  absl::StatusOr<std::vector<GridPart>> parts = lamina::jit::parse_grid_parts(
      {source.kernel, source.kernel_size}, {source.schedule, source.schedule_size});
  if (parts.ok())
    for (GridPart& p : *parts) drop_unused(p.kernel);
  return parts;
}

void set_error(llvm::Error error, char* buffer, size_t size) {
  const std::string message = llvm::toString(std::move(error));
  if (size > 0) std::snprintf(buffer, size, "%s", message.c_str());
}

LaminaEngine* engine_create(const LaminaEngineOptions* options, char* error, size_t error_size) {
  auto engine = OrcCompiler::create(*options);
  if (!engine) {
    set_error(engine.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaEngine{std::move(*engine)};
}

void engine_destroy(LaminaEngine* engine) { delete engine; }

const char* engine_target(const LaminaEngine* engine) { return engine->engine->target_text().c_str(); }

LaminaCode* take_code(llvm::Expected<std::unique_ptr<Code>> code, char* error, size_t error_size) {
  if (!code) {
    set_error(code.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaCode{std::move(*code)};
}

LaminaCode* compile(LaminaEngine* engine, const LaminaSource* source, int keep_object, char* error,
                    size_t error_size) {
  const auto from = read(scheduled_kernel(*source), error, error_size);
  if (!from) return nullptr;
  return take_code(engine->engine->compile(from->kernel, from->schedule, keep_object != 0), error,
                   error_size);
}

LaminaCode* load_object(LaminaEngine* engine, const void* data, size_t size, char* error, size_t error_size) {
  return take_code(engine->engine->load(llvm::StringRef(static_cast<const char*>(data), size)), error,
                   error_size);
}

void code_info(const LaminaCode* code, LaminaCodeInfo* info) {
  const uint32_t size = info->struct_size;
  LaminaCodeInfo full = code->code->info;
  full.struct_size = sizeof(full);
  std::memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
}

void code_release(LaminaEngine* engine, LaminaCode* code) {
  engine->engine->release(std::move(code->code));
  delete code;
}

LaminaText* take_text(llvm::Expected<std::string> text, char* error, size_t error_size) {
  if (!text) {
    set_error(text.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaText{std::move(*text)};
}

LaminaText* make_text(LaminaEngine* engine, const LaminaSource* source, int kind, char* error,
                      size_t error_size) {
  const auto from = read(scheduled_kernel(*source), error, error_size);
  if (!from) return nullptr;
  return take_text(engine->engine->text(from->kernel, from->schedule, kind), error, error_size);
}

LaminaText* make_ptx_text(const char* chip, const LaminaSource* source, char* error, size_t error_size) {
  const auto from = read(grid_parts(*source), error, error_size);
  if (!from) return nullptr;
  return take_text(lamina::jit::codegen::make_ptx(*from, chip ? chip : ""), error, error_size);
}

const char* text_data(const LaminaText* text, size_t* size) {
  *size = text->text.size();
  return text->text.data();
}

void text_free(LaminaText* text) { delete text; }

constexpr LaminaLlvmApi kApi = {
    LAMINA_LLVM_API_VERSION,
    sizeof(LaminaLlvmApi),
    engine_create,
    engine_destroy,
    engine_target,
    compile,
    load_object,
    code_info,
    code_release,
    make_text,
    make_ptx_text,
    text_data,
    text_free,
};

}  // namespace

// The process may end in the midst of a compile, whose thread works on while exit() runs the destructors of
// static objects: those of this library, LLVM's among them, are not registered. It is never unloaded.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

extern "C" __attribute__((visibility("default"))) const LaminaLlvmApi* lamina_llvm_get_api(uint32_t version) {
  return version == LAMINA_LLVM_API_VERSION ? &kApi : nullptr;
}
