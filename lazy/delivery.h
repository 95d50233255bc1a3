// Values where they are wanted: computed, moved and waited for.
#ifndef LAMINA_LAZY_DELIVERY_H_
#define LAMINA_LAZY_DELIVERY_H_

#include <span>

#include "jit/client/client.h"
#include "lazy/lazy.h"

namespace lamina::lazy {

// Of this thread; null: the one of the environment. Computes first what this thread has recorded, where that
// was to run. Returns the one before, or null.
jit::Device* set_default_device(jit::Device* device);

// The same array bound to a device. Throws kNotImplemented where a transform is open that it depends on and
// it would have to move.
Lazy put_on(const Lazy& x, jit::Device& device);

// Computes the values and waits until they are there, watching for signals, without the host lock.
void wait_for(std::span<const Value> values);
// Computes the values and brings them to the host, which waits once for each device: `host_bytes` of them
// waits for nothing any more.
void fetch(std::span<const Value> values);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_DELIVERY_H_
