#include "blocking_generator.h"

#include <cstdio>
#include <thread>

#include "jit/codegen/api.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

BlockingGenerator generator;
int engine;  // its address is what engine_create gives

LaminaCode* compile(LaminaEngine*, const LaminaSource*, int, char* error, size_t size) {
  ++generator.calls;
  while (!generator.may_end) std::this_thread::yield();
  std::snprintf(error, size, "this generator compiles nothing");
  return nullptr;
}

const LaminaLlvmApi api = {
    .version = LAMINA_LLVM_API_VERSION,
    .struct_size = sizeof(LaminaLlvmApi),
    .engine_create = [](const LaminaEngineOptions*, char*,
                        size_t) { return reinterpret_cast<LaminaEngine*>(&engine); },
    .engine_destroy = [](LaminaEngine*) {},
    .engine_target = [](const LaminaEngine*) { return "none"; },
    .compile = compile,
    .load_object = [](LaminaEngine*, const void*, size_t, char*, size_t) -> LaminaCode* { return nullptr; },
    .code_info = [](const LaminaCode*, LaminaCodeInfo*) {},
    .code_release = [](LaminaEngine*, LaminaCode*) {},
    .text = [](LaminaEngine*, const LaminaSource*, int, char*, size_t) -> LaminaText* { return nullptr; },
    .ptx = [](const char*, const LaminaSource*, char*, size_t) -> LaminaText* { return nullptr; },
    .text_data = [](const LaminaText*, size_t*) { return ""; },
    .text_free = [](LaminaText*) {},
};

}  // namespace

EXPORTED BlockingGenerator* blocking_generator() { return &generator; }
EXPORTED const LaminaLlvmApi* lamina_llvm_get_api(uint32_t) { return &api; }
