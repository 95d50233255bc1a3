/* The plain C interface of liblamina_llvm, the only library that contains LLVM.
 *
 * Contract: the library is opened with dlopen and asked for its table by
 * `lamina_llvm_get_api(LAMINA_LLVM_API_VERSION)`, which gives NULL for another number. No C++ type crosses
 * this line: kernels come as texts, which are verified here, texts go as (data, size) pairs owned by a result
 * that the caller frees. Calls into the library must not overlap. Error messages are written, NUL-terminated
 * and cut, to (error, error_size).
 */
#ifndef LAMINA_JIT_CODEGEN_API_H_
#define LAMINA_JIT_CODEGEN_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_LLVM_API_VERSION 6u

/* What to compile: texts of jit/kernel/kernel.h and jit/kernel/schedule.h; for PTX, of one kernel or more
 * with the schedules of jit/kernel/grid_chain.h. */
typedef struct LaminaSource {
  const char* kernel;
  size_t kernel_size;
  const char* schedule;
  size_t schedule_size;
} LaminaSource;

/* cpu: NULL for this machine, else an LLVM name ("x86-64-v3", "x86-64-v4", "znver4"); features: NULL or a
 * list such as
 * "-avx512f,+fma" applied on top; vector_bits: 0 for the target's, else 128, 256 or 512. */
typedef struct LaminaEngineOptions {
  uint32_t struct_size;
  uint32_t vector_bits;
  const char* cpu;
  const char* features;
} LaminaEngineOptions;

typedef struct LaminaEngine LaminaEngine;
typedef struct LaminaCode LaminaCode;
typedef struct LaminaText LaminaText;

typedef struct LaminaCodeInfo {
  uint32_t struct_size;
  uint32_t vector_lanes; /* 0 for code loaded from an object */
  void* entry;
  uint64_t code_bytes;        /* machine code and constants */
  const uint8_t* object_data; /* the relocatable object, valid while the code lives; NULL unless kept */
  uint64_t object_size;
  double emit_ms; /* building the IR */
  double codegen_ms;
  double link_ms;
} LaminaCodeInfo;

enum { LAMINA_TEXT_IR = 0, LAMINA_TEXT_ASM = 1 };

typedef struct LaminaLlvmApi {
  uint32_t version;
  uint32_t struct_size;
  LaminaEngine* (*engine_create)(const LaminaEngineOptions* options, char* error, size_t error_size);
  void (*engine_destroy)(LaminaEngine* engine);
  /* CPU name and feature list of the target, for keys; lives as long as the engine. */
  const char* (*engine_target)(const LaminaEngine* engine);
  LaminaCode* (*compile)(LaminaEngine* engine, const LaminaSource* source, int keep_object, char* error,
                         size_t error_size);
  /* Links bytes that an engine of the same target wrote; the caller vouches for their origin. */
  LaminaCode* (*load_object)(LaminaEngine* engine, const void* data, size_t size, char* error,
                             size_t error_size);
  void (*code_info)(const LaminaCode* code, LaminaCodeInfo* info);
  /* Frees the code's memory; nothing may run in it. */
  void (*code_release)(LaminaEngine* engine, LaminaCode* code);
  LaminaText* (*text)(LaminaEngine* engine, const LaminaSource* source, int kind, char* error,
                      size_t error_size);
  /* PTX for a chip such as "sm_90" (NULL: the least); needs no engine. */
  LaminaText* (*ptx)(const char* chip, const LaminaSource* source, char* error, size_t error_size);
  const char* (*text_data)(const LaminaText* text, size_t* size);
  void (*text_free)(LaminaText* text);
} LaminaLlvmApi;

typedef const LaminaLlvmApi* (*LaminaLlvmGetApi)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* LAMINA_JIT_CODEGEN_API_H_ */
