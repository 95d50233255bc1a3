// The open transforms of a thread.
#ifndef LAMINA_LAZY_SCOPES_H_
#define LAMINA_LAZY_SCOPES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hlo/graph.h"

namespace lamina::lazy {

// One open transform: values with at least its stamp belong to it.
struct Scope {
  enum Kind : uint8_t { kJit, kVmap, kDerivative } kind;
  uint32_t stamp;
  std::vector<hlo::Value> parameters = {};  // of jit and vmap: what is unbound until it closes
};

// Scopes of this thread, outermost first.
std::vector<Scope>& open_scopes();

class ScopeGuard {
 public:
  ScopeGuard(Scope::Kind kind, uint32_t stamp, std::vector<hlo::Value> parameters = {}) {
    open_scopes().push_back({kind, stamp, std::move(parameters)});
  }
  ~ScopeGuard() { open_scopes().pop_back(); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
};

// Closes the innermost scopes for a while, down to `depth` of them: what happens meanwhile is not part of
// their traces.
class ScopesSuspended {
 public:
  ScopesSuspended(size_t depth, uint32_t floor) : floor_(floor) {
    std::vector<Scope>& scopes = open_scopes();
    depth = std::min(depth, scopes.size());
    suspended_.assign(scopes.begin() + depth, scopes.end());
    scopes.resize(depth);
  }
  ~ScopesSuspended() { open_scopes().insert(open_scopes().end(), suspended_.begin(), suspended_.end()); }
  ScopesSuspended(const ScopesSuspended&) = delete;
  ScopesSuspended& operator=(const ScopesSuspended&) = delete;

 private:
  hlo::FloorScope floor_;
  std::vector<Scope> suspended_;
};

// Stamp of the innermost open scope; 0 if there is none.
inline uint32_t innermost_stamp() {
  const std::vector<Scope>& scopes = open_scopes();
  return scopes.empty() ? 0 : scopes.back().stamp;
}
// Least stamp of an open scope; UINT32_MAX if there is none.
uint32_t lowest_open_stamp();
// Whether a jit trace is open on this thread.
bool inside_jit();

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_SCOPES_H_
