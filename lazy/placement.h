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
// Whether there is no other device so far than the host's first, which is then the default one: all lies
// there.
bool only_host();
// Null: the one of the environment. Computes first what this thread has recorded, where that was to run.
// Returns the one before, or null.
jit::Device* set_default_device(jit::Device* device);

// The device of a place; the default one for hlo::kAnywhere.
jit::Device& device_at(hlo::Place place);
// Where the value lies; of one that is not computed yet, where it will be.
jit::Device& device_of(const Value& value);
// The same array bound to a device. Throws kNotImplemented where a transform is open that it depends on and
// it would have to move.
Lazy put_on(const Lazy& x, jit::Device& device);

// Whether the value is there, so that reading it waits for nothing.
bool is_ready(const Value& value);
// Computes the values and waits until they are there, watching for signals, without the host lock.
void wait_for(std::span<const Value> values);
// Computes the values and brings them to the host, which waits once for each device: `host_bytes` of them
// waits for nothing any more.
void fetch(std::span<const Value> values);
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
