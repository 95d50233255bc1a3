#include "jit/cpu/kept_code.h"

#include <cstring>

#include "jit/cpu/object_code.h"

namespace lamina::jit {
namespace {

constexpr uint64_t kObject = ~uint64_t{0};  // in the place of an entry

}  // namespace

std::string pack_code(std::string_view object) {
  const absl::StatusOr<Image> image = link_object(object);
  const uint64_t entry = image.ok() ? image->entry : kObject;
  std::string packed(sizeof(entry), '\0');
  std::memcpy(packed.data(), &entry, sizeof(entry));
  return packed.append(image.ok() ? std::string_view(image->bytes) : object);
}

std::optional<KeptCode> unpack_code(std::string_view packed) {
  uint64_t entry = 0;
  if (packed.size() < sizeof(entry)) return std::nullopt;
  std::memcpy(&entry, packed.data(), sizeof(entry));
  KeptCode code{packed.substr(sizeof(entry)), entry};
  if (entry == kObject) code.entry.reset();
  return code;
}

}  // namespace lamina::jit
