// Values that leave a derivative as numbers: what is computed from the number has no derivative.
#ifndef LAMINA_LAZY_ESCAPE_H_
#define LAMINA_LAZY_ESCAPE_H_

#include "lazy/lazy.h"

namespace lamina::lazy {

// Whether an open derivative (grad, vjp, jvp, linearize, checkpoint), on any thread, depends on the value.
// Not through stop_gradient, integers and booleans, whose derivative is zero.
bool differentiated(const Value& value);
// Throws kType with the remedies if a value that is differentiated would leave as `what`.
void check_may_leave(const Value& value, std::string_view what);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_ESCAPE_H_
