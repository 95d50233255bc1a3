// Profiles of Python programs: which of a thread's time is the library's, and by which line of the user.
//
// Contract: while a thread is profiled, the interpreter tells of each function that it enters and leaves.
// From where the user's code calls the library until that returns, time is the library's, on the line of the
// call, but for functions of the user that it calls in turn. Code of the standard library and of NumPy is
// whose it is called by. Under the interpreter lock.
#ifndef LAMINA_PYTHON_PROFILE_H_
#define LAMINA_PYTHON_PROFILE_H_

#include <pybind11/pybind11.h>

#include "jit/client/profile.h"

namespace lamina::python {

// The line of the innermost frame that is the user's; 0 where there is none, or no interpreter lock.
hlo::LocationId profiled_line();

// To a profile, a call of the library by the user's code, which the interpreter does not tell of: of an
// operator, say.
class ProfiledEntry : public jit::ProfiledCall {
 public:
  explicit ProfiledEntry(jit::Doing doing = jit::Doing::kCall) : ProfiledCall(profiled_line, doing) {}
};

void add_profile(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_PROFILE_H_
