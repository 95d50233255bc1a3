// Numbers whose type is not decided (Lazy::wide), rounded where their unrounded value is known.
//
// Contract: the rounding is what a program gives, to the bit, but it is done on the host: no program is
// compiled or run for it, on no device. Functions here throw lamina::Error.
#ifndef LAMINA_LAZY_KNOWN_NUMBER_H_
#define LAMINA_LAZY_KNOWN_NUMBER_H_

#include "lazy/lazy.h"

namespace lamina::lazy {

// A known unrounded number as one of another type, if it lies on the host and is bound to no device; null
// elsewhere.
Value rounded_on_host(const Value& wide, DType dtype);

// Of a pending value that rounds a number, that number, if it has been computed and no transform has a part
// in either; null elsewhere.
Value known_unrounded(const Value& value);
// Gives the value its data, on the device of `unrounded`, which known_unrounded gave. Waits where the host
// does not know the number.
void round_known(const Value& value, const Value& unrounded);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_KNOWN_NUMBER_H_
