// Life of machine code: pages, release, saved objects, forks, cancellation, refusals.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "jit/codegen/api.h"
#include "jit/kernel/interpret.h"
#include "tests/build_paths.h"
#include "tests/jit/kernel_util.h"

using namespace lamina::jit;
using lamina::hlo::Prim;

namespace {

LoopKernel add_kernel(uint64_t constant = 0) {
  KernelBuilder k(1, 0);
  const uint32_t a = k.load(k.access(k.buffer(DType::kS32), {{0, true, 0}}));
  const uint32_t c = k.prim(Prim::constant, DType::kS32, {}, constant);
  k.store(k.access(k.buffer(DType::kS32, true), {{0, true, 0}}), k.prim(Prim::add, DType::kS32, {a, c}));
  return k.kernel;
}

bool adds(KernelEntry entry, int32_t constant, int64_t n = 40) {
  std::vector<int32_t> in(n), out(n, -1);
  for (int64_t i = 0; i < n; ++i) in[i] = static_cast<int32_t>(i);
  void* buffers[] = {in.data(), out.data()};
  const int64_t args[] = {n};
  const int32_t cancel = 0;
  if (entry(buffers, args, 0, 1, 0, n, &cancel) != 0) return false;
  for (int64_t i = 0; i < n; ++i)
    if (out[i] != i + constant) return false;
  return true;
}

struct Mapping {
  uint64_t begin, end;
  std::string permissions;
};

std::vector<Mapping> mappings() {
  std::ifstream file("/proc/self/maps");
  std::vector<Mapping> result;
  for (std::string line; std::getline(file, line);) {
    Mapping m;
    char dash;
    std::istringstream in(line);
    in >> std::hex >> m.begin >> dash >> m.end >> m.permissions;
    result.push_back(m);
  }
  return result;
}

std::string permissions_at(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  for (const Mapping& m : mappings())
    if (m.begin <= at && at < m.end) return m.permissions;
  return "";
}

}  // namespace

TEST_CASE("code pages are never writable and executable, and are freed", "[codegen]") {
  const void* where = nullptr;
  {
    auto code = generator().compile(to_string(add_kernel(5)));
    REQUIRE(code.ok());
    REQUIRE(adds(code->entry(), 5));
    where = reinterpret_cast<const void*>(code->entry());
    CHECK(permissions_at(where).substr(0, 3) == "r-x");
    for (const Mapping& m : mappings()) CHECK_FALSE((m.permissions[1] == 'w' && m.permissions[2] == 'x'));
    CHECK(code->stats().code_bytes > 50);
    CHECK(code->stats().vector_lanes >= 4);
  }
  CHECK(permissions_at(where).substr(0, 3) != "r-x");
  // Thousands of kernels must not pile up.
  const size_t before = mappings().size();
  for (uint64_t i = 0; i < 100; ++i) {
    auto code = generator().compile(to_string(add_kernel(i)));
    REQUIRE(code.ok());
  }
  CHECK(mappings().size() <= before + 8);
}

TEST_CASE("objects are saved and loaded", "[codegen]") {
  auto code = generator().compile(to_string(add_kernel(9)), {}, true);
  REQUIRE(code.ok());
  const std::string object = code->take_object();
  REQUIRE(!object.empty());
  auto again = generator().load(object);
  REQUIRE(again.ok());
  CHECK(adds(again->entry(), 9));
  CHECK_FALSE(generator().load(object.substr(0, object.size() / 2)).ok());
  CHECK_FALSE(generator().load(std::string("no object")).ok());
  CHECK(generator().compile(to_string(add_kernel(9)))->take_object().empty());
}

TEST_CASE("texts show the kernel", "[codegen]") {
  auto ir = generator().ir(to_string(add_kernel(9)));
  REQUIRE(ir.ok());
  CHECK(ir->find("define i32 @lamina_kernel") != std::string::npos);
  auto assembly = generator(kLeastCpu).assembly(to_string(add_kernel(9)));
  REQUIRE(assembly.ok());
  CHECK(assembly->find("lamina_kernel:") != std::string::npos);
  CHECK(assembly->find("zmm") == std::string::npos);
  CHECK(to_string(add_kernel(9)) != to_string(add_kernel(8)));
  CHECK(to_string(add_kernel(9)) == to_string(add_kernel(9)));
}

TEST_CASE("a forked child compiles", "[codegen]") {
  auto code = generator().compile(to_string(add_kernel(3)));
  REQUIRE(code.ok());
  // Another thread compiles all the while, so that the fork falls into a compile.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) (void)generator().compile(to_string(add_kernel(1)));
  });
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      auto mine = generator().compile(to_string(add_kernel(4)));
      _exit(mine.ok() && adds(mine->entry(), 4) && adds(code->entry(), 3) ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  stop = true;
  busy.join();
  CHECK(generator().compile(to_string(add_kernel(4))).ok());
}

TEST_CASE("several threads compile and release", "[codegen]") {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        auto code = generator().compile(to_string(add_kernel(t * 100 + i)));
        if (code.ok() && adds(code->entry(), t * 100 + i)) ++good;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(good == 40);
}

TEST_CASE("a raised cancel flag stops kernels early", "[codegen]") {
  auto code = generator().compile(to_string(add_kernel(1)));
  REQUIRE(code.ok());
  const int64_t n = 200000;
  std::vector<int32_t> in(n, 1), out(n, -1);
  void* buffers[] = {in.data(), out.data()};
  const int64_t args[] = {n};
  const int32_t raised = 1;
  CHECK(code->entry()(buffers, args, 0, 1, 0, n, &raised) == 1);
  CHECK(out.back() == -1);
  CHECK(interpret_kernel(add_kernel(1), buffers, args, 0, 1, 0, n, &raised) == 1);
  // An empty range reads no buffer at all.
  void* none[] = {nullptr, nullptr};
  const int64_t empty[] = {0};
  const int32_t calm = 0;
  CHECK(code->entry()(none, empty, 0, 1, 0, 0, &calm) == 0);
}

TEST_CASE("malformed kernels and unknown libraries are refused in words", "[codegen]") {
  LoopKernel kernel = add_kernel();
  kernel.body[2].operands[1] = 2;
  CHECK_FALSE(generator().compile(to_string(kernel)).ok());
  kernel = add_kernel();
  kernel.body[2].type = DType::kF32;
  CHECK(generator().compile(to_string(kernel)).status().message().find("add") != absl::string_view::npos);
  kernel = add_kernel();
  kernel.accesses[0].terms[0].dim = 1;
  CHECK_FALSE(verify(kernel).ok());
  kernel = add_kernel();
  kernel.buffers[1].written = false;
  CHECK_FALSE(verify(kernel).ok());

  CodeGeneratorOptions options;
  options.library_path = "/nowhere/liblamina_llvm.so";
  CHECK(CodeGenerator::create(options).status().message().find("/nowhere") != absl::string_view::npos);
  options.library_path = lamina::kCodeGenerator;
  options.cpu = "z80";
  CHECK(CodeGenerator::create(options).status().message().find("knows no CPU z80") !=
        absl::string_view::npos);
#if defined(__x86_64__)
  options.cpu = "x86-64";
  CHECK(CodeGenerator::create(options).status().message().find("AVX2") != absl::string_view::npos);
  options.cpu = "";
  options.features = "-avx512f";
  auto narrow = CodeGenerator::create(options);
  REQUIRE(narrow.ok());
  auto code = (*narrow)->compile(to_string(add_kernel(2)));
  REQUIRE(code.ok());
  CHECK(code->stats().vector_lanes == 8);
  CHECK(adds(code->entry(), 2));
#endif
}

TEST_CASE("a code generator of another build is refused", "[code]") {
  void* const library = dlopen(lamina::kCodeGenerator, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  const auto get = reinterpret_cast<LaminaLlvmGetApi>(dlsym(library, "lamina_llvm_get_api"));
  REQUIRE(get);
  CHECK(get(LAMINA_LLVM_API_VERSION) != nullptr);
  CHECK(get(LAMINA_LLVM_API_VERSION + 1) == nullptr);
}
