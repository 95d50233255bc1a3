#include "jit/cpu/perf_symbols.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "absl/hash/hash.h"
#include "absl/strings/str_format.h"
#include "hlo/location.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::jit {
namespace {

constexpr size_t kMaxLines = 3;

uint64_t key_of(std::string_view kernel) { return absl::HashOf(kernel); }

bool is_wanted() {
  const char* const chosen = std::getenv("LAMINA_PERF_MAP");
  return chosen && *chosen && std::string_view(chosen) != "0";
}

}  // namespace

PerfSymbols::PerfSymbols() : on_(is_wanted()) {}

PerfSymbols& PerfSymbols::get() {
  static constinit hlo::Once<PerfSymbols> symbols;
  return symbols.get([] { return new PerfSymbols; });
}

std::string PerfSymbols::path() { return str_cat("/tmp/perf-", getpid(), ".map"); }

void PerfSymbols::note_lines(std::string_view kernel, const std::vector<hlo::LocationId>& lines) {
  std::vector<std::string> names;
  for (const hlo::LocationId id : lines) {
    const hlo::Location at = hlo::location(id);
    if (at.file.empty()) continue;
    std::string name = str_cat(at.file.substr(at.file.rfind('/') + 1), ":", at.line);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxLines); ++i) str_append(&text, i ? "," : " ", names[i]);
  if (names.size() > kMaxLines) text += ",...";
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::lock_guard lock(mutex_);
  lines_.try_emplace(key_of(kernel), std::move(text));
}

void PerfSymbols::add(std::string_view kernel, const void* code, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto lines = lines_.find(key_of(kernel));
  const bool reduces = kernel.find("\nreduce") != std::string_view::npos;
  const std::string line =
      absl::StrFormat("%x %x lamina %s%s\n", reinterpret_cast<uintptr_t>(code), bytes,
                      reduces ? "reducing loop" : "loop", lines == lines_.end() ? "" : lines->second);
  const bool is_new = process_ != getpid();
  process_ = getpid();
  known_ += line;
  // Where it cannot be written there are no names.
  if (std::FILE* file = std::fopen(path().c_str(), is_new ? "w" : "a")) {
    const std::string& text = is_new ? known_ : line;
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
}

}  // namespace lamina::jit
