#include "lazy/escape.h"

#include "hlo/host_lock.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "lazy/location_text.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using hlo::Node;
using hlo::Op;

// Whether transforms of another thread may lie beneath.
bool is_foreign(const Node& n) {
  return n.stamp() != 0 && (n.session() != hlo::record_state().session || n.shared());
}

// An argument of an open derivative: an identity with its scope's stamp, or one that is open elsewhere. The
// graph lock is held.
bool is_open_argument(const Node& n) {
  if (n.op() != Op::identity) return false;
  if (is_foreign(n) && hlo::is_open(n)) return true;
  for (const Scope& s : open_scopes())
    if (s.kind == Scope::kDerivative && s.stamp == n.stamp()) return true;
  return false;
}

uint32_t lowest_derivative() {
  for (const Scope& s : open_scopes())
    if (s.kind == Scope::kDerivative) return s.stamp;
  return ~uint32_t{0};
}

}  // namespace

bool differentiated(const Value& value) {
  uint32_t lowest = is_foreign(*value.node()) ? 1 : lowest_derivative();
  if (!hlo::is_inexact(value.dtype()) || value.node()->stamp() < lowest) return false;
  auto stop = [](const Node& n, void* least) {
    return n.stamp() < *static_cast<uint32_t*>(least) || n.op() == Op::stop_gradient ||
           (!n.type()->is_tuple() && !hlo::is_inexact(n.type()->dtype)) || is_open_argument(n);
  };
  hlo::GraphLock lock;
  for (const Node* n : hlo::postorder(std::span(&value, 1), stop, &lowest))
    if (is_open_argument(*n) && hlo::is_inexact(n->type()->dtype)) return true;
  return false;
}

void check_may_leave(const Value& value, std::string_view what) {
  if (!differentiated(value)) return;
  throw Error(
      ErrorKind::kType,
      str_cat(what, " of ", hlo::to_string(*value.type()), " made", location_text(value.node()->location()),
              ": it is being differentiated, and a number that leaves loses its derivative; compute "
              "with the tensor, or take stop_gradient of it first"));
}

}  // namespace lamina::lazy
