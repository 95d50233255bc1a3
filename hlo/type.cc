#include "hlo/type.h"

#include <array>
#include <cstdlib>
#include <deque>

#include "absl/hash/hash.h"
#include "absl/strings/str_join.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

// Types are few and live for the process: a mutex around the table is enough, reads go through pointers.
struct TypeKey {
  TypeKind kind;
  DType dtype;
  Dims dims;
  std::vector<const Type*> elements;
  bool operator==(const TypeKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const TypeKey& k) {
    return H::combine(std::move(h), k.kind, k.dtype, k.dims, k.elements);
  }
};

struct TypeTable {
  Mutex mutex{LockRank::kTypes};
  HashMap<TypeKey, const Type*> map;
  std::deque<Type> storage;
};

TypeTable& type_table() {
  static constinit Once<TypeTable> t;
  return t.get();
}

const Type* intern(TypeKind kind, DType dtype, std::span<const int64_t> dims,
                   std::span<const Type* const> elements, int64_t num_elements) {
  TypeKey key{kind, dtype, Dims(dims.begin(), dims.end()), {elements.begin(), elements.end()}};
  TypeTable& t = type_table();
  std::lock_guard lock(t.mutex);
  if (const auto it = t.map.find(key); it != t.map.end()) return it->second;
  // Memory may run out at each of the two insertions: a type that has no entry stays unused.
  const Type* const made = &t.storage.emplace_back(Type{kind, dtype, key.dims, key.elements, num_elements});
  t.map.try_emplace(std::move(key), made);
  return made;
}

}  // namespace

absl::StatusOr<const Type*> array_type(DType dtype, std::span<const int64_t> dims) {
  // The product of the non-zero dims bounds every stride, so zero-size arrays are checked as well.
  int64_t count = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0)
      return absl::InvalidArgumentError(
          str_cat("shape ", dims_to_string(dims), " has the negative dimension ", d));
    if (d == 0) {
      zero = true;
      continue;
    }
    if (count > (int64_t{1} << 58) / d)
      return absl::InvalidArgumentError(str_cat("shape ", dims_to_string(dims), " of ", info(dtype).name,
                                                " has more elements than can be addressed"));
    count *= d;
  }
  return intern(TypeKind::kArray, dtype, dims, {}, zero ? 0 : count);
}

const Type* array_type_or_die(DType dtype, std::span<const int64_t> dims) {
  absl::StatusOr<const Type*> type = array_type(dtype, dims);
  if (!type.ok()) std::abort();
  return *type;
}

const Type* scalar_type(DType dtype) {
  using Types = std::array<const Type*, kNumDTypes>;
  static constinit Once<const Types> types;
  return types.get([] {
    Types all;
    for (int i = 0; i < kNumDTypes; ++i) all[i] = intern(TypeKind::kArray, static_cast<DType>(i), {}, {}, 1);
    return new Types(all);
  })[static_cast<int>(dtype)];
}

const Type* tuple_type(std::span<const Type* const> elements) {
  return intern(TypeKind::kTuple, DType::kBool, {}, elements, 0);
}

const Type* token_type() { return intern(TypeKind::kToken, DType::kBool, {}, {}, 0); }

std::string dims_to_string(std::span<const int64_t> dims) {
  return str_cat("[", absl::StrJoin(dims, ","), "]");
}

std::string to_string(const Type& type) {
  switch (type.kind) {
    case TypeKind::kArray:
      return str_cat(info(type.dtype).name, dims_to_string(type.dims));
    case TypeKind::kToken:
      return "token";
    case TypeKind::kTuple:
      break;
  }
  return str_cat("(",
                 absl::StrJoin(type.elements, ", ",
                               [](std::string* out, const Type* t) { str_append(out, to_string(*t)); }),
                 ")");
}

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Dims row_major_strides(std::span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t s = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = s;
    s *= dims[i];
  }
  return strides;
}

}  // namespace lamina::hlo
