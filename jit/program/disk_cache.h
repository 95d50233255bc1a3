// Machine code kept between processes, one file per kernel.
//
// Contract: what cannot be trusted is not used. The directory is made with mode 0700 and must belong to this
// user and be writable by nobody else; so must each file (0600), whose full key and checksum (XXH3, 128 bits)
// are compared before its object is handed out. Files appear whole or not at all (rename), so any number of
// processes may share a directory. Past the limit the files used longest ago go. A cache that cannot be had
// is one that never has anything: no error reaches a user's program.
#ifndef LAMINA_JIT_PROGRAM_DISK_CACHE_H_
#define LAMINA_JIT_PROGRAM_DISK_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lamina::jit {

class DiskCache {
 public:
  struct Contents {
    int64_t objects = 0, bytes = 0;
  };

  // $LAMINA_CACHE_DIR (set and empty: none), else $XDG_CACHE_HOME/lamina, else $HOME/.cache/lamina.
  static std::string default_directory();

  // An empty directory name means no cache. `limit` is in bytes of all files.
  explicit DiskCache(std::string directory = default_directory(), int64_t limit = int64_t{256} << 20)
      : directory_(std::move(directory)), limit_(limit) {}

  const std::string& directory() const { return directory_; }
  // Why nothing is kept; empty if all is well. Makes the directory if it is not there.
  std::string unusable();

  std::optional<std::string> load(std::string_view key);
  // False if it could not be kept.
  bool store(std::string_view key, std::string_view object);
  Contents contents() const;
  // Removes every kernel; what was there.
  Contents clear();

 private:
  std::string path_of(std::string_view key) const;
  void prune();

  std::string directory_;
  int64_t limit_;
  int64_t stored_since_prune_ = -1;  // bytes; below 0: the directory has not been looked at
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_DISK_CACHE_H_
