#include "trace/transform_memo.h"

#include <list>

#include "hlo/hash_map.h"
#include "hlo/nodes.h"
#include "hlo/once.h"
#include "hlo/op.h"

namespace lamina::trace {
namespace {

// Guarded by the graph lock, like all that is recorded.
struct Memo {
  struct Entry {
    std::string key;
    std::vector<ComputationPtr> of;  // kept, so that their addresses stay theirs
    Transformed made;
  };
  std::list<Entry> last_used;  // the last one first
  HashMap<std::string, std::list<Entry>::iterator> entries;

  static Memo& get() {
    static constinit hlo::Once<Memo> memo;
    return memo.get();
  }
};

bool has_rule(const Node& n) {
  return n.def().family == hlo::OpFamily::kControl && n.attrs().has(Attr::rule);
}

}  // namespace

void forget_transformed() {
  GraphLock lock;
  Memo::get().entries.clear();
  Memo::get().last_used.clear();
}

std::string option_text(std::string_view what, std::initializer_list<std::span<const bool>> masks,
                        int64_t number) {
  std::string out = str_cat(what, "/", number, "/", static_cast<int64_t>(hlo::record_state().mode));
  for (const std::span<const bool> mask : masks) {
    out.push_back('/');
    for (const bool marked : mask) out.push_back(marked ? 'x' : '.');
  }
  return out;
}

absl::StatusOr<Transformed> remembered(std::initializer_list<const Computation*> of, std::string options,
                                       const std::function<absl::StatusOr<Transformed>()>& make) {
  GraphLock lock;
  std::vector<ComputationPtr> kept;
  std::string key = std::move(options);
  for (const Computation* c : of) {
    if (anywhere(*c, has_rule)) return make();
    absl::StatusOr<ComputationPtr> self = Computation::make(c->parameters(), c->roots());
    if (!self.ok()) return self.status();
    str_append(&key, "/", reinterpret_cast<uintptr_t>(self->get()));
    kept.push_back(*std::move(self));
  }
  Memo& memo = Memo::get();
  if (const auto found = memo.entries.find(key); found != memo.entries.end()) {
    memo.last_used.splice(memo.last_used.begin(), memo.last_used, found->second);
    return found->second->made;
  }
  absl::StatusOr<Transformed> made = make();
  if (!made.ok() || memo.entries.contains(key)) return made;
  memo.last_used.push_front({key, std::move(kept), *made});
  try {
    memo.entries.emplace(std::move(key), memo.last_used.begin());
  } catch (...) {
    memo.last_used.pop_front();
    throw;
  }
  if (memo.last_used.size() > kMaxRemembered) {
    memo.entries.erase(memo.last_used.back().key);
    memo.last_used.pop_back();
  }
  return made;
}

}  // namespace lamina::trace
