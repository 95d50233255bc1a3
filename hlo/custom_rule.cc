#include "hlo/custom_rule.h"

#include <mutex>

#include "absl/container/flat_hash_map.h"

namespace lamina::hlo {
namespace {

struct Entry {
  std::shared_ptr<CustomRule> rule;
  absl::flat_hash_map<std::string, int64_t> derived;
};

struct Registry {
  std::mutex mutex;
  absl::flat_hash_map<int64_t, Entry> rules;
  int64_t last = 0;

  static Registry& get() {
    static Registry* r = new Registry;  // rules may be looked up during static destruction
    return *r;
  }
};

}  // namespace

JvpResult CustomRule::jvp(Builder& b, std::span<const Value>, std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no jvp"));
  return {};
}

CustomRule::Forward CustomRule::forward(Builder& b, std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no forward pass"));
  return {};
}

Values CustomRule::backward(Builder& b, std::span<const Value>, std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no backward pass"));
  return {};
}

int64_t register_custom_rule(std::shared_ptr<CustomRule> rule) {
  Registry& r = Registry::get();
  std::lock_guard lock(r.mutex);
  r.rules.emplace(++r.last, Entry{std::move(rule), {}});
  return r.last;
}

void unregister_custom_rule(int64_t id) {
  std::vector<Entry> dropped;  // destroyed after the lock is let go
  Registry& r = Registry::get();
  std::lock_guard lock(r.mutex);
  std::vector<int64_t> ids{id};
  while (!ids.empty()) {
    auto it = r.rules.find(ids.back());
    ids.pop_back();
    if (it == r.rules.end()) continue;
    for (const auto& [key, derived] : it->second.derived) ids.push_back(derived);
    dropped.push_back(std::move(it->second));
    r.rules.erase(it);
  }
}

std::shared_ptr<CustomRule> find_custom_rule(int64_t id) {
  Registry& r = Registry::get();
  std::lock_guard lock(r.mutex);
  auto it = r.rules.find(id);
  return it == r.rules.end() ? nullptr : it->second.rule;
}

int64_t derived_custom_rule(int64_t id, const std::string& key,
                            const std::function<std::shared_ptr<CustomRule>()>& make) {
  Registry& r = Registry::get();
  std::lock_guard lock(r.mutex);
  auto it = r.rules.find(id);
  if (it == r.rules.end()) return 0;
  if (auto found = it->second.derived.find(key); found != it->second.derived.end()) return found->second;
  const int64_t made = ++r.last;
  it->second.derived.emplace(key, made);
  r.rules.emplace(made, Entry{make(), {}});
  return made;
}

Values custom_call_with_rule(Builder& b, int64_t rule, ComputationPtr body, std::span<const Value> operands) {
  return b.make_multi(Op::call, operands, intern_attrs({{Attr::body, std::move(body)}, {Attr::rule, rule}}));
}

}  // namespace lamina::hlo
