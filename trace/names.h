// Transforms say everything in the words of hlo/: graphs in, graphs out.
#ifndef LAMINA_TRACE_NAMES_H_
#define LAMINA_TRACE_NAMES_H_

#include "hlo/batching.h"
#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/custom_rule.h"
#include "hlo/graph.h"
#include "hlo/strings.h"

namespace lamina::trace {

using namespace hlo;

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_NAMES_H_
