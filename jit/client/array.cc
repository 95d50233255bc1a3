#include "jit/client/array.h"

namespace lamina::jit {

ArrayPtr array_of(const hlo::Value& value) {
  hlo::Data* data = value.node()->data();
  if (!data) return ArrayPtr();
  if (auto* tuple = dynamic_cast<ArrayTuple*>(data)) return tuple->at(value.index());
  return ArrayPtr(static_cast<Array*>(data));
}

}  // namespace lamina::jit
