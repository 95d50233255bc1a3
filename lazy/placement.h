// Where values lie and programs run.
//
// Contract: a value that was put on a device is bound to it (hlo::Place), and what is made of it runs there;
// ops whose operands are bound to different devices are InvalidArgument when they are recorded. All else is
// free: it runs where the bound values of its program are, or on the default device of the thread, and is
// copied to where it is wanted.
#ifndef LAMINA_LAZY_PLACEMENT_H_
#define LAMINA_LAZY_PLACEMENT_H_

#include <span>
#include <vector>

#include "jit/client/array.h"
#include "lazy/lazy.h"

namespace lamina::lazy {

// Of this thread: as set_default_device said, else what LAMINA_DEFAULT_DEVICE names, else the host's first.
// Throws lamina::Error (kValue) where there is no device of that name.
jit::Device& default_device();
// What set_default_device (lazy/delivery.h) said on this thread, or null.
jit::Device*& own_default_device();
// That of the process, which the environment names.
jit::Device& process_default();
// Whether there is no other device so far than the host's first, which is then the default one: all lies
// there.
bool only_host();
// The device of a place; the default one for hlo::kAnywhere.
jit::Device& device_at(hlo::Place place);
// Where the value lies; of one that is not computed yet, where it will be, and of a free number that the host
// knows, which costs nothing to bring, where it is wanted.
jit::Device& device_of(const Value& value);
// Whether the value is there, so that reading it waits for nothing.
bool is_ready(const Value& value);
// The bytes of an array, for as long as it lives. Waits for them, watching for signals, without the host
// lock.
const std::byte* host_bytes(const jit::Array& array);

// The buffers of computed values, on that device.
std::vector<jit::BufferRef> buffers_on(jit::Device& device, std::span<const Value> values);

// Where some of the values are bound; kAnywhere where none is. `what` names the program in the message of an
// error, kValue, where they are bound to several places.
hlo::Place bound_place(std::span<const Value> values, std::string_view what);

// Their buffers on one device: that to which some of them are bound, or the default one.
struct Placed {
  jit::Device* device;
  hlo::Place place;  // kAnywhere: none of them is bound
  std::vector<jit::BufferRef> buffers;
};
Placed placed(std::span<const Value> values, std::string_view what);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_PLACEMENT_H_
