// Devices by name, "cpu:0"; the first of a platform by its platform, "cpu".
//
// A tensor that was put on a device (Tensor::on) stays there, and what is made of it is computed there; ops
// on tensors put on different devices throw. All others go where they are wanted: to the device of those
// beside them, or to the default device.
#ifndef LAMINA_DEVICE_H_
#define LAMINA_DEVICE_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace lamina {

// All of a platform. Throws kValue where there is none of that name.
std::vector<std::string> devices(std::string_view platform = "cpu",
                                 std::source_location where = std::source_location::current());
// That of the innermost DefaultDevice of this thread; outside of all, what the environment variable
// LAMINA_DEFAULT_DEVICE names, or "cpu:0".
std::string default_device(std::source_location where = std::source_location::current());

// Another default device for this thread while it lives. What was recorded before is computed before, and
// what is recorded meanwhile at its end. Throws kValue where there is no such device. Scopes nest.
class DefaultDevice {
 public:
  explicit DefaultDevice(std::string_view device,
                         std::source_location where = std::source_location::current());
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  std::string before_;  // empty: none was set
};

}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_DEVICE_H_
