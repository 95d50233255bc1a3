// Lamina's C++ API: tensors, operations, random numbers, function transforms, control flow,
// collectives of named axes, host callbacks.
#ifndef LAMINA_LAMINA_H_
#define LAMINA_LAMINA_H_

#include "lamina/axes.h"
#include "lamina/cache.h"
#include "lamina/checks.h"
#include "lamina/control.h"
#include "lamina/device.h"
#include "lamina/effects.h"
#include "lamina/implicit.h"
#include "lamina/linalg.h"
#include "lamina/numerics.h"
#include "lamina/ops.h"
#include "lamina/plan.h"
#include "lamina/random.h"
#include "lamina/recursion.h"
#include "lamina/trace.h"
#include "lamina/transforms.h"

#endif  // LAMINA_LAMINA_H_
