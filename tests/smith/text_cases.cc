#include "tests/smith/text_cases.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "hlo/narrow.h"
#include "tests/build_paths.h"

namespace lamina::testing {
namespace {

using namespace hlo;

uint64_t next(uint64_t* state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

double random_number(DType t, uint64_t* state) {
  const uint64_t r = next(state);
  if (is_bool(t)) return static_cast<double>(r & 1);
  if (is_integer(t)) return static_cast<double>(r % 8) - (is_signed(t) ? 3 : 0);
  switch (r % 24) {
    case 0:
      return 0;
    case 1:
      return -0.0;
    case 2:
      return std::numeric_limits<double>::infinity();
    case 3:
      return -std::numeric_limits<double>::infinity();
    case 4:
      return std::numeric_limits<double>::quiet_NaN();
    case 5:
      return t == DType::kF64 || t == DType::kC128 ? 4.9e-324 : t == DType::kF16 ? 6e-8 : 1.4e-45;
    case 6:
      return 1;
    default:
      return (static_cast<double>(r >> 11) * 0x1p-53 - 0.5) * 8;
  }
}

bool is_nan(DType t, const std::byte* p) {
  if (!is_float(t)) return false;
  if (t == DType::kF64) return std::isnan(*reinterpret_cast<const double*>(p));
  return std::isnan(element_to_f32(t, p));
}

}  // namespace

TextFile parse_text_file(const std::string& path) {
  TextFile file{path, {}};
  std::ifstream in(path);
  std::string line;
  bool expecting = false;
  while (std::getline(in, line)) {
    if (line.starts_with("// CASE: ")) {
      file.cases.push_back({line.substr(9), {}, "", "", false});
      expecting = false;
    } else if (file.cases.empty()) {
      continue;
    } else if (line.starts_with("// RUN: ")) {
      file.cases.back().passes = absl::StrSplit(line.substr(8), ',');
    } else if (line == "// EXPECT:") {
      file.cases.back().has_expected = expecting = true;
    } else {
      std::string& text = expecting ? file.cases.back().expected : file.cases.back().input;
      if (!text.empty() || !line.empty()) text += line + "\n";
    }
  }
  for (TextCase& c : file.cases)
    for (std::string* text : {&c.input, &c.expected})
      while (text->ends_with("\n\n")) text->pop_back();
  return file;
}

void write_text_file(const TextFile& file) {
  std::ofstream out(file.path);
  for (size_t i = 0; i < file.cases.size(); ++i) {
    const TextCase& c = file.cases[i];
    out << (i == 0 ? "" : "\n") << "// CASE: " << c.name << "\n";
    if (!c.passes.empty()) out << "// RUN: " << absl::StrJoin(c.passes, ",") << "\n";
    out << c.input;
    if (c.has_expected) out << "// EXPECT:\n" << c.expected;
  }
}

std::vector<TextFile> text_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(kTestsFolder) + "/text/" + folder))
    if (entry.path().extension() == ".hlo") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<TextFile> files;
  for (const std::string& p : paths) files.push_back(parse_text_file(p));
  return files;
}

LiteralPtr random_literal(const Type* type, uint64_t* state) {
  auto literal = std::make_shared<Literal>(type);
  const DType part = part_type(type->dtype);
  const int64_t width = byte_size(part);
  for (int64_t i = 0; i < literal->size() * num_parts(type->dtype); ++i)
    std::memcpy(literal->element(0) + i * width, Literal::scalar(part, random_number(part, state))->data(),
                width);
  return literal;
}

std::vector<LiteralPtr> arguments_for(const Computation& program, uint64_t seed) {
  std::vector<LiteralPtr> out;
  for (const Type* t : program.parameter_types()) out.push_back(random_literal(t, &seed));
  return out;
}

bool same_values(const Literal& a, const Literal& b) {
  if (a.type() != b.type()) return false;
  const DType part = part_type(a.dtype());
  const int64_t width = byte_size(part), count = a.size() * num_parts(a.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const std::byte *p = a.element(0) + i * width, *q = b.element(0) + i * width;
    if (std::memcmp(p, q, width) != 0 && !(is_nan(part, p) && is_nan(part, q))) return false;
  }
  return true;
}

}  // namespace lamina::testing
