// How much the text form of a computation says.
//
// Contract: the presets full and canonical lose nothing that a computation's structure holds: print, parse
// and print again gives the same text, and the parsed computation is the same object while the first lives.
// Canonical leaves out locations, so equal structure gives equal text. Short is for people: it leaves out
// locations and long constants.
#ifndef LAMINA_HLO_TEXT_H_
#define LAMINA_HLO_TEXT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace lamina::hlo {

struct TextOptions {
  bool locations = false;      // @"file.py":12 in "function"
  bool operand_types = false;  // add(f32[2] v0, f32[2] v1)
  // Constants of more elements that are not one value throughout are written {...}, which cannot be parsed.
  int64_t literal_elements = std::numeric_limits<int64_t>::max();

  static constexpr TextOptions full() { return {.locations = true}; }
  static constexpr TextOptions canonical() { return {}; }
  static constexpr TextOptions brief() { return {.literal_elements = 16}; }
};

// "full", "canonical", "short".
inline std::optional<TextOptions> parse_preset(std::string_view name) {
  if (name == "full") return TextOptions::full();
  if (name == "canonical") return TextOptions::canonical();
  if (name == "short") return TextOptions::brief();
  return std::nullopt;
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_TEXT_H_
