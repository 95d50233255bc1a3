#include "hlo/xla_text/instruction.h"

#include <charconv>

namespace lamina::hlo::xla_text {

using stablehlo::in_quotes;

namespace {

Cursor over(const Instruction& in, const RawAttribute& a) {
  return Cursor(in.text, a.at, a.at + a.value.size());
}

absl::Status end_of(Cursor& c, const RawAttribute& a) {
  return c.at_end() ? absl::OkStatus() : c.expected(str_cat("the end of ", a.key));
}

}  // namespace

absl::Status Instruction::error_at(Place place, std::string_view message) const {
  return stablehlo::error_at(text, place, message);
}

absl::Status Instruction::error(std::string_view message) const {
  return error_at(at, str_cat(opcode, ": ", message));
}

absl::Status Instruction::unsupported(std::string_view message) const {
  return stablehlo::error_at(text, at, str_cat(opcode, ": ", message), absl::StatusCode::kUnimplemented);
}

const RawAttribute* Instruction::find(std::string_view key) const {
  for (const RawAttribute& a : attributes)
    if (a.key == key) return &a;
  return nullptr;
}

absl::Status Instruction::ints(const RawAttribute& a, Dims* out) const {
  Cursor c = over(*this, a);
  LAMINA_RETURN_IF_ERROR(c.expect('{'));
  int depth = 1;
  bool separated = true;  // the place of a number
  while (depth > 0) {
    if (c.accept('{')) {
      if (++depth > 2) return c.error(str_cat(a.key, " nests too deep"));
      separated = true;
    } else if (c.accept('}')) {
      --depth;
      separated = false;
    } else if (c.accept(',')) {
      separated = true;
    } else {
      if (!separated) return c.expected("',' or '}'");
      out->emplace_back();
      LAMINA_RETURN_IF_ERROR(c.integer(str_cat("an integer of ", a.key), &out->back()));
      separated = false;
    }
  }
  return end_of(c, a);
}

absl::Status Instruction::integer(const RawAttribute& a, int64_t* out) const {
  Cursor c = over(*this, a);
  LAMINA_RETURN_IF_ERROR(c.integer(str_cat("the integer ", a.key), out));
  return end_of(c, a);
}

absl::Status Instruction::word(const RawAttribute& a, std::string_view* out) const {
  Cursor c = over(*this, a);
  LAMINA_RETURN_IF_ERROR(c.word(str_cat("a word for ", a.key), out));
  return end_of(c, a);
}

absl::Status Instruction::flag(const RawAttribute& a, bool* out) const {
  *out = a.value == "true" || a.value == "1";
  if (*out || a.value == "false" || a.value == "0") return absl::OkStatus();
  return error_at(a.at, str_cat(a.key, " is true or false, not ", in_quotes(a.value.substr(0, 40))));
}

absl::Status Instruction::string(const RawAttribute& a, std::string* out) const {
  Cursor c = over(*this, a);
  LAMINA_RETURN_IF_ERROR(c.string(a.key, out));
  return end_of(c, a);
}

absl::Status Instruction::computations(const RawAttribute& a, std::vector<std::string_view>* out) const {
  Cursor c = over(*this, a);
  const bool braces = c.accept('{');
  if (braces && c.accept('}')) return end_of(c, a);
  do {
    c.accept('%');
    std::string_view found;
    c.position();
    LAMINA_RETURN_IF_ERROR(c.suffix("the name of a computation", &found));
    out->push_back(found);
  } while (braces && c.accept(','));
  if (braces) LAMINA_RETURN_IF_ERROR(c.expect('}'));
  return end_of(c, a);
}

namespace {

// 3x3, 1_1x0_2 or -1_0_2x0_0_0: numbers in order, `per_dim` of them for each dimension. Three may be two.
absl::Status numbers(Cursor& c, std::string_view what, size_t per_dim, Dims* out) {
  const Place at = c.position();
  std::string_view text = c.text().substr(at);
  size_t end = 0;
  while (end < text.size() &&
         (text[end] == '-' || text[end] == '_' || text[end] == 'x' || (text[end] >= '0' && text[end] <= '9')))
    ++end;
  text = text.substr(0, end);
  size_t in_dim = 0;
  const char* p = text.data();
  const char* const stop = text.data() + text.size();
  while (true) {
    int64_t value = 0;
    const auto r = std::from_chars(p, stop, value);
    if (r.ec == std::errc::result_out_of_range) return c.error(at, str_cat(what, " is out of range"));
    if (r.ec != std::errc()) return c.error(at, str_cat(what, " has the form 1x2 or 0_1x2_3"));
    out->push_back(value);
    ++in_dim;
    p = r.ptr;
    if (p != stop && *p == '_') {
      ++p;
      continue;
    }
    if (per_dim == 3 && in_dim == 2) {
      out->push_back(0);
      ++in_dim;
    }
    if (in_dim != per_dim) return c.error(at, str_cat(what, " has the form 1x2 or 0_1x2_3"));
    in_dim = 0;
    if (p == stop) break;
    if (*p++ != 'x') return c.error(at, str_cat(what, " has the form 1x2 or 0_1x2_3"));
  }
  c.move_to(at + end);
  return absl::OkStatus();
}

}  // namespace

absl::Status Instruction::window(const RawAttribute& a, Window* out) const {
  Cursor c = over(*this, a);
  LAMINA_RETURN_IF_ERROR(c.expect('{'));
  const std::pair<std::string_view, Dims Window::*> fields[] = {
      {"size", &Window::size},
      {"stride", &Window::stride},
      {"pad", &Window::padding},
      {"lhs_dilate", &Window::lhs_dilate},
      {"rhs_dilate", &Window::rhs_dilate},
      {"rhs_reversal", &Window::reversal},
  };
  while (!c.accept('}')) {
    const Place at = c.position();
    std::string_view key;
    LAMINA_RETURN_IF_ERROR(c.word("size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal", &key));
    LAMINA_RETURN_IF_ERROR(c.expect('='));
    Dims* list = nullptr;
    for (const auto& [name, member] : fields)
      if (name == key) list = &(out->*member);
    if (!list) return c.error(at, str_cat("a window has no ", in_quotes(key)));
    if (!list->empty()) return c.error(at, str_cat("a window has one ", in_quotes(key)));
    LAMINA_RETURN_IF_ERROR(numbers(c, key, key == "pad" ? 2 : 1, list));
  }
  const size_t rank = out->size.size();
  for (const auto& [name, member] : fields) {
    const Dims& list = out->*member;
    if (!list.empty() && list.size() != rank * (name == "pad" ? 2 : 1))
      return error_at(a.at, str_cat("the window's ", name, " and its size differ in dimensions"));
  }
  return end_of(c, a);
}

// padding=0_1x2_3_1 of pad: low, high and interior of each dimension.
absl::Status read_padding(const Instruction& in, const RawAttribute& a, Dims* out) {
  if (a.value.empty()) return absl::OkStatus();
  Cursor c = over(in, a);
  LAMINA_RETURN_IF_ERROR(numbers(c, a.key, 3, out));
  return end_of(c, a);
}

AttrTree ints_attribute(std::span<const int64_t> values, Place at) {
  AttrTree out;
  out.kind = AttrTree::Kind::kList;
  out.at = at;
  for (const int64_t v : values) {
    AttrTree item;
    item.kind = AttrTree::Kind::kInt;
    item.integer = v;
    item.at = at;
    out.items.push_back(std::move(item));
  }
  return out;
}

AttrTree word_attribute(std::string_view word, Place at) {
  AttrTree out;
  out.kind = AttrTree::Kind::kWord;
  out.text = std::string(word);
  out.at = at;
  return out;
}

}  // namespace lamina::hlo::xla_text
