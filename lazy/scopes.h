// The open transforms of a thread.
#ifndef LAMINA_LAZY_SCOPES_H_
#define LAMINA_LAZY_SCOPES_H_

#include <cstdint>
#include <vector>

#include "hlo/graph.h"

namespace lamina::lazy {

// One open transform: values with at least its stamp belong to it.
struct Scope {
  enum Kind : uint8_t { kJit, kVmap, kDerivative } kind;
  uint32_t stamp;
};

// Scopes of this thread, outermost first.
std::vector<Scope>& open_scopes();

class ScopeGuard {
 public:
  ScopeGuard(Scope::Kind kind, uint32_t stamp) { open_scopes().push_back({kind, stamp}); }
  ~ScopeGuard() { open_scopes().pop_back(); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
};

// Least stamp of an open scope; UINT32_MAX if there is none.
uint32_t lowest_open_stamp();
// Whether a jit trace is open on this thread.
bool inside_jit();

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_SCOPES_H_
