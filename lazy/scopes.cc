#include "lazy/scopes.h"

namespace lamina::lazy {

std::vector<Scope>& open_scopes() {
  thread_local std::vector<Scope> scopes;
  return scopes;
}

uint32_t& suspended_from() {
  thread_local uint32_t stamp = ~uint32_t{0};
  return stamp;
}

uint32_t lowest_open_stamp() { return open_scopes().empty() ? ~uint32_t{0} : open_scopes().front().stamp; }

bool in_open_scope(const hlo::Value& value) {
  const hlo::Node& n = *value.node();
  if (n.stamp() == 0) return false;  // made outside of all
  if (n.session() == hlo::record_state().session && !n.shared()) return n.stamp() >= lowest_open_stamp();
  hlo::GraphLock lock;
  return hlo::is_open(n);
}

bool inside_jit() {
  for (const Scope& s : open_scopes())
    if (s.kind == Scope::kJit) return true;
  return false;
}

}  // namespace lamina::lazy
