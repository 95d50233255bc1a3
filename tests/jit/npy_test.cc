// NumPy files: bytes as NumPy writes them, and files that are wrong.
#include "jit/tools/npy.h"

#include <catch2/catch.hpp>

#include "hlo/narrow.h"

namespace lamina::jit {
namespace {

using hlo::DType;
using hlo::Literal;

std::string file(std::string header, std::string_view data, int version = 1) {
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(version));
  out.push_back(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return out + header + std::string(data);
}

std::string why(const std::string& bytes) {
  const auto r = parse_npy(bytes);
  return r.ok() ? "read" : std::string(r.status().message());
}

TEST_CASE("npy: what is written is read back, and is NumPy's form", "[npy]") {
  for (int t = 0; t < hlo::kNumDTypes; ++t)
    for (const hlo::Dims& dims : {hlo::Dims{}, hlo::Dims{3}, hlo::Dims{2, 3}, hlo::Dims{0, 4}}) {
      const hlo::Type* type = hlo::array_type_or_die(static_cast<DType>(t), dims);
      auto literal = std::make_shared<Literal>(type);
      for (int64_t i = 0; i < type->bytes(); ++i)
        literal->as<uint8_t>()[i] = static_cast<uint8_t>(type->dtype == DType::kBool ? i % 2 : i * 37);
      hlo::make_canonical(type->dtype, literal->data(), literal->size());
      const std::string bytes = format_npy(*literal);
      CHECK((bytes.size() - static_cast<size_t>(type->bytes())) % 64 == 0);
      const auto back = parse_npy(bytes, type);
      REQUIRE(back.ok());
      CHECK(**back == *literal);
    }
  const float x[] = {1, 2};
  const std::string bytes =
      format_npy(*Literal::copy_of(hlo::array_type_or_die(DType::kF32, hlo::Dims{2}), x));
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(bytes.substr(10, 57) == "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
  CHECK(bytes[127] == '\n');
}

TEST_CASE("npy: orders and versions", "[npy]") {
  const std::string fortran = file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n",
                                   std::string_view("\0\1\0\4\0\2\0\5\0\3\0\6", 12), 2);
  const auto r = parse_npy(fortran);
  REQUIRE(r.ok());
  for (int i = 0; i < 6; ++i) CHECK((*r)->as<int16_t>()[i] == i + 1);
  // bf16 by its bits.
  const hlo::Type* bf16 = hlo::array_type_or_die(DType::kBF16, hlo::Dims{1});
  for (std::string descr : {"<u2", "|V2"}) {
    const auto b = parse_npy(file("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }",
                                  std::string_view("\x80\x3f", 2)),
                             bf16);
    REQUIRE(b.ok());
    CHECK((*b)->type() == bf16);
    CHECK((*b)->double_at(0) == 1);
  }
}

TEST_CASE("npy: wrong files give errors", "[npy]") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  CHECK_THAT(why(""), Catch::Matchers::Contains("does not start with NumPy's mark"));
  CHECK_THAT(why(file(good, "12345678", 9)), Catch::Matchers::Contains("version 9 is unknown"));
  CHECK_THAT(why(file(good, "1234567")), Catch::Matchers::Contains("it holds 7 bytes where f32[2] has 8"));
  CHECK_THAT(why(file(good, "12345678").substr(0, 30)), Catch::Matchers::Contains("the header does not end"));
  CHECK_THAT(why(file("{'fortran_order': False, 'shape': (2,), }", "")),
             Catch::Matchers::Contains("lacks descr"));
  CHECK_THAT(why(file("{'descr': '<x4', 'fortran_order': False, 'shape': (2,), }", "")),
             Catch::Matchers::Contains("unknown descr '<x4'"));
  CHECK_THAT(why(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "")),
             Catch::Matchers::Contains("shape does not end"));
  CHECK_THAT(why(file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "")),
             Catch::Matchers::Contains("no size"));
  CHECK_THAT(why(file("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", "")),
             Catch::Matchers::Contains("more elements than can be addressed"));
  // No byte sequence crashes.
  uint64_t state = 1;
  const std::string whole = file(good, "12345678");
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int edits = 0; edits < 3; ++edits) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[(state >> 33) % bytes.size()] = static_cast<char>(state >> 20);
    }
    const auto r = parse_npy(bytes);
    if (!r.ok()) CHECK_FALSE(r.status().message().empty());
  }
}

}  // namespace
}  // namespace lamina::jit
