#include "lamina/numerics.h"

#include <utility>

#include "hlo/graph.h"

namespace lamina {

static_assert(static_cast<uint8_t>(Numerics::kFast) == static_cast<uint8_t>(hlo::Numerics::kFast));

NumericsScope::NumericsScope(Numerics numerics)
    : saved_(std::exchange(hlo::record_state().mode, static_cast<uint8_t>(numerics))) {}
NumericsScope::~NumericsScope() { hlo::record_state().mode = saved_; }

}  // namespace lamina
