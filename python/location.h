// The user's place in Python code, as recorded nodes carry it, and C++ exceptions as Python's.
#ifndef LAMINA_PYTHON_LOCATION_H_
#define LAMINA_PYTHON_LOCATION_H_

#include <pybind11/pybind11.h>

#include "hlo/location.h"
#include "python/profile.h"

namespace lamina::python {

// The line of the innermost frame that is not the library's own.
hlo::LocationId user_location();

// Stamps recorded nodes with that line; to a profile, a call from there.
class UserLocation {
 public:
  UserLocation() : state_(hlo::record_state()), saved_(state_.location) { state_.location = user_location(); }
  ~UserLocation() { state_.location = saved_; }
  UserLocation(const UserLocation&) = delete;
  UserLocation& operator=(const UserLocation&) = delete;

 private:
  const ProfiledEntry call_;
  hlo::RecordState& state_;
  hlo::LocationId saved_;
};

// Where a frame stands: an instruction, or a line where Python does not tell more.
int position_of(PyFrameObject* frame);

// Sets the Python exception for the C++ exception in flight, with the user's file, line and source.
void set_python_error();

// f() at the user's place; null with a Python exception for a C++ one.
template <typename F>
PyObject* guarded(F&& f) {
  try {
    UserLocation location;
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_LOCATION_H_
