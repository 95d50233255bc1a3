// Functions that tell what went wrong instead of raising: what lamina.experimental.checkify is made of.
#ifndef LAMINA_LAZY_CHECKIFY_H_
#define LAMINA_LAZY_CHECKIFY_H_

#include <functional>
#include <string>
#include <vector>

#include "lazy/transforms.h"

namespace lamina::lazy {

struct Checks {
  bool user, nan, division;
  // The number, above 0, that stands for a failure of this kind at this place in messages. A place is the
  // operation's name, for a reduction by one operation with that behind a dot, and its location.
  std::function<int64_t(std::string what, std::string place)> number;
};

// f's outputs, then the number of the first check that failed (s32[], 0: none). What f records is checked
// wherever it lies in loops, branches and calls, derivatives that it takes included.
std::vector<Lazy> checked(const FlatFunction& f, const std::vector<Lazy>& args, const Checks& checks);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_CHECKIFY_H_
