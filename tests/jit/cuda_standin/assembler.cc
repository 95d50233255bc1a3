// The stand-in for nvJitLink: what it makes is the PTX behind a line that says for which chip, which the
// stand-in for the driver loads on that chip alone. It refuses what the real one refuses of ours: chips that
// it does not know, and code made for later ones.
//
// Environment: LAMINA_STANDIN_ASSEMBLER, its version (1000 * major + 10 * minor).
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "hlo/strings.h"

namespace {

constexpr int kUnrecognizedOption = 1, kMissingArch = 2, kInvalidInput = 3, kPtxCompile = 4,
              kUnrecognizedArch = 16, kPtx = 2;
constexpr std::array kChips = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Link {
  int chip = 0;
  std::string text, code, errors;
};

int number_after(const std::string& text, const char* words) {
  const size_t at = text.find(words);
  return at == text.npos ? -1 : std::atoi(text.c_str() + at + std::strlen(words));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  const char* const set = std::getenv("LAMINA_STANDIN_ASSEMBLER");
  const int version = set ? std::atoi(set) : 12040;
  *major = static_cast<unsigned>(version / 1000);
  *minor = static_cast<unsigned>(version % 1000 / 10);
  return 0;
}

int nvJitLinkCreate(Link** link, uint32_t num_options, const char** options) {
  auto made = std::make_unique<Link>();
  for (uint32_t i = 0; i < num_options; ++i) {
    const std::string option = options[i];
    if (option.rfind("-arch=sm_", 0) != 0) return kUnrecognizedOption;
    made->chip = number_after(option, "sm_");
    if (std::find(kChips.begin(), kChips.end(), made->chip) == kChips.end()) return kUnrecognizedArch;
  }
  if (made->chip == 0) return kMissingArch;
  *link = made.release();
  return 0;
}

int nvJitLinkDestroy(Link** link) {
  delete *link;
  *link = nullptr;
  return 0;
}

int nvJitLinkAddData(Link* link, int kind, const void* data, size_t bytes, const char*) {
  const auto* const text = static_cast<const char*>(data);
  if (kind != kPtx || bytes == 0 || text[bytes - 1] != '\0') return kInvalidInput;
  link->text = text;
  const int made_for = number_after(link->text, "\n.target sm_");
  if (made_for > 0 && made_for <= link->chip) return 0;
  link->errors = made_for < 0 ? "no .target" : "the .target is later than the chip\n";
  return kPtxCompile;
}

int nvJitLinkComplete(Link* link) {
  if (link->text.empty()) return kInvalidInput;
  link->code = lamina::str_cat("\x7f", "CUBIN sm_", link->chip, "\n", link->text);
  return 0;
}

int nvJitLinkGetLinkedCubinSize(Link* link, size_t* bytes) {
  *bytes = link->code.size() + 1;
  return link->code.empty() ? kInvalidInput : 0;
}
int nvJitLinkGetLinkedCubin(Link* link, void* to) {
  std::memcpy(to, link->code.c_str(), link->code.size() + 1);
  return 0;
}
int nvJitLinkGetErrorLogSize(Link* link, size_t* bytes) {
  *bytes = link->errors.size() + 1;
  return 0;
}
int nvJitLinkGetErrorLog(Link* link, char* to) {
  std::memcpy(to, link->errors.c_str(), link->errors.size() + 1);
  return 0;
}
}
#pragma GCC visibility pop
