// The tables of sixteen numbers that Prim::lookup reads.
//
// Contract: a table is known by the type of its numbers and by its number among those; what it holds is a
// part of what the primitive means, and never changes while a library is loaded.
#ifndef LAMINA_HLO_SCALAR_TABLES_H_
#define LAMINA_HLO_SCALAR_TABLES_H_

#include <cstdint>
#include <iterator>

#include "hlo/dtype.h"
#include "hlo/scalar/table_values.h"

namespace lamina::hlo::scalar {

inline constexpr uint64_t kTableSize = 16;

// The numbers of a table, in the memory form of `type`; null where there is none.
inline const void* table(DType type, uint64_t number) {
  if (type == DType::kF64) return number < std::size(kDoubleTables) ? kDoubleTables[number] : nullptr;
  return type == DType::kF32 && number < std::size(kSingleTables) ? kSingleTables[number] : nullptr;
}

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_TABLES_H_
