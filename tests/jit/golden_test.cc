// The orders of the numerics contract, frozen: hashes of the bits of reductions, dots and convolutions. A
// change here changes every user's results; it needs a reason and a note, not a new number.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "jit/cpu/client.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/host_data.h"

namespace lamina::jit {
namespace {

using namespace hlo;
using testing::host_data;

// Values in (-1, 1) with full mantissas, from a counter: no order of summation is exact for them.
LiteralPtr noise(DType t, const Dims& dims, uint64_t seed) {
  const Type* f64 = array_type_or_die(DType::kF64, dims);
  std::vector<double> x(static_cast<size_t>(f64->num_elements));
  for (size_t i = 0; i < x.size(); ++i) {
    uint64_t z = (seed + i) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    x[i] = static_cast<double>(static_cast<int64_t>(z)) * 0x1p-63;
  }
  const Value p = make_parameter(f64);
  Builder b;
  const ComputationPtr rounded = *Computation::make({{p}}, {{b.convert(p, t)}});
  return (*evaluate(*rounded, {{Literal::copy_of(f64, x.data())}}))[0];
}

uint64_t hash_of(const Type* type, const void* data) {
  uint64_t h = 0xCBF29CE484222325u;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (int64_t i = 0; i < type->bytes(); ++i) h = (h ^ bytes[i]) * 0x100000001B3u;
  return h;
}

struct Golden {
  const char* name;
  DType dtype;
  uint64_t hash;
  Dims lhs, rhs;  // rhs empty: a reduction of lhs over `dims`
  Dims dims;
  bool convolution = false;
};

ComputationPtr program_of(const Golden& g) {
  Builder b;
  const Value x = make_parameter(array_type_or_die(g.dtype, g.lhs));
  if (g.rhs.empty()) {
    const Value sum = b.reduce({{x}}, {{b.scalar(g.dtype, 0)}}, binary_region(Op::add, g.dtype), g.dims)[0];
    return *Computation::make({{x}}, {{sum}});
  }
  const Value y = make_parameter(array_type_or_die(g.dtype, g.rhs));
  Value z;
  if (g.convolution) {
    ConvDims c;
    c.input_spatial = c.kernel_spatial = c.output_spatial = {2, 3};
    c.kernel_input_feature = 1, c.kernel_output_feature = 0;
    c.window_strides = {1, 1}, c.lhs_dilation = {1, 1}, c.rhs_dilation = {1, 1}, c.padding = {1, 1, 1, 1};
    z = b.convolution(x, y, c);
  } else {
    z = b.dot_general(x, y, {{}, {}, {1}, {0}});
  }
  REQUIRE(b.ok());
  return *Computation::make({{x, y}}, {{z}});
}

const Golden kGolden[] = {
    {"sum of 100", DType::kF32, 0x62fc42db502f494e, {100}, {}, {0}},
    {"sum of 20000", DType::kF32, 0xe070238bdaca0275, {20000}, {}, {0}},
    {"sum of 600000", DType::kF32, 0x930ae5aac18c85e8, {600000}, {}, {0}},
    {"sum of 20000", DType::kF64, 0x342e6488267b3d3a, {20000}, {}, {0}},
    {"sum of 20000", DType::kF16, 0x9afe407b6301151, {20000}, {}, {0}},
    {"sum of 20000", DType::kBF16, 0x9c99807b644a4e5, {20000}, {}, {0}},
    {"row sums", DType::kF32, 0x303d9a16412c3148, {37, 1001}, {}, {1}},
    {"column sums", DType::kF32, 0xcf5b35b2c0d158ca, {1001, 37}, {}, {0}},
    {"middle sums", DType::kF64, 0x54a91355736264bb, {5, 301, 11}, {}, {1}},
    {"outer and inner sums", DType::kF32, 0xffdaaab9b6b424c1, {51, 7, 65}, {}, {0, 2}},
    {"dot 1x1000x1", DType::kF32, 0xedd7ccde57a2b5ca, {1, 1000}, {1000, 1}, {}},
    {"dot 33x700x29", DType::kF32, 0xf31bdf4835a50be4, {33, 700}, {700, 29}, {}},
    {"dot 1x700x29", DType::kF64, 0x973ce32e71dc83ec, {1, 700}, {700, 29}, {}},
    {"dot 17x300x5", DType::kF64, 0x84bbc4c952c4fe77, {17, 300}, {300, 5}, {}},
    {"dot 9x520x9", DType::kBF16, 0x5fec687482f03d52, {9, 520}, {520, 9}, {}},
    {"dot 9x300x9", DType::kC64, 0x4b861292950b8dbd, {9, 300}, {300, 9}, {}},
    {"convolution 3x3", DType::kF32, 0xbac8a4941d886e10, {2, 40, 9, 11}, {6, 40, 3, 3}, {}, true},
};

TEST_CASE("the orders of reductions, dots and convolutions are frozen", "[golden]") {
  jit::CpuClient::get().kernels().set_generator_options(
      {.library_path = kCodeGenerator, .cpu = {}, .features = {}});
  for (const Golden& g : kGolden) {
    const ComputationPtr program = program_of(g);
    std::vector<LiteralPtr> arguments{noise(g.dtype, g.lhs, 1)};
    if (!g.rhs.empty()) arguments.push_back(noise(g.dtype, g.rhs, 1 << 20));
    const Type* type = program->roots()[0].type();
    INFO(g.name << " " << info(g.dtype).name.data());
    const auto evaluated = evaluate(*program, arguments);
    REQUIRE(evaluated.ok());
    CHECK(hash_of(type, (*evaluated)[0]->data()) == g.hash);
    for (const bool compiled : {false, true}) {
      jit::CpuClient::get().kernels().set_compiling(compiled);
      jit::CpuClient::get().kernels().set_eager(compiled);
      std::vector<BufferRef> buffers, results;
      for (const LiteralPtr& a : arguments) {
        buffers.push_back(*host_device().memory().allocate(a->bytes()));
        std::memcpy(host_data(buffers.back()), a->data(), static_cast<size_t>(a->bytes()));
      }
      const auto executable = Executable::compile(jit::host_device(), program);
      REQUIRE(executable.ok());
      REQUIRE((*executable)->run(buffers, results).ok());
      CHECK(hash_of(type, host_data(results[0])) == g.hash);
    }
  }
  jit::CpuClient::get().kernels().set_compiling(true);
  jit::CpuClient::get().kernels().set_eager(false);
}

}  // namespace
}  // namespace lamina::jit
