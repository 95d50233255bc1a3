#include "lamina/numerics.h"

#include <utility>

#include "hlo/graph.h"
#include "lazy/api/variable.h"

namespace lamina {

static_assert(static_cast<uint8_t>(Numerics::kFast) == static_cast<uint8_t>(hlo::Numerics::kFast));

NumericsScope::NumericsScope(Numerics numerics)
    : saved_(std::exchange(hlo::record_state().mode, static_cast<uint8_t>(numerics))) {}
NumericsScope::~NumericsScope() { hlo::record_state().mode = saved_; }

DefaultTypesScope::DefaultTypesScope(DefaultTypes types, std::source_location where)
    : floating_(detail::from_hlo(lazy::default_types().floating)),
      integer_(detail::from_hlo(lazy::default_types().integer)) {
  detail::located(where, [&] {
    const hlo::DType f = detail::to_hlo(types.floating.value_or(floating_));
    const hlo::DType i = detail::to_hlo(types.integer.value_or(integer_));
    if (!hlo::is_float(f) || hlo::bit_width(f) < 16)
      detail::fail(ErrorKind::kType, str_cat(name(detail::from_hlo(f)), " cannot be the default float"));
    if (!hlo::is_integer(i) || !hlo::is_signed(i) || hlo::bit_width(i) < 8)
      detail::fail(ErrorKind::kType, str_cat(name(detail::from_hlo(i)), " cannot be the default integer"));
    lazy::default_types() = {f, i};
    return 0;
  });
}
DefaultTypesScope::~DefaultTypesScope() {
  lazy::default_types() = {detail::to_hlo(floating_), detail::to_hlo(integer_)};
}

}  // namespace lamina
