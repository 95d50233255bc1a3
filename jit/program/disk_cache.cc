#include "jit/program/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "hlo/strings.h"

namespace lamina::jit {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'L', 'A', 'M', 'I', 'N', 'A', 'K', '2'};
constexpr std::string_view kSuffix = ".kernel";
constexpr int64_t kLargestFile = int64_t{64} << 20;

struct Header {
  char magic[8];
  uint64_t key_bytes, object_bytes;
  XXH128_hash_t checksum;  // of key and object
};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  bool read_all(void* to, size_t bytes) const {
    for (auto* at = static_cast<char*>(to); bytes > 0;) {
      const ssize_t n = ::read(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  bool write_all(const void* from, size_t bytes) const {
    for (auto* at = static_cast<const char*>(from); bytes > 0;) {
      const ssize_t n = ::write(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int descriptor_;
};

XXH128_hash_t checksum_of(std::string_view key, std::string_view object) {
  return XXH3_128bits_withSeed(object.data(), object.size(), XXH3_64bits(key.data(), key.size()));
}

// Whether only this user can have written it.
bool is_ours(const struct stat& s) { return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

template <typename F>
void for_each_kernel(const std::string& directory, F&& f) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == kSuffix) f(it->path());
}

}  // namespace

std::string DiskCache::default_directory() {
  if (const char* chosen = std::getenv("LAMINA_CACHE_DIR")) return chosen;
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches && *caches == '/')
    return str_cat(caches, "/lamina");
  if (const char* home = std::getenv("HOME"); home && *home == '/') return str_cat(home, "/.cache/lamina");
  return "";
}

std::string DiskCache::unusable() {
  if (directory_.empty()) return "no directory is set";
  std::error_code error;
  fs::create_directories(fs::path(directory_).parent_path(), error);
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return str_cat(directory_, " cannot be made: ", std::strerror(errno));
  struct stat s;
  if (lstat(directory_.c_str(), &s) != 0) return str_cat(directory_, ": ", std::strerror(errno));
  if (!S_ISDIR(s.st_mode)) return str_cat(directory_, " is not a directory");
  if (!is_ours(s)) return str_cat(directory_, " belongs to another user or can be written by one");
  return "";
}

std::string DiskCache::path_of(std::string_view key) const {
  XXH128_canonical_t name;
  XXH128_canonicalFromHash(&name, XXH3_128bits(key.data(), key.size()));
  std::string path = directory_ + "/";
  for (unsigned char byte : name.digest) {
    path += "0123456789abcdef"[byte >> 4];
    path += "0123456789abcdef"[byte & 15];
  }
  return path + std::string(kSuffix);
}

std::optional<std::string> DiskCache::load(std::string_view key) {
  if (!unusable().empty()) return std::nullopt;
  const File file(open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat s;
  if (!file || fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode) || !is_ours(s)) return std::nullopt;
  Header header;
  if (s.st_size > kLargestFile || !file.read_all(&header, sizeof(header)) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.key_bytes != key.size() ||
      header.object_bytes != static_cast<uint64_t>(s.st_size) - sizeof(header) - key.size())
    return std::nullopt;
  std::string stored_key(key.size(), '\0'), object(header.object_bytes, '\0');
  if (!file.read_all(stored_key.data(), stored_key.size()) || !file.read_all(object.data(), object.size()))
    return std::nullopt;
  if (stored_key != key || !XXH128_isEqual(checksum_of(stored_key, object), header.checksum))
    return std::nullopt;
  futimens(file.get(), nullptr);  // used now: pruned last
  return object;
}

bool DiskCache::store(std::string_view key, std::string_view object) {
  if (!unusable().empty()) return false;
  std::string temporary = directory_ + "/new.XXXXXX";
  const File file(mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!file) return false;
  Header header{{}, key.size(), object.size(), checksum_of(key, object)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const bool whole = file.write_all(&header, sizeof(header)) && file.write_all(key.data(), key.size()) &&
                     file.write_all(object.data(), object.size());
  if (!whole || rename(temporary.c_str(), path_of(key).c_str()) != 0) {
    unlink(temporary.c_str());
    return false;
  }
  // The directory is looked at once, and again when this process alone may have filled an eighth of it.
  const int64_t bytes = static_cast<int64_t>(sizeof(header) + key.size() + object.size());
  stored_since_prune_ = stored_since_prune_ < 0 ? limit_ : stored_since_prune_ + bytes;
  if (stored_since_prune_ >= limit_ / 8) prune();
  return true;
}

void DiskCache::prune() {
  struct Entry {
    struct timespec used;
    int64_t bytes;
    std::string path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  for_each_kernel(directory_, [&](const fs::path& path) {
    struct stat s;
    if (lstat(path.c_str(), &s) != 0) return;
    entries.push_back({s.st_mtim, s.st_size, path.string()});
    total += s.st_size;
  });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& e : entries) {
    if (total <= limit_) break;
    if (unlink(e.path.c_str()) == 0) total -= e.bytes;
  }
  stored_since_prune_ = 0;
}

DiskCache::Contents DiskCache::contents() const {
  Contents found;
  for_each_kernel(directory_, [&](const fs::path& path) {
    struct stat s;
    if (lstat(path.c_str(), &s) != 0) return;
    ++found.objects;
    found.bytes += s.st_size;
  });
  return found;
}

DiskCache::Contents DiskCache::clear() {
  Contents removed;
  std::vector<std::string> paths;
  for_each_kernel(directory_, [&](const fs::path& path) { paths.push_back(path.string()); });
  for (const std::string& path : paths) {
    struct stat s;
    if (lstat(path.c_str(), &s) != 0 || unlink(path.c_str()) != 0) continue;
    ++removed.objects;
    removed.bytes += s.st_size;
  }
  return removed;
}

}  // namespace lamina::jit
