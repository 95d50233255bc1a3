#include "jit/tools/npy.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "hlo/narrow.h"
#include "hlo/strings.h"

namespace lamina::jit {
namespace {

using hlo::Dims;
using hlo::DType;
using hlo::Literal;
using hlo::LiteralPtr;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

absl::Status bad(std::string_view message) {
  return absl::InvalidArgumentError(str_cat("npy file: ", message));
}

// Kind letter and size of each element type, as in descr.
struct Code {
  DType dtype;
  std::string_view code;
};
constexpr Code kCodes[] = {
    {DType::kBool, "b1"}, {DType::kS8, "i1"},    {DType::kS16, "i2"}, {DType::kS32, "i4"},
    {DType::kS64, "i8"},  {DType::kU8, "u1"},    {DType::kU16, "u2"}, {DType::kU32, "u4"},
    {DType::kU64, "u8"},  {DType::kF16, "f2"},   {DType::kF32, "f4"}, {DType::kF64, "f8"},
    {DType::kC64, "c8"},  {DType::kC128, "c16"},
};

// The text after 'key': in the header's dictionary, from which a value is read.
absl::StatusOr<std::string_view> field(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string name = str_cat(std::string(1, quote), key, std::string(1, quote));
    const size_t at = header.find(name);
    if (at == std::string_view::npos) continue;
    std::string_view rest = header.substr(at + name.size());
    const size_t colon = rest.find_first_not_of(' ');
    if (colon == std::string_view::npos || rest[colon] != ':') break;
    rest.remove_prefix(colon + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    return rest;
  }
  return bad(str_cat("the header lacks ", key));
}

struct Header {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran = false;
  Dims dims;
};

absl::StatusOr<Header> parse_header(std::string_view text, const hlo::Type* want) {
  Header h;
  absl::StatusOr<std::string_view> descr = field(text, "descr");
  if (!descr.ok()) return descr.status();
  if (descr->size() < 4 || ((*descr)[0] != '\'' && (*descr)[0] != '"'))
    return bad("descr is no simple element type");
  const size_t end = descr->find((*descr)[0], 1);
  if (end == std::string_view::npos) return bad("descr does not end");
  const std::string_view name = descr->substr(1, end - 1);
  if (name.size() < 3) return bad(str_cat("unknown descr '", name, "'"));
  h.big_endian = name[0] == '>';
  const std::string_view code = name.substr(1);
  // NumPy has no code for bf16 and narrow types: their bits come as integers, or as what has no meaning to
  // it.
  const bool want_bits =
      want && want->is_array() && (want->dtype == DType::kBF16 || hlo::is_narrow(want->dtype));
  const int64_t bytes = want_bits ? hlo::byte_size(want->dtype) : 0;
  const auto found =
      std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& c) { return c.code == code; });
  if (want_bits && (code == str_cat("u", bytes) || code == str_cat("V", bytes) ||
                    (bytes == 1 && (code == "i1" || code == "f1")))) {
    h.dtype = want->dtype;
  } else if (found == std::end(kCodes)) {
    return bad(str_cat("unknown descr '", name, "'"));
  } else {
    h.dtype = found->dtype;
  }
  absl::StatusOr<std::string_view> order = field(text, "fortran_order");
  if (!order.ok()) return order.status();
  h.fortran = order->starts_with("True");
  absl::StatusOr<std::string_view> shape = field(text, "shape");
  if (!shape.ok()) return shape.status();
  if (!shape->starts_with('(')) return bad("shape is no tuple");
  std::string_view rest = shape->substr(1);
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" ,"), rest.size()));
    if (rest.empty()) return bad("shape does not end");
    if (rest[0] == ')') break;
    int64_t dim = 0;
    const auto r = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
    if (r.ec != std::errc() || dim < 0) return bad("shape holds something that is no size");
    if (h.dims.size() == kMaxRank) return bad(str_cat("rank is above ", kMaxRank));
    h.dims.push_back(dim);
    rest.remove_prefix(r.ptr - rest.data());
  }
  return h;
}

// Column-major to row-major.
void reorder(const Literal& from, Literal& to) {
  const Dims& dims = to.dims();
  Dims index(dims.size(), 0);
  const int64_t width = hlo::byte_size(to.dtype());
  for (int64_t linear = 0; linear < to.size(); ++linear) {
    int64_t source = 0, stride = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      source += index[d] * stride;
      stride *= dims[d];
    }
    std::memcpy(to.element(linear), from.element(source), width);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<LiteralPtr> parse_npy(std::string_view bytes, const hlo::Type* want) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return bad("it does not start with NumPy's mark");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) return bad(str_cat("version ", version, " is unknown"));
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = width; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[8 + i]);
  const size_t start = 8 + width;
  if (bytes.size() - start < length) return bad("the header does not end");
  absl::StatusOr<Header> h = parse_header(bytes.substr(start, length), want);
  if (!h.ok()) return h.status();
  absl::StatusOr<const hlo::Type*> type = hlo::array_type(h->dtype, h->dims);
  if (!type.ok()) return type.status();
  const std::string_view data = bytes.substr(start + length);
  // The data bound what is allocated.
  if (static_cast<int64_t>(data.size()) != (*type)->bytes())
    return bad(
        str_cat("it holds ", data.size(), " bytes where ", to_string(**type), " has ", (*type)->bytes()));
  auto literal = std::make_shared<Literal>(*type);
  if (!data.empty()) std::memcpy(literal->data(), data.data(), data.size());
  if (h->big_endian) {
    const int64_t part = hlo::byte_size(hlo::part_type(h->dtype));
    std::byte* p = literal->element(0);
    for (int64_t i = 0; i < (*type)->bytes(); i += part) std::reverse(p + i, p + i + part);
  }
  if (h->dtype == DType::kBool)
    for (int64_t i = 0; i < literal->size(); ++i) literal->as<uint8_t>()[i] = literal->as<uint8_t>()[i] != 0;
  hlo::make_canonical(h->dtype, literal->data(), literal->size());
  if (!h->fortran || (*type)->rank() < 2) return literal;
  auto out = std::make_shared<Literal>(*type);
  reorder(*literal, *out);
  return out;
}

std::string format_npy(const Literal& literal) {
  const DType t = literal.dtype();
  std::string_view code = hlo::byte_size(t) == 1 ? "u1" : "u2";
  for (const Code& c : kCodes)
    if (c.dtype == t) code = c.code;
  std::string shape = "(";
  for (int64_t d : literal.dims()) str_append(&shape, d, ", ");
  if (literal.dims().size() > 1) shape.resize(shape.size() - 2);
  if (literal.dims().size() == 1) shape.pop_back();
  std::string header = str_cat("{'descr': '", hlo::byte_size(t) == 1 ? "|" : "<", code,
                               "', 'fortran_order': False, ", "'shape': ", shape, "), }");
  // Data start at a multiple of 64.
  const bool long_header = header.size() + 1 + 10 + 64 > 65535;
  const size_t prefix = long_header ? 12 : 10;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out.push_back(long_header ? 2 : 1);
  out.push_back(0);
  for (size_t i = 0; i < prefix - 8; ++i) out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  out += header;
  if (literal.bytes() > 0) out.append(literal.as<char>(), static_cast<size_t>(literal.bytes()));
  return out;
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(str_cat("cannot open ", path, ": ", std::strerror(errno)));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return absl::DataLossError(str_cat("cannot read ", path));
  return text.str();
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  if (!out) return absl::PermissionDeniedError(str_cat("cannot write ", path, ": ", std::strerror(errno)));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return out ? absl::OkStatus() : absl::DataLossError(str_cat("cannot write ", path));
}

absl::StatusOr<LiteralPtr> read_npy(const std::string& path, const hlo::Type* want) {
  absl::StatusOr<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<LiteralPtr> literal = parse_npy(*bytes, want);
  if (literal.ok()) return literal;
  return absl::Status(literal.status().code(), absl::StrCat(path, ": ", literal.status().message()));
}

absl::Status write_npy(const std::string& path, const Literal& literal) {
  return write_file(path, format_npy(literal));
}

}  // namespace lamina::jit
