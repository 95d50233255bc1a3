// The open transforms of a thread.
#ifndef LAMINA_LAZY_SCOPES_H_
#define LAMINA_LAZY_SCOPES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
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
// Least stamp of a scope that is suspended on this thread; UINT32_MAX if there is none.
uint32_t& suspended_from();

class ScopeGuard {
 public:
  ScopeGuard(Scope::Kind kind, uint32_t stamp, std::vector<hlo::Value> parameters = {}) {
    hlo::session_number();  // the first call of a thread may run out of memory
    open_scopes().push_back({kind, stamp, std::move(parameters)});
    if (is_outermost()) hlo::set_lowest_open(stamp);
  }
  ~ScopeGuard() {
    if (is_outermost()) hlo::set_lowest_open(~uint32_t{0});
    open_scopes().pop_back();
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  static bool is_outermost() { return open_scopes().size() == 1 && suspended_from() == ~uint32_t{0}; }
};

// Closes the innermost scopes for a while, down to `depth` of them: what happens meanwhile is not part of
// their traces. What was recorded in them keeps its operands, and is computed only where it is asked for.
class ScopesSuspended {
 public:
  ScopesSuspended(size_t depth, uint32_t floor) : floor_(floor), saved_(suspended_from()) {
    std::vector<Scope>& scopes = open_scopes();
    depth = std::min(depth, scopes.size());
    const auto first = scopes.begin() + static_cast<ptrdiff_t>(depth);
    suspended_.assign(std::move_iterator(first), std::move_iterator(scopes.end()));
    scopes.erase(first, scopes.end());
    if (!suspended_.empty()) suspended_from() = std::min(saved_, suspended_.front().stamp);
  }
  ~ScopesSuspended() {
    // Moved back to where there is room for them: a destructor may not ask for memory.
    open_scopes().insert(open_scopes().end(), std::move_iterator(suspended_.begin()),
                         std::move_iterator(suspended_.end()));
    suspended_from() = saved_;
  }
  ScopesSuspended(const ScopesSuspended&) = delete;
  ScopesSuspended& operator=(const ScopesSuspended&) = delete;

 private:
  hlo::FloorScope floor_;
  uint32_t saved_;
  std::vector<Scope> suspended_;
};

// Whether this thread has no transform open, not even one that is suspended.
inline bool nothing_open() { return open_scopes().empty() && suspended_from() == ~uint32_t{0}; }
// Stamp of the innermost open scope; 0 if there is none.
inline uint32_t innermost_stamp() {
  const std::vector<Scope>& scopes = open_scopes();
  return scopes.empty() ? 0 : scopes.back().stamp;
}
// Least stamp of an open scope; UINT32_MAX if there is none.
uint32_t lowest_open_stamp();
// Whether the value belongs to a scope that is open on this thread, or to one of another thread.
bool in_open_scope(const hlo::Value& value);
// Whether a jit trace is open on this thread.
bool inside_jit();

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_SCOPES_H_
