// What host callbacks and checks of C++ share.
#ifndef LAMINA_LAZY_API_CALLBACKS_H_
#define LAMINA_LAZY_API_CALLBACKS_H_

#include <string>
#include <vector>

#include "lazy/api/flat.h"

namespace lamina::detail {

// A scalar that stands for the function: the first operand of a custom_call of "cpp" and its relatives.
lazy::Lazy callback_operand(FlatFunction f);

// `format` with texts in the places of its {}, of which there are as many ({{ and }} are braces); otherwise
// Error(kValue), which begins with `what`.
std::string filled(const char* what, const std::string& format, const std::vector<std::string>& texts);

}  // namespace lamina::detail

#endif  // LAMINA_LAZY_API_CALLBACKS_H_
