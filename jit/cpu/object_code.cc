#include "jit/cpu/object_code.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"

namespace lamina::jit {
namespace {

constexpr std::string_view kEntryName = "lamina_kernel";  // as the code generator calls it
constexpr uint64_t kMaxAlignment = 4096;                  // a mapping begins on a page
constexpr uint64_t kNowhere = ~uint64_t{0};

absl::Status broken(std::string_view what) {
  return absl::InvalidArgumentError(str_cat("the object of a kernel is malformed: ", what));
}

class Linker {
 public:
  explicit Linker(std::string_view object) : object_(object) {}

  absl::StatusOr<Image> link() {
    if (absl::Status s = read_sections(); !s.ok()) return s;
    if (absl::Status s = lay_out(); !s.ok()) return s;
    if (absl::Status s = find_symbols(); !s.ok()) return s;
    for (const Elf64_Shdr& s : sections_)
      if (s.sh_type == SHT_RELA)
        if (absl::Status status = relocate(s); !status.ok()) return status;
    for (const Elf64_Sym& symbol : symbols_)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && name_of(symbol) == kEntryName)
        if (const uint64_t at = place_of(symbol); at < image_.bytes.size()) {
          image_.entry = at;
          return std::move(image_);
        }
    return broken("it has no entry");
  }

 private:
  template <typename T>
  std::optional<T> at(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > object_.size() || object_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, object_.data() + offset, sizeof(T));
    return value;
  }
  template <typename T>
  std::optional<std::vector<T>> table(const Elf64_Shdr& section) const {
    if (section.sh_offset > object_.size() || object_.size() - section.sh_offset < section.sh_size)
      return std::nullopt;
    std::vector<T> out(section.sh_size / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), object_.data() + section.sh_offset, out.size() * sizeof(T));
    return out;
  }

  absl::Status read_sections() {
    const std::optional<Elf64_Ehdr> header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_type != ET_REL || header->e_shentsize != sizeof(Elf64_Shdr))
      return broken("it is no relocatable ELF object");
    if (header->e_machine != EM_X86_64)
      return absl::UnimplementedError(str_cat("kernels are kept in files on x86-64 only, not on the machine ",
                                              header->e_machine, " of ELF"));
    for (uint64_t i = 0; i < header->e_shnum; ++i) {
      const std::optional<Elf64_Shdr> section = at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return broken("its table of sections ends early");
      sections_.push_back(*section);
    }
    return absl::OkStatus();
  }

  // Code first, then constants.
  absl::Status lay_out() {
    placed_.assign(sections_.size(), kNowhere);
    for (const bool code : {true, false})
      for (size_t i = 0; i < sections_.size(); ++i) {
        const Elf64_Shdr& s = sections_[i];
        if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0 || ((s.sh_flags & SHF_EXECINSTR) != 0) != code)
          continue;
        if (s.sh_type != SHT_PROGBITS || (s.sh_flags & (SHF_WRITE | SHF_TLS)))
          return absl::UnimplementedError("a kernel holds variables: it cannot be kept in a file");
        const uint64_t align = std::max<uint64_t>(s.sh_addralign, 1);
        if ((align & (align - 1)) != 0 || align > kMaxAlignment) return broken("a section's alignment");
        const std::optional<std::vector<char>> bytes = table<char>(s);
        if (!bytes || bytes->size() > kMaxImageBytes) return broken("a section ends early");
        placed_[i] = (image_.bytes.size() + align - 1) / align * align;
        image_.bytes.resize(placed_[i]);
        image_.bytes.append(bytes->data(), bytes->size());
        if (image_.bytes.size() > kMaxImageBytes) return broken("it is too large");
      }
    return absl::OkStatus();
  }

  absl::Status find_symbols() {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB) continue;
      std::optional<std::vector<Elf64_Sym>> symbols = table<Elf64_Sym>(s);
      if (!symbols || s.sh_link >= sections_.size()) return broken("its symbols end early");
      const std::optional<std::vector<char>> names = table<char>(sections_[s.sh_link]);
      if (!names) return broken("its names end early");
      symbols_ = *std::move(symbols);
      names_.assign(names->data(), names->size());
    }
    return absl::OkStatus();
  }

  std::string_view name_of(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= names_.size()) return {};
    const std::string_view rest = std::string_view(names_).substr(symbol.st_name);
    return rest.substr(0, rest.find('\0'));
  }

  // In the image; kNowhere for what lies elsewhere.
  uint64_t place_of(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx >= placed_.size() || placed_[symbol.st_shndx] == kNowhere ||
        symbol.st_value > sections_[symbol.st_shndx].sh_size)
      return kNowhere;
    return placed_[symbol.st_shndx] + symbol.st_value;
  }

  absl::Status relocate(const Elf64_Shdr& table_of) {
    if (table_of.sh_info >= placed_.size()) return broken("relocations of no section");
    const uint64_t base = placed_[table_of.sh_info];
    if (base == kNowhere) return absl::OkStatus();  // of a section that is not loaded
    const std::optional<std::vector<Elf64_Rela>> relocations = table<Elf64_Rela>(table_of);
    if (!relocations) return broken("its relocations end early");
    const uint64_t size = sections_[table_of.sh_info].sh_size;
    for (const Elf64_Rela& r : *relocations) {
      const uint64_t number = ELF64_R_SYM(r.r_info);
      if (number >= symbols_.size()) return broken("a relocation of no symbol");
      const uint64_t target = place_of(symbols_[number]);
      if (target == kNowhere)
        return absl::UnimplementedError(str_cat("a kernel calls '", name_of(symbols_[number]),
                                                "', which is not its own: it cannot be kept in a file"));
      const auto type = static_cast<int64_t>(ELF64_R_TYPE(r.r_info));
      if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return absl::UnimplementedError(
            str_cat("a kernel has a relocation of type ", type, ": it cannot be kept in a file"));
      if (r.r_offset > size || size - r.r_offset < sizeof(int32_t)) return broken("a relocation's place");
      const uint64_t place = base + r.r_offset;
      const auto distance = static_cast<int64_t>(target + static_cast<uint64_t>(r.r_addend) - place);
      if (distance != static_cast<int32_t>(distance)) return broken("a distance is too far");
      const auto written = static_cast<int32_t>(distance);
      std::memcpy(image_.bytes.data() + place, &written, sizeof(written));
    }
    return absl::OkStatus();
  }

  const std::string_view object_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> placed_;  // by section: where in the image
  std::vector<Elf64_Sym> symbols_;
  std::string names_;
  Image image_;
};

}  // namespace

absl::StatusOr<Image> link_object(std::string_view object) { return Linker(object).link(); }

absl::StatusOr<std::unique_ptr<const MappedCode>> MappedCode::map(std::string_view image, uint64_t entry) {
  if (image.empty() || image.size() > kMaxImageBytes || entry >= image.size())
    return absl::InvalidArgumentError("the machine code of a kernel has no entry");
  void* const memory =
      mmap(nullptr, image.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return absl::ResourceExhaustedError(
        str_cat("the machine has no ", static_cast<int64_t>(image.size()), " bytes of memory left for code"));
  std::unique_ptr<const MappedCode> made(new MappedCode(memory, image.size(), entry));
  std::memcpy(memory, image.data(), image.size());
  // Writable first and executable after, never both.
  if (mprotect(memory, image.size(), PROT_READ | PROT_EXEC) != 0)
    return absl::FailedPreconditionError("this process may not execute memory that it has written");
  return made;
}

MappedCode::~MappedCode() { munmap(memory_, bytes_); }

KernelEntry MappedCode::entry() const {
  return reinterpret_cast<KernelEntry>(static_cast<char*>(memory_) + entry_);
}

}  // namespace lamina::jit
