#include "hlo/custom_rule.h"

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"

namespace lamina::hlo {
namespace {

struct Entry {
  std::shared_ptr<CustomRule> rule;
  int64_t root;  // the rule that it was derived from in the end, or itself: counts its owners
  int64_t owners;
  HashMap<std::string, int64_t> derived;
};

struct RuleRegistry {
  Mutex mutex{LockRank::kRules};
  HashMap<int64_t, Entry> rules;
  int64_t last = 0;

  static RuleRegistry& get() {
    static constinit Once<RuleRegistry> r;  // rules may be looked up during static destruction
    return r.get();
  }
};

}  // namespace

JvpResult CustomRule::jvp(Builder& b, std::span<const Value>, std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no jvp"));
  return {};
}

Values CustomRule::transpose(Builder& b, std::span<const Value>, std::span<const bool>,
                             std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no transpose"));
  return {};
}

BatchResult CustomRule::batch(Builder& b, std::span<const Value>, std::span<const bool>, int64_t) {
  b.fail(absl::UnimplementedError("this custom rule has no batched form"));
  return {};
}

CustomRule::Forward CustomRule::forward(Builder& b, std::span<const Value>, std::span<const bool>) {
  b.fail(absl::UnimplementedError("this custom rule has no forward pass"));
  return {};
}

Values CustomRule::backward(Builder& b, const Form&, std::span<const Value>, std::span<const Value>) {
  b.fail(absl::UnimplementedError("this custom rule has no backward pass"));
  return {};
}

int64_t register_custom_rule(std::shared_ptr<CustomRule> rule) {
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  const int64_t id = ++r.last;
  r.rules.emplace(id, Entry{std::move(rule), id, 1, {}});
  return id;
}

void retain_custom_rule(int64_t id) {
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  if (auto it = r.rules.find(id); it != r.rules.end()) ++r.rules.at(it->second.root).owners;
}

void release_custom_rule(int64_t id) {
  std::vector<Entry> dropped;  // destroyed after the lock is let go
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  const auto named = r.rules.find(id);
  if (named == r.rules.end()) return;
  const int64_t root = named->second.root;
  if (--r.rules.at(root).owners > 0) return;
  std::vector<int64_t> ids{root};
  while (!ids.empty()) {
    const auto it = r.rules.find(ids.back());
    ids.pop_back();
    for (const auto& [key, derived] : it->second.derived) ids.push_back(derived);
    dropped.push_back(std::move(it->second));
    r.rules.erase(it);
  }
}

int64_t custom_rule_owners(int64_t id) {
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  const auto it = r.rules.find(id);
  return it == r.rules.end() ? 0 : r.rules.at(it->second.root).owners;
}

std::shared_ptr<CustomRule> find_custom_rule(int64_t id) {
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  auto it = r.rules.find(id);
  return it == r.rules.end() ? nullptr : it->second.rule;
}

int64_t derived_custom_rule(int64_t id, const std::string& key,
                            const std::function<std::shared_ptr<CustomRule>()>& make) {
  RuleRegistry& r = RuleRegistry::get();
  std::lock_guard lock(r.mutex);
  auto it = r.rules.find(id);
  if (it == r.rules.end()) return 0;
  if (auto found = it->second.derived.find(key); found != it->second.derived.end()) return found->second;
  const int64_t made = ++r.last, root = it->second.root;
  r.rules.emplace(made, Entry{make(), root, 0, {}});
  try {
    r.rules.at(id).derived.emplace(key, made);
  } catch (...) {
    r.rules.erase(made);
    throw;
  }
  return made;
}

Values custom_call_with_rule(Builder& b, int64_t rule, ComputationPtr body, std::span<const Value> operands) {
  return b.make_multi(Op::call, operands, intern_attrs({{Attr::body, std::move(body)}, {Attr::rule, rule}}));
}

}  // namespace lamina::hlo
