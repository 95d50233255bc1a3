#include "jit/program/plan_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/calls.h"
#include "hlo/nodes.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr char kMagic[8] = {'L', 'A', 'M', 'P', 'L', 'A', 'N', '\n'};
// Constants of a program may be as large as its file.
constexpr hlo::ParseLimits kLimits = {.literal_bytes = int64_t{1} << 32,
                                      .all_literal_bytes = int64_t{1} << 32};

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t zero;
  uint64_t bytes;          // of the file
  XXH128_hash_t checksum;  // of what follows, seeded with `bytes`
};

XXH128_hash_t checksum_of(std::string_view body, uint64_t bytes) {
  return XXH3_128bits_withSeed(body.data(), body.size(), bytes);
}

class Writer {
 public:
  void number(uint64_t n) { out_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void text(std::string_view s) {
    number(s.size());
    out_.append(s);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what Writer wrote; once something is wrong, all is empty and `ok` false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint64_t number() {
    uint64_t n = 0;
    if (rest_.size() < sizeof(n)) return fail();
    std::memcpy(&n, rest_.data(), sizeof(n));
    rest_.remove_prefix(sizeof(n));
    return n;
  }
  std::string_view text() {
    const uint64_t size = number();
    if (size > rest_.size()) fail();
    const std::string_view s = rest_.substr(0, ok_ ? size : 0);
    rest_.remove_prefix(s.size());
    return s;
  }
  // How many things of at least eight bytes follow.
  uint64_t count() {
    const uint64_t n = number();
    return n <= rest_.size() / sizeof(uint64_t) ? n : fail();
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  uint64_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }
  std::string_view rest_;
  bool ok_ = true;
};

absl::Status malformed(std::string_view what) {
  return absl::InvalidArgumentError(str_cat("the plan file is malformed: ", what));
}

void write_ports(Writer& w, const std::vector<PlanFile::Port>& ports) {
  w.number(ports.size());
  for (const PlanFile::Port& p : ports) {
    w.text(hlo::info(p.type->dtype).name);
    w.number(p.type->dims.size());
    for (int64_t d : p.type->dims) w.number(static_cast<uint64_t>(d));
    w.number((p.weak ? 1 : 0) | (p.given_up ? 2 : 0));
    w.text(p.path);
  }
}

absl::Status read_ports(Reader& r, std::vector<PlanFile::Port>& ports) {
  for (uint64_t n = r.count(); n > 0 && r.ok(); --n) {
    const std::optional<hlo::DType> dtype = hlo::parse_dtype(r.text());
    hlo::Dims dims(r.count());
    for (int64_t& d : dims) d = static_cast<int64_t>(r.number());
    const uint64_t flags = r.number();
    std::string path(r.text());
    if (!r.ok() || !dtype || flags > 3) return malformed("a type");
    const absl::StatusOr<const hlo::Type*> type = hlo::array_type(*dtype, dims);
    if (!type.ok()) return type.status();
    ports.push_back({*type, (flags & 1) != 0, (flags & 2) != 0, std::move(path)});
  }
  return absl::OkStatus();
}

absl::Status check_shape(const PlanFile& f) {
  const std::span<const hlo::Value> parameters = f.program->parameters();
  if (parameters.size() != f.arguments.size() + f.captured.size() ||
      f.program->roots().size() != f.results.size())
    return malformed("the program takes or gives another number of arrays");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const hlo::Type& type = *parameters[i].type();
    if (!type.is_array()) return malformed("a parameter is no array");
    if (i < f.arguments.size()
            ? type.dims != f.arguments[i].type->dims
            : static_cast<uint64_t>(type.bytes()) != f.captured[i - f.arguments.size()].size())
      return malformed("a parameter has another size");
  }
  for (size_t i = 0; i < f.results.size(); ++i)
    if (const hlo::Type& type = *f.program->roots()[i].type();
        !type.is_array() || type.dims != f.results[i].type->dims)
      return malformed("a result has another shape");
  return absl::OkStatus();
}

bool calls_host(const hlo::Node& n) {
  return n.op() == hlo::Op::custom_call &&
         !hlo::linalg::find_routine(n.attrs().string(hlo::Attr::call_target_name));
}

}  // namespace

absl::StatusOr<hlo::ComputationPtr> without_process(const hlo::ComputationPtr& program) {
  std::vector<const hlo::Computation*> all = hlo::regions_of(*program);  // used ones first
  all.push_back(program.get());
  HashMap<const hlo::Computation*, hlo::ComputationPtr> made;
  const auto attributes = [&](const hlo::Attrs& of) {
    const hlo::Attrs* attrs = hlo::with_attr(of, hlo::Attr::rule, int64_t{0});
    for (const auto& [key, value] : of.entries()) {
      if (hlo::attr_kind(key) == hlo::AttrKind::kComputation)
        attrs = hlo::with_attr(*attrs, key, made.at(of.computation(key).get()));
      if (hlo::attr_kind(key) != hlo::AttrKind::kComputations) continue;
      std::vector<hlo::ComputationPtr> regions;
      for (const hlo::ComputationPtr& c : of.computations(key)) regions.push_back(made.at(c.get()));
      attrs = hlo::with_attr(*attrs, key, std::move(regions));
    }
    return attrs;
  };
  hlo::GraphLock lock;
  for (const hlo::Computation* c : all) {
    hlo::Builder b;
    hlo::GraphCopy copy(c->parameters(), c->parameters());
    absl::Status refused;
    const bool whole =
        copy.extend(b, c->nodes(), [&](const hlo::Node& n, std::span<const hlo::Value> operands) {
          if (calls_host(n))
            refused = absl::UnimplementedError(
                "the program calls back into this process (a callback, or debug.print), which no file can "
                "hold; leave "
                "that out of what is saved");
          const hlo::NodeScope as(n);
          return b.make_multi(n.op(), operands, attributes(n.attrs()));
        });
    if (!refused.ok()) return refused;
    if (!whole) return b.status();
    absl::StatusOr<hlo::ComputationPtr> next = hlo::Computation::make(c->parameters(), copy(c->roots()));
    if (!next.ok()) return next.status();
    made[c] = *std::move(next);
  }
  return made.at(program.get());
}

absl::StatusOr<std::string> to_bytes(const PlanFile& file) {
  const std::string program = hlo::print(*file.program);
  // What will be read is what was meant.
  const absl::StatusOr<hlo::ComputationPtr> again = hlo::parse(program, kLimits);
  if (!again.ok()) return again.status();
  if (*again != file.program)
    return absl::InternalError(
        str_cat("the program ", file.name, " reads otherwise than it was written; please report it"));
  if (absl::Status s = check_shape(file); !s.ok()) return s;
  Writer w;
  w.text(file.name);
  w.text(file.structure);
  write_ports(w, file.arguments);
  write_ports(w, file.results);
  w.text(program);
  w.number(file.captured.size());
  for (const std::string& bytes : file.captured) w.text(bytes);
  w.text(file.machine);
  w.number(file.kernels.size());
  for (const KernelCode& k : file.kernels) {
    w.text(k.kernel.text);
    w.text(to_string(k.kernel.schedule));
    w.number(k.entry);
    w.text(k.image);
  }
  const std::string body = w.take();
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format = PlanFile::kFormat;
  header.bytes = sizeof(header) + body.size();
  header.checksum = checksum_of(body, header.bytes);
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  return out + body;
}

absl::StatusOr<PlanFile> parse_plan_file(std::string_view bytes) {
  Header header = {};
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return absl::InvalidArgumentError("it is no plan file: it does not begin as they do");
  if (bytes.size() < sizeof(header))
    return absl::InvalidArgumentError(
        str_cat("the plan file is cut short: it has ", bytes.size(), " bytes, not even a header"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.format != PlanFile::kFormat)
    return absl::InvalidArgumentError(
        str_cat("the plan file was written by another version of Lamina: its format is ", header.format,
                ", this version reads ", PlanFile::kFormat, "; save the program again"));
  if (header.bytes != bytes.size())
    return absl::InvalidArgumentError(
        str_cat("the plan file is ", header.bytes > bytes.size() ? "cut short" : "longer than it was",
                ": it has ", bytes.size(), " bytes, ", header.bytes, " were written"));
  const std::string_view body = bytes.substr(sizeof(header));
  if (header.zero != 0 || !XXH128_isEqual(checksum_of(body, header.bytes), header.checksum))
    return absl::InvalidArgumentError("the plan file is damaged: its checksum is not that of its contents");
  Reader r(body);
  PlanFile f;
  f.name = r.text();
  f.structure = r.text();
  for (std::vector<PlanFile::Port>* ports : {&f.arguments, &f.results})
    if (absl::Status s = read_ports(r, *ports); !s.ok()) return s;
  const std::string_view program = r.text();
  for (uint64_t n = r.count(); n > 0 && r.ok(); --n) f.captured.emplace_back(r.text());
  f.machine = r.text();
  for (uint64_t n = r.count(); n > 0 && r.ok(); --n) {
    KernelCode k;
    k.kernel.text = r.text();
    const absl::StatusOr<Schedule> schedule = parse_schedule(r.text());
    k.entry = r.number();
    k.image = r.text();
    if (!r.ok()) break;
    if (!schedule.ok()) return schedule.status();
    k.kernel.schedule = *schedule;
    f.kernels.push_back(std::move(k));
  }
  if (!r.ok() || !r.at_end()) return malformed("its parts do not fill it");
  absl::StatusOr<hlo::ComputationPtr> parsed = hlo::parse(program, kLimits);
  if (!parsed.ok()) return malformed(str_cat("its program: ", std::string(parsed.status().message())));
  f.program = *std::move(parsed);
  if (absl::Status s = check_shape(f); !s.ok()) return s;
  return f;
}

std::string describe(const PlanFile& file) {
  size_t captured = 0, code = 0;
  for (const std::string& bytes : file.captured) captured += bytes.size();
  for (const KernelCode& k : file.kernels) code += k.image.size();
  std::string out = str_cat("plan file of ", file.name, ", format ", PlanFile::kFormat, "\n");
  const auto ports = [&](std::string_view what, const std::vector<PlanFile::Port>& of) {
    for (const PlanFile::Port& p : of)
      str_append(&out, "  ", what, " ", p.path, p.path.empty() ? "" : ": ", hlo::to_string(*p.type),
                 p.weak ? ", weak" : "", p.given_up ? ", given up" : "", "\n");
  };
  ports("argument", file.arguments);
  ports("result", file.results);
  str_append(&out, "  ", file.program->nodes().size(), " nodes, ", file.captured.size(),
             " values besides the arguments in ", captured, " bytes\n");
  str_append(&out, "  ", file.kernels.size(), " kernels in ", code, " bytes of machine code for ",
             file.machine, "\n");
  return out;
}

}  // namespace lamina::jit
