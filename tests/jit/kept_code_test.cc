// Machine code that outlives its process: what is kept of a kernel, under which name, and what runs again.
#include "jit/cpu/kept_code.h"

#include <unistd.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/client/build_id.h"
#include "jit/cpu/kernel_store.h"
#include "jit/cpu/object_code.h"
#include "tests/build_paths.h"
#include "tests/jit/kernel_util.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
namespace fs = std::filesystem;

namespace {

struct Directory {
  Directory() {
    std::string name = (fs::temp_directory_path() / "lamina_kept_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

// x / 3.7 + x: its constant lies beside its code.
LoopKernel sum_kernel() {
  KernelBuilder k(1, 0);
  const uint32_t x = k.load(k.access(k.buffer(DType::kF32), {{0, true, 0}}));
  const uint32_t c = k.prim(Prim::constant, DType::kF32, {}, std::bit_cast<uint32_t>(3.7f));
  const uint32_t part = k.prim(Prim::div, DType::kF32, {x, c});
  k.store(k.access(k.buffer(DType::kF32, true), {{0, true, 0}}), k.prim(Prim::add, DType::kF32, {part, x}));
  return k.kernel;
}

std::vector<float> results(KernelEntry entry) {
  std::vector<float> in(100), out(100, -1);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 0.37f * static_cast<float>(i) - 9;
  void* buffers[] = {in.data(), out.data()};
  const int64_t args[] = {100};
  const int32_t cancel = 0;
  REQUIRE(entry(buffers, args, 0, 1, 0, 100, &cancel) == 0);
  return out;
}

// What a process finds that has `directory`, and what it does about the kernel.
struct Process {
  explicit Process(const fs::path& directory) {
    CodeGeneratorOptions options;
    options.library_path = lamina::kCodeGenerator;
    store.set_generator_options(options);
    store.set_cache_directory(directory.string());
    store.set_eager(true);
    kernel = store.get(sum_kernel(), {});
    const Tier tier = store.tier_for(*kernel, 1);
    REQUIRE(tier.code);
    got = results(tier.code);
  }
  KernelStore store;
  std::shared_ptr<Kernel> kernel;
  std::vector<float> got;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// Of the one entry of a cache: its file begins with 40 bytes that say how long the key is that follows.
std::string key_of(const fs::path& directory) {
  const std::string file = contents(fs::directory_iterator(directory)->path());
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.data() + 8, sizeof(bytes));
  return file.substr(40, bytes);
}

}  // namespace

TEST_CASE("kept code is what it was packed as", "[disk][codegen]") {
  const std::string object = generator().compile(to_string(sum_kernel()), {}, true)->take_object();
  const std::string packed = pack_code(object);
  const auto kept = unpack_code(packed);
  REQUIRE(kept);
#if defined(__x86_64__)
  REQUIRE(kept->entry);
  const auto image = MappedCode::map(kept->bytes, *kept->entry);
  REQUIRE(image.ok());
  const auto linked = generator().load(object);
  CHECK(results((*image)->entry()) == results(linked->entry()));
#endif
  // What cannot be linked stays what it was.
  const std::string other = pack_code("no object");
  REQUIRE(unpack_code(other));
  CHECK_FALSE(unpack_code(other)->entry);
  CHECK(unpack_code(other)->bytes == "no object");
  CHECK_FALSE(unpack_code(""));
  CHECK_FALSE(unpack_code("1234567"));
}

TEST_CASE("a second store takes its code from the disk", "[disk][codegen]") {
  Directory d;
  const Process first(d.path);
  CHECK(first.store.stats().compiles == 1);
  const Process second(d.path);
  CHECK(second.store.stats().compiles == 0);
  CHECK(second.store.stats().loads == 1);
  CHECK(second.store.stats().code_bytes > 0);
  CHECK(second.got == first.got);
}

TEST_CASE("an object on the disk is linked by the generator", "[disk][codegen]") {
  Directory d;
  const Process first(d.path);
  const std::string object = generator().compile(to_string(sum_kernel()), {}, true)->take_object();
  REQUIRE(DiskCache(d.path.string()).store(key_of(d.path), std::string(8, '\xff') + object));
  const Process second(d.path);
  CHECK(second.store.stats().compiles == 0);
  CHECK(second.store.stats().loads == 1);
  CHECK(second.got == first.got);
}

TEST_CASE("what is no code is compiled anew, and then kept", "[disk][codegen]") {
  Directory d;
  const Process first(d.path);
  for (const std::string& wrong :
       {std::string(), std::string("short"), std::string(8, '\0'), std::string(7, '\0') + "\x01 far beyond",
        std::string(8, '\xff') + "no object"}) {
    REQUIRE(DiskCache(d.path.string()).store(key_of(d.path), wrong));
    const Process second(d.path);
    CHECK(second.store.stats().compiles == 1);
    CHECK(second.store.stats().loads == 0);
    CHECK(second.got == first.got);
    CHECK(Process(d.path).store.stats().loads == 1);
  }
}

TEST_CASE("code of other generators and options is not found", "[disk][codegen]") {
  Directory d;
  const Process first(d.path);
  const auto compiles_with = [&](const CodeGeneratorOptions& options) {
    KernelStore store;
    store.set_generator_options(options);
    store.set_cache_directory(d.path.string());
    store.set_eager(true);
    const auto kernel = store.get(sum_kernel(), {});
    CHECK(store.tier_for(*kernel, 1).code);
    return store.stats().compiles;
  };
  CodeGeneratorOptions options;
  options.library_path = lamina::kCodeGenerator;
  CHECK(compiles_with(options) == 0);
  options.vector_bits = 128;
  CHECK(compiles_with(options) == 1);
  CHECK(compiles_with(options) == 0);
  options.vector_bits = 0;
  options.cpu = kLeastCpu;
  CHECK(compiles_with(options) == 1);
  options.cpu.clear();
  CHECK(compiles_with(options) == 0);
}

TEST_CASE("libraries have the same name loaded or not", "[disk][codegen]") {
  const std::string id = build_id_of_file(lamina::kCodeGenerator);
  CHECK(id.size() == 40);
  CHECK(id == generator().build());
  Directory d;
  CHECK(build_id_of_file(d.path.string()).empty());
  CHECK(build_id_of_file((d.path / "nothing").string()).empty());
  const std::string whole = contents(lamina::kCodeGenerator).substr(0, 4096);
  const fs::path part = d.path / "part";
  for (size_t bytes = 0; bytes <= whole.size(); bytes += bytes < 800 ? 7 : 800) {
    std::ofstream(part, std::ios::binary) << whole.substr(0, bytes);
    const std::string found = build_id_of_file(part.string());
    CHECK((found.empty() || found == id));
  }
  // The name is of the contents: another one, once they differ.
  std::string changed = whole;
  const size_t at = changed.find(std::string("GNU\0", 4));
  REQUIRE(at != std::string::npos);
  changed[at + 4] = static_cast<char>(changed[at + 4] ^ 1);
  std::ofstream(part, std::ios::binary) << changed;
  CHECK(build_id_of_file(part.string()).size() == 40);
  CHECK(build_id_of_file(part.string()) != id);
}
