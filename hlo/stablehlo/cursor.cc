#include "hlo/stablehlo/cursor.h"

#include <algorithm>
#include <charconv>

namespace lamina::hlo::stablehlo {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

absl::Status error_at(std::string_view text, Place at, std::string_view message, absl::StatusCode code) {
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return absl::Status(code, str_cat(line, ":", column, ": ", message));
}

void Cursor::skip_space() {
  while (at_ < end_) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < end_ && text_[at_ + 1] == '/') {
      const size_t newline = text_.find('\n', at_);
      at_ = newline == std::string_view::npos ? end_ : std::min<Place>(newline, end_);
    } else if (c == '/' && at_ + 1 < end_ && text_[at_ + 1] == '*') {
      const size_t close = text_.find("*/", at_ + 2);
      at_ = close == std::string_view::npos ? end_ : std::min<Place>(close + 2, end_);
    } else {
      return;
    }
  }
}

std::string Cursor::shown() const {
  Place end = at_;
  while (end < end_ && is_word_char(text_[end]) && end - at_ < 40) ++end;
  if (end > at_) return std::string(text_.substr(at_, end - at_));
  const auto c = static_cast<unsigned char>(text_[at_]);
  return c >= 0x20 && c < 0x7F ? std::string(1, text_[at_]) : str_cat("byte ", static_cast<int>(c));
}

absl::Status Cursor::expected(std::string_view what) {
  if (at_end()) return error(str_cat("expected ", what, ", but the text ends"));
  return error(str_cat("expected ", what, ", not ", in_quotes(shown())));
}

absl::Status Cursor::expect(char c) {
  if (accept(c)) return absl::OkStatus();
  return expected(in_quotes(std::string_view(&c, 1)));
}

absl::Status Cursor::expect(std::string_view symbol) {
  if (accept(symbol)) return absl::OkStatus();
  return expected(in_quotes(symbol));
}

std::string_view Cursor::peek_word() {
  skip_space();
  Place end = at_;
  if (end < end_ && is_letter(text_[end]))
    while (end < end_ && is_word_char(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

absl::Status Cursor::word(std::string_view what, std::string_view* out) {
  *out = peek_word();
  if (out->empty()) return expected(what);
  at_ += out->size();
  return absl::OkStatus();
}

absl::Status Cursor::suffix(std::string_view what, std::string_view* out) {
  Place end = at_;
  while (end < end_ && (is_word_char(text_[end]) || text_[end] == '-')) ++end;
  // An arrow is no part of a name.
  if (end < end_ && text_[end] == '>' && end > at_ && text_[end - 1] == '-') --end;
  *out = text_.substr(at_, end - at_);
  if (out->empty()) return expected(what);
  at_ = end;
  return absl::OkStatus();
}

absl::Status Cursor::integer(std::string_view what, int64_t* out) {
  skip_space();
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + end_;
  std::from_chars_result r;
  if (end - begin > 2 && begin[0] == '0' && begin[1] == 'x' && hex_digit(begin[2]) >= 0) {
    uint64_t bits = 0;
    r = std::from_chars(begin + 2, end, bits, 16);
    *out = static_cast<int64_t>(bits);
  } else {
    r = std::from_chars(begin, end, *out);
    if (r.ec == std::errc::result_out_of_range && *begin != '-') {  // an unsigned 64-bit number
      uint64_t bits = 0;
      r = std::from_chars(begin, end, bits);
      *out = static_cast<int64_t>(bits);
    }
  }
  if (r.ec == std::errc::invalid_argument) return expected(what);
  if (r.ec != std::errc()) return error(str_cat(what, " is out of range"));
  at_ += r.ptr - begin;
  return absl::OkStatus();
}

absl::Status Cursor::string(std::string_view what, std::string* out) {
  if (peek() != '"') return expected(str_cat(what, " in double quotes"));
  const Place start = at_++;
  while (at_ < end_ && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\n') return error(start, "the string does not end on its line");
    if (c == '\\') {
      if (at_ >= end_) break;
      c = text_[at_++];
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c != '"' && c != '\\') {
        const int high = hex_digit(c), low = at_ < end_ ? hex_digit(text_[at_]) : -1;
        if (high < 0 || low < 0)
          return error(at_ - 1, "a string's \\ needs n, t, \", \\ or two hexadecimal digits");
        ++at_;
        c = static_cast<char>(high * 16 + low);
      }
    }
    out->push_back(c);
  }
  if (at_ >= end_) return error(start, "the string does not end");
  ++at_;
  return absl::OkStatus();
}

absl::Status Cursor::balanced(char open, std::string_view* out) {
  const Place start = at_ - 1;
  const Place inner = at_;
  std::string open_brackets(1, open);
  while (at_ < end_) {
    const char c = text_[at_];
    if (c == '"') {
      std::string ignored;
      LAMINA_RETURN_IF_ERROR(string("text", &ignored));
      continue;
    }
    if (c == '(' || c == '[' || c == '{' || c == '<') open_brackets.push_back(c);
    if (c == '>' && text_[at_ - 1] == '-') {  // an arrow
      ++at_;
      continue;
    }
    if (c == ')' || c == ']' || c == '}' || c == '>') {
      const char partner = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
      if (open_brackets.back() != partner)
        return error(at_,
                     str_cat(in_quotes(std::string_view(&c, 1)), " closes no bracket that is open here"));
      open_brackets.pop_back();
      if (open_brackets.empty()) {
        *out = text_.substr(inner, at_ - inner);
        ++at_;
        return absl::OkStatus();
      }
    }
    ++at_;
  }
  return error(start, str_cat(in_quotes(std::string_view(&open, 1)), " is never closed"));
}

}  // namespace lamina::hlo::stablehlo
