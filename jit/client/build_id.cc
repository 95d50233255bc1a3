#include "jit/client/build_id.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"

namespace lamina::jit {
namespace {

constexpr uint64_t kLargestNotes = 64 << 10;

// `notes`: those of one segment.
std::string build_id_in(std::string_view notes) {
  constexpr auto padded = [](uint64_t bytes) { return (bytes + 3) / 4 * 4; };
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const uint64_t name = padded(note.n_namesz);
    if (name > notes.size() || note.n_descsz > notes.size() - name) return "";
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == std::string_view("GNU\0", 4))
      return absl::BytesToHexString(absl::string_view(notes.data() + name, note.n_descsz));
    notes.remove_prefix(std::min<uint64_t>(notes.size(), name + padded(note.n_descsz)));
  }
  return "";
}

bool is_library(const ElfW(Ehdr) & header) {
  constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass &&
         header.e_phentsize == sizeof(ElfW(Phdr));
}

bool read_at(int file, uint64_t offset, void* to, size_t bytes) {
  return pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

std::string build_id_in_file(int file) {
  ElfW(Ehdr) header;
  if (!read_at(file, 0, &header, sizeof(header)) || !is_library(header)) return "";
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!read_at(file, header.e_phoff, segments.data(), segments.size() * sizeof(ElfW(Phdr)))) return "";
  for (const ElfW(Phdr) & s : segments) {
    if (s.p_type != PT_NOTE || s.p_filesz > kLargestNotes) continue;
    std::string notes(s.p_filesz, '\0');
    if (!read_at(file, s.p_offset, notes.data(), notes.size())) continue;
    if (std::string id = build_id_in(notes); !id.empty()) return id;
  }
  return "";
}

}  // namespace

std::string build_id_of_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // it may be a pipe
  if (file < 0) return "";
  std::string id = build_id_in_file(file);
  close(file);
  return id;
}

std::string build_id_of_loaded(const void* symbol) {
  Dl_info info;
  if (!dladdr(symbol, &info) || !info.dli_fbase) return "";
  const auto* base = static_cast<const char*>(info.dli_fbase);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_NOTE)
      if (std::string id = build_id_in({base + segments[i].p_vaddr, segments[i].p_memsz}); !id.empty())
        return id;
  return "";
}

}  // namespace lamina::jit
