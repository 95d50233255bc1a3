#include "hlo/custom_call.h"

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

struct Registry {
  Mutex mutex{LockRank::kCallbacks};
  HashMap<std::string, std::shared_ptr<const HostCallback>> map;
};

Registry& registry() {
  static constinit Once<Registry> r;
  return r.get();
}

}  // namespace

absl::Status register_custom_call(std::string name, HostCallback callback) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.map.contains(name))
    return absl::AlreadyExistsError(str_cat("custom call target '", name, "' is registered already"));
  auto made = std::make_shared<const HostCallback>(std::move(callback));
  r.map.try_emplace(std::move(name), std::move(made));
  return absl::OkStatus();
}

std::optional<std::string_view> given_name(const Node& node) {
  if (node.op() != Op::custom_call) return std::nullopt;
  const std::string_view target = node.attrs().string(Attr::call_target_name);
  if (!target.starts_with(kNameTarget)) return std::nullopt;
  return target.substr(kNameTarget.size());
}

std::shared_ptr<const HostCallback> find_custom_call(const std::string& name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.map.find(name);
  return it == r.map.end() ? nullptr : it->second;
}

}  // namespace lamina::hlo
