// What the program of a function may raise, for derivatives that do not need its result.
//
// Contract: a result of a converted function waits, in a barrier, for the check that raises (the package's
// _convert/staging.py), and so does what is derived from it. A derivative that is zero depends on nothing: it
// is tied here to the checks beneath the function's outputs that have not run.
#ifndef LAMINA_LAZY_RAISED_H_
#define LAMINA_LAZY_RAISED_H_

#include <vector>

#include "lazy/lazy.h"

namespace lamina::lazy {

// This process records such checks. Before, none are looked for.
void note_check();

// Zeros like `like`, which come when no check beneath `outputs` raises.
Value zeros_unless_raised(hlo::Builder& b, const Value& like, const std::vector<Value>& outputs);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_RAISED_H_
