#include "lamina/device.h"

#include "lazy/api/variable.h"
#include "lazy/delivery.h"
#include "lazy/placement.h"

namespace lamina {
namespace {

jit::Device& named(std::string_view device) { return *lazy::check(jit::find_device(device)); }

}  // namespace

std::vector<std::string> devices(std::string_view platform, std::source_location where) {
  return detail::located(where, [&] {
    std::vector<std::string> names;
    for (const jit::Device* d : named(platform).client().devices()) names.push_back(d->name());
    return names;
  });
}

std::string default_device(std::source_location where) {
  return detail::located(where, [] { return lazy::default_device().name(); });
}

DefaultDevice::DefaultDevice(std::string_view device, std::source_location where) {
  detail::located(where, [&] {
    if (const jit::Device* const before = lazy::set_default_device(&named(device))) before_ = before->name();
    return 0;
  });
}

DefaultDevice::~DefaultDevice() {
  try {
    lazy::set_default_device(before_.empty() ? nullptr : &named(before_));
  } catch (const Error&) {
    // What could not be computed says so where its value is asked for.
  }
}

Tensor Tensor::on(std::string_view device, Where where) const {
  return detail::located(
      where, [&] { return detail::tensor_of(lazy::put_on(detail::lazy_of(*this), named(device))); });
}

std::string Tensor::device() const { return lazy::device_of(detail::lazy_of(*this).value).name(); }

}  // namespace lamina
