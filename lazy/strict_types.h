// Whether element types that differ are an error where they meet.
#ifndef LAMINA_LAZY_STRICT_TYPES_H_
#define LAMINA_LAZY_STRICT_TYPES_H_

namespace lamina::lazy {

// Of this thread. `promote` then throws (kType) for two types of arrays that are not the same, and for a
// number that would change the type of an array.
bool& strict_types();

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_STRICT_TYPES_H_
