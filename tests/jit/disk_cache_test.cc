// The kernels kept on disk: what comes back, what is refused, what goes when there is too much.
#include "jit/program/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

using lamina::jit::DiskCache;
namespace fs = std::filesystem;

namespace {

struct Directory {
  Directory() {
    std::string name = (fs::temp_directory_path() / "lamina_disk_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

TEST_CASE("kept objects come back, under their own key only", "[disk]") {
  Directory d;
  DiskCache cache((d.path / "new" / "kernels").string());
  CHECK_FALSE(cache.load("a"));
  CHECK(cache.store("a", "object of a"));
  CHECK(cache.store("b", ""));
  CHECK(cache.store("a", "newer object of a"));
  CHECK(cache.load("a") == "newer object of a");
  CHECK(cache.load("b") == "");
  CHECK_FALSE(cache.load("c"));
  CHECK(cache.contents().objects == 2);
  CHECK(cache.clear().objects == 2);
  CHECK_FALSE(cache.load("a"));
}

TEST_CASE("a file under another key's name is refused", "[disk]") {
  Directory d;
  DiskCache cache(d.path.string());
  REQUIRE(cache.store("a", "object"));
  const fs::path of_a = fs::directory_iterator(d.path)->path();
  REQUIRE(cache.store("b", "tcejbo"));
  for (const auto& entry : fs::directory_iterator(d.path))
    if (entry.path() != of_a) fs::copy_file(of_a, entry.path(), fs::copy_options::overwrite_existing);
  CHECK(cache.load("a") == "object");
  CHECK_FALSE(cache.load("b"));
}

TEST_CASE("a file of an earlier format is refused", "[disk]") {
  Directory d;
  DiskCache cache(d.path.string());
  REQUIRE(cache.store("a", "object"));
  const fs::path path = fs::directory_iterator(d.path)->path();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(7);  // its magic ends in the format's number
    file.put('1');
  }
  CHECK_FALSE(cache.load("a"));
  REQUIRE(cache.store("a", "object"));
  CHECK(cache.load("a") == "object");
}

TEST_CASE("links and directories of others are refused", "[disk]") {
  Directory d;
  DiskCache cache((d.path / "real").string());
  REQUIRE(cache.store("a", "object"));
  fs::create_directory_symlink(d.path / "real", d.path / "link");
  DiskCache through((d.path / "link").string());
  CHECK(!through.unusable().empty());
  CHECK_FALSE(through.load("a"));
  CHECK_FALSE(through.store("a", "object"));
  CHECK(!DiskCache("").unusable().empty());
  CHECK_FALSE(DiskCache("").store("a", "object"));
}

TEST_CASE("past the limit the kernels used longest ago go", "[disk]") {
  Directory d;
  const std::string object(1000, 'x');
  DiskCache cache(d.path.string(), 20'000);
  for (int i = 0; i < 10; ++i) REQUIRE(cache.store(std::to_string(i), object));
  // Those stored first were used last.
  for (const auto& entry : fs::directory_iterator(d.path))
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  REQUIRE(cache.load("3"));
  for (int i = 10; i < 30; ++i) REQUIRE(cache.store(std::to_string(i), object));
  CHECK(cache.contents().bytes <= 20'000 + 20'000 / 8 + 1100);
  CHECK(cache.load("3"));
  CHECK(cache.load("29"));
  CHECK_FALSE(cache.load("5"));
}

TEST_CASE("many writers of one key leave a whole file", "[disk]") {
  Directory d;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      DiskCache cache(d.path.string());
      for (int i = 0; i < 50; ++i) {
        cache.store("k", std::string(5000, static_cast<char>('a' + t)));
        const auto found = cache.load("k");
        if (!found || found->size() != 5000 || found->find_first_not_of((*found)[0]) != std::string::npos)
          std::abort();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(DiskCache(d.path.string()).contents().objects == 1);
  CHECK(std::distance(fs::directory_iterator(d.path), fs::directory_iterator()) == 1);
}
