/* The plain C interface of liblamina_onednn, the only library that uses oneDNN.
 *
 * Contract: the library is opened with dlopen and asked for its table by
 * `lamina_onednn_get_api(LAMINA_ONEDNN_API_VERSION)`, which gives NULL for another version. A routine is made
 * once for its shapes and may then run on several threads at once, each run on its own thread only.
 * Error messages are written, NUL-terminated and cut, to (error, error_size).
 */
#ifndef LAMINA_JIT_CPU_ONEDNN_API_H_
#define LAMINA_JIT_CPU_ONEDNN_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_ONEDNN_API_VERSION 1u
#define LAMINA_ONEDNN_MAX_RANK 6
#define LAMINA_ONEDNN_MAX_SPATIAL 3

typedef enum LaminaOnednnType { LAMINA_ONEDNN_F32 = 0, LAMINA_ONEDNN_BF16 = 1 } LaminaOnednnType;

/* Dimensions and strides in elements. */
typedef struct LaminaOnednnArray {
  uint32_t type;
  uint32_t rank;
  int64_t dims[LAMINA_ONEDNN_MAX_RANK];
  int64_t strides[LAMINA_ONEDNN_MAX_RANK];
} LaminaOnednnArray;

/* input [batch, features, spatial...], filter [groups, output features, input features, spatial...], output
 * [batch, features, spatial...]; dilation 1 is none. */
typedef struct LaminaOnednnConvolution {
  LaminaOnednnArray input, filter, output;
  int64_t stride[LAMINA_ONEDNN_MAX_SPATIAL];
  int64_t dilation[LAMINA_ONEDNN_MAX_SPATIAL];
  int64_t pad_low[LAMINA_ONEDNN_MAX_SPATIAL];
  int64_t pad_high[LAMINA_ONEDNN_MAX_SPATIAL];
} LaminaOnednnConvolution;

typedef struct LaminaOnednnRoutine LaminaOnednnRoutine;

typedef struct LaminaOnednnApi {
  uint32_t version;
  /* c [batch, m, n] = a [batch, m, k] * b [batch, k, n]. NULL, with the reason, where oneDNN has no code of
   * its own for the shapes, types and this CPU. */
  LaminaOnednnRoutine* (*matmul)(const LaminaOnednnArray* a, const LaminaOnednnArray* b,
                                 const LaminaOnednnArray* c, char* error, size_t error_size);
  LaminaOnednnRoutine* (*convolution)(const LaminaOnednnConvolution* shape, char* error, size_t error_size);
  /* What `run` needs besides, at an address divisible by 64. */
  size_t (*scratch_bytes)(const LaminaOnednnRoutine*);
  /* 0, or not, with the reason. */
  int (*run)(const LaminaOnednnRoutine*, const void* a, const void* b, void* c, void* scratch, char* error,
             size_t error_size);
  void (*release)(LaminaOnednnRoutine*);
} LaminaOnednnApi;

typedef const LaminaOnednnApi* (*LaminaOnednnGetApi)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* LAMINA_JIT_CPU_ONEDNN_API_H_ */
