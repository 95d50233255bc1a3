// A position in StableHLO text and the small pieces that stand there.
//
// Contract: errors start with line:column; reading past the end is an error, never undefined.
#ifndef LAMINA_HLO_STABLEHLO_CURSOR_H_
#define LAMINA_HLO_STABLEHLO_CURSOR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "hlo/rules/support.h"
#include "hlo/stablehlo/tree.h"

namespace lamina::hlo::stablehlo {

// `message` at offset `at` of `text`, as "line:column: message".
absl::Status error_at(std::string_view text, Place at, std::string_view message,
                      absl::StatusCode code = absl::StatusCode::kInvalidArgument);
inline std::string in_quotes(std::string_view text) { return str_cat("'", text, "'"); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline std::string_view view(const absl::Status& s) { return {s.message().data(), s.message().size()}; }

class Cursor {
 public:
  explicit Cursor(std::string_view text, Place at = 0) : text_(text), end_(text.size()), at_(at) {}
  // Reads `text` between two offsets only.
  Cursor(std::string_view text, Place at, Place end) : text_(text), end_(end), at_(at) {}

  std::string_view text() const { return text_; }
  Place position() {
    skip_space();
    return at_;
  }
  void move_to(Place at) { at_ = at; }
  bool at_end() {
    skip_space();
    return at_ >= end_;
  }
  // The next character, spaces skipped; 0 at the end.
  char peek() {
    skip_space();
    return at_ < end_ ? text_[at_] : '\0';
  }
  // The character right here, no space skipped; 0 at the end.
  char here() const { return at_ < end_ ? text_[at_] : '\0'; }
  void advance() { ++at_; }
  bool starts_with(std::string_view s) {
    skip_space();
    return text_.substr(at_, end_ - at_).starts_with(s);
  }
  bool accept(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view symbol) {
    if (!starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  bool accept_word(std::string_view word) {
    if (peek_word() != word) return false;
    at_ += word.size();
    return true;
  }
  absl::Status expect(char c);
  absl::Status expect(std::string_view symbol);

  absl::Status error(std::string_view message) { return error_at(text_, position(), message); }
  absl::Status error(Place at, std::string_view message) const { return error_at(text_, at, message); }
  // `what` was expected here; says what stands here instead.
  absl::Status expected(std::string_view what);

  // letter (letter | digit | _ | . | $)*, not consumed; empty if there is none.
  std::string_view peek_word();
  absl::Status word(std::string_view what, std::string_view* out);
  // What follows %, ^, #, ! and @: digits, or a word that may hold - too. The sigil is consumed already.
  absl::Status suffix(std::string_view what, std::string_view* out);
  absl::Status integer(std::string_view what, int64_t* out);
  absl::Status string(std::string_view what, std::string* out);
  // From behind `open` to its partner, over nested brackets of every kind and strings; the text between.
  absl::Status balanced(char open, std::string_view* out);

 private:
  void skip_space();
  std::string shown() const;

  std::string_view text_;
  Place end_;
  Place at_;
};

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_CURSOR_H_
