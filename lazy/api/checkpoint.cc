#include "lamina/checkpoint.h"

#include <memory>
#include <set>

#include "hlo/custom_call.h"
#include "hlo/custom_rule.h"
#include "hlo/op.h"
#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"
#include "lazy/transforms.h"
#include "trace/kept.h"

namespace lamina {
namespace {

class UsersPolicy final : public trace::Policy {
 public:
  explicit UsersPolicy(CheckpointPolicy keeps) : keeps_(std::move(keeps)) {}
  bool names_decide() const override { return keeps_.names_decide; }
  std::vector<bool> keeps(std::span<hlo::Node* const> nodes) const override {
    std::vector<bool> out;
    for (const hlo::Node* n : nodes) {
      const std::optional<std::string_view> name = hlo::given_name(*n);
      CheckpointValue value{.op = name ? "name" : std::string(n->def().name)};
      if (name) value.name = *name;
      value.batched = n->attrs().has(hlo::Attr::lhs_batching_dimensions) &&
                      !n->attrs().ints(hlo::Attr::lhs_batching_dimensions).empty();
      out.push_back(keeps_(value));
    }
    return out;
  }

 private:
  CheckpointPolicy keeps_;
};

}  // namespace

Tensor checkpoint_name(const Tensor& x, std::string_view name, std::source_location where) {
  return detail::located(where, [&] { return detail::tensor_of(lazy::named(detail::lazy_of(x), name)); });
}

namespace checkpoint_policies {

namespace {

bool is_product(const CheckpointValue& v) { return v.op == "dot_general" || v.op == "convolution"; }

}  // namespace

CheckpointPolicy everything_saveable() {
  return [](const CheckpointValue&) { return true; };
}
CheckpointPolicy nothing_saveable() {
  return [](const CheckpointValue&) { return false; };
}
CheckpointPolicy dots_saveable() {
  return [](const CheckpointValue& v) { return is_product(v); };
}
CheckpointPolicy dots_with_no_batch_dims_saveable() {
  return [](const CheckpointValue& v) { return is_product(v) && !v.batched; };
}
CheckpointPolicy save_only_these_names(std::set<std::string> names) {
  return [names = std::move(names)](const CheckpointValue& v) { return v.name && names.contains(*v.name); };
}
CheckpointPolicy save_any_names_but_these(std::set<std::string> names) {
  return [names = std::move(names)](const CheckpointValue& v) { return v.name && !names.contains(*v.name); };
}
CheckpointPolicy save_anything_except_these_names(std::set<std::string> names) {
  CheckpointPolicy out = [names = std::move(names)](const CheckpointValue& v) {
    return !v.name || !names.contains(*v.name);
  };
  out.names_decide = true;
  return out;
}
CheckpointPolicy save_from_both_policies(CheckpointPolicy a, CheckpointPolicy b) {
  return [a = std::move(a), b = std::move(b)](const CheckpointValue& v) { return a(v) || b(v); };
}

}  // namespace checkpoint_policies

namespace detail {

std::vector<Tensor> flat_checkpoint(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                    const CheckpointPolicy& policy, std::source_location where) {
  return located(where, [&] {
    const int64_t id = policy ? hlo::register_custom_rule(std::make_shared<UsersPolicy>(policy)) : 0;
    std::vector<Tensor> out = tensors(lazy::checkpoint(inner(f), lazies(arguments), id));
    if (id != 0) hlo::release_custom_rule(id);  // the region has it
    return out;
  });
}

}  // namespace detail
}  // namespace lamina
