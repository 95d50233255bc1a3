#include "jit/program/plan_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/calls.h"
#include "hlo/nodes.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "jit/kernel/kernel.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr char kPlanMagic[8] = {'L', 'A', 'M', 'P', 'L', 'A', 'N', '\n'};
// Constants of a program may be as large as its file.
constexpr hlo::ParseLimits kLimits = {.literal_bytes = int64_t{1} << 32,
                                      .all_literal_bytes = int64_t{1} << 32};

struct PlanHeader {
  char magic[8];
  uint32_t format;
  uint32_t zero;
  uint64_t bytes;          // of the file
  XXH128_hash_t checksum;  // of what follows, seeded with `bytes`
};

XXH128_hash_t checksum_of(std::string_view body, uint64_t bytes) {
  return XXH3_128bits_withSeed(body.data(), body.size(), bytes);
}

// The body as it lies in a file: views of what is written, or was read.
struct Body {
  struct Port {
    std::string_view dtype;
    std::vector<uint64_t> dims;
    uint64_t flags = 0;
    std::string_view path;
  };
  struct Code {
    std::string_view text, schedule;
    uint64_t entry = 0;
    std::string_view image;
  };
  std::string_view name, structure;
  std::vector<Port> arguments, results;
  std::string_view program;
  std::vector<std::string_view> captured;
  std::string_view machine;
  std::vector<Code> kernels;
};

// The order of the parts, for all that go through them: what writes, what reads, and what names them.
template <typename Visitor>
void visit_parts(Visitor& v, Body& b) {
  v.part("name", b.name);
  v.part("structure", b.structure);
  v.part("arguments", b.arguments);
  v.part("results", b.results);
  v.part("program", b.program);
  v.part("captured", b.captured);
  v.part("machine", b.machine);
  v.part("kernels", b.kernels);
}
template <typename Visitor>
void visit_parts(Visitor& v, Body::Port& p) {
  v.part("element type", p.dtype);
  v.part("dims", p.dims);
  v.part("flags", p.flags);
  v.part("path", p.path);
}
template <typename Visitor>
void visit_parts(Visitor& v, Body::Code& c) {
  v.part("text", c.text);
  v.part("schedule", c.schedule);
  v.part("entry", c.entry);
  v.part("image", c.image);
}
template <typename Visitor, typename T>
void visit_item(Visitor& v, T& x) {
  if constexpr (std::is_same_v<T, Body::Port> || std::is_same_v<T, Body::Code>)
    visit_parts(v, x);
  else
    v.part("each", x);
}

constexpr uint64_t kWeak = 1, kGivenUp = 2, kAllPortFlags = kWeak | kGivenUp;

// What the parts mean, of which their layout says nothing. Texts are those of hlo/printer.h,
// jit/kernel/print.cc and jit/kernel/schedule.h: where one of them comes to mean something else and still
// reads, so does a line here.
constexpr std::string_view kMeanings =
    "flags: 1 weak, 2 given up\n"
    "program: text, version 1\n"
    "kernels' text: version 1, schedule: version 1\n"
    "entry: s32 (buffers, args, outer begin, outer end, inner begin, inner end, cancel)\n";
static_assert(kWeak == 1 && kGivenUp == 2, "say it in kMeanings");
static_assert(std::is_same_v<KernelEntry, int32_t (*)(void* const*, const int64_t*, int64_t, int64_t, int64_t,
                                                      int64_t, const int32_t*)>,
              "say it in kMeanings: machine code of other files is called otherwise");

class Writer {
 public:
  void part(std::string_view, uint64_t n) { out_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void part(std::string_view name, std::string_view s) {
    part(name, s.size());
    out_.append(s);
  }
  template <typename T>
  void part(std::string_view name, std::vector<T>& list) {
    part(name, uint64_t{list.size()});
    for (T& x : list) visit_item(*this, x);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what Writer wrote; once something is wrong, all is empty and `ok` false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  void part(std::string_view, uint64_t& n) {
    n = 0;
    if (rest_.size() < sizeof(n)) return fail();
    std::memcpy(&n, rest_.data(), sizeof(n));
    rest_.remove_prefix(sizeof(n));
  }
  void part(std::string_view name, std::string_view& s) {
    uint64_t size = 0;
    part(name, size);
    if (size > rest_.size()) fail();
    s = rest_.substr(0, ok_ ? size : 0);
    rest_.remove_prefix(s.size());
  }
  template <typename T>
  void part(std::string_view name, std::vector<T>& list) {
    uint64_t n = 0;
    part(name, n);
    if (n > rest_.size() / sizeof(uint64_t)) fail();  // each has at least a number
    for (; n > 0 && ok_; --n) visit_item(*this, list.emplace_back());
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

// Names what the two above go through.
class Layout {
 public:
  void part(std::string_view name, uint64_t&) { line(name, "number"); }
  void part(std::string_view name, std::string_view&) { line(name, "bytes"); }
  template <typename T>
  void part(std::string_view name, std::vector<T>&) {
    line(name, "list");
    indent_ += 2;
    T one{};
    visit_item(*this, one);
    indent_ -= 2;
  }
  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view name, std::string_view kind) {
    str_append(&text_, std::string(indent_, ' '), name, ": ", kind, "\n");
  }
  std::string text_;
  size_t indent_ = 0;
};

absl::Status malformed(std::string_view what) {
  return absl::InvalidArgumentError(str_cat("the plan file is malformed: ", what));
}

Body::Port written(const PlanFile::Port& p) {
  return {hlo::info(p.type->dtype).name,
          {p.type->dims.begin(), p.type->dims.end()},
          (p.weak ? kWeak : 0) | (p.given_up ? kGivenUp : 0),
          p.path};
}

absl::StatusOr<PlanFile::Port> read(const Body::Port& p) {
  const std::optional<hlo::DType> dtype = hlo::parse_dtype(p.dtype);
  if (!dtype || p.flags > kAllPortFlags) return malformed("a type");
  const absl::StatusOr<const hlo::Type*> type =
      hlo::array_type(*dtype, hlo::Dims(p.dims.begin(), p.dims.end()));
  if (!type.ok()) return type.status();
  return PlanFile::Port{*type, (p.flags & kWeak) != 0, (p.flags & kGivenUp) != 0, std::string(p.path)};
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

std::string plan_file_layout() {
  Layout layout;
  Body body;
  visit_parts(layout, body);
  return layout.take() + std::string(kMeanings);
}

uint32_t plan_file_format() {
  static const uint32_t format = [] {
    const std::string text = plan_file_layout();
    return static_cast<uint32_t>(XXH3_64bits(text.data(), text.size()));
  }();
  return format;
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
  Body body;
  body.name = file.name;
  body.structure = file.structure;
  for (const PlanFile::Port& p : file.arguments) body.arguments.push_back(written(p));
  for (const PlanFile::Port& p : file.results) body.results.push_back(written(p));
  body.program = program;
  body.captured.assign(file.captured.begin(), file.captured.end());
  body.machine = file.machine;
  std::vector<std::string> schedules;
  for (const KernelCode& k : file.kernels) schedules.push_back(to_string(k.kernel.schedule));
  for (size_t i = 0; i < file.kernels.size(); ++i) {
    const KernelCode& k = file.kernels[i];
    body.kernels.push_back({k.kernel.text, schedules[i], k.entry, k.image});
  }
  Writer w;
  visit_parts(w, body);
  const std::string bytes = w.take();
  PlanHeader header = {};
  std::memcpy(header.magic, kPlanMagic, sizeof(kPlanMagic));
  header.format = plan_file_format();
  header.bytes = sizeof(header) + bytes.size();
  header.checksum = checksum_of(bytes, header.bytes);
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  return out + bytes;
}

bool looks_like_plan_file(std::string_view bytes) {
  return bytes.starts_with(std::string_view(kPlanMagic, sizeof(kPlanMagic)));
}

absl::StatusOr<PlanFile> parse_plan_file(std::string_view bytes) {
  PlanHeader header = {};
  if (!looks_like_plan_file(bytes))
    return absl::InvalidArgumentError("it is no plan file: it does not begin as they do");
  if (bytes.size() < sizeof(header))
    return absl::InvalidArgumentError(
        str_cat("the plan file is cut short: it has ", bytes.size(), " bytes, not even a header"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.format != plan_file_format())
    return absl::InvalidArgumentError(
        str_cat("the plan file was written by another version of Lamina: its format is ", header.format,
                ", this version reads ", plan_file_format(), "; save the program again"));
  if (header.bytes != bytes.size())
    return absl::InvalidArgumentError(
        str_cat("the plan file is ", header.bytes > bytes.size() ? "cut short" : "longer than it was",
                ": it has ", bytes.size(), " bytes, ", header.bytes, " were written"));
  const std::string_view rest = bytes.substr(sizeof(header));
  if (header.zero != 0 || !XXH128_isEqual(checksum_of(rest, header.bytes), header.checksum))
    return absl::InvalidArgumentError("the plan file is damaged: its checksum is not that of its contents");
  Reader r(rest);
  Body body;
  visit_parts(r, body);
  if (!r.ok() || !r.at_end()) return malformed("its parts do not fill it");
  PlanFile f;
  f.name = body.name;
  f.structure = body.structure;
  for (const auto& [from, to] : {std::pair(&body.arguments, &f.arguments), {&body.results, &f.results}})
    for (const Body::Port& p : *from) {
      absl::StatusOr<PlanFile::Port> port = read(p);
      if (!port.ok()) return port.status();
      to->push_back(*std::move(port));
    }
  f.captured.assign(body.captured.begin(), body.captured.end());
  f.machine = body.machine;
  for (const Body::Code& c : body.kernels) {
    const absl::StatusOr<Schedule> schedule = parse_schedule(c.schedule);
    if (!schedule.ok()) return schedule.status();
    f.kernels.push_back({{std::string(c.text), *schedule}, std::string(c.image), c.entry});
  }
  absl::StatusOr<hlo::ComputationPtr> parsed = hlo::parse(body.program, kLimits);
  if (!parsed.ok()) return malformed(str_cat("its program: ", std::string(parsed.status().message())));
  f.program = *std::move(parsed);
  if (absl::Status s = check_shape(f); !s.ok()) return s;
  return f;
}

std::string describe(const PlanFile& file) {
  size_t captured = 0, code = 0;
  for (const std::string& bytes : file.captured) captured += bytes.size();
  for (const KernelCode& k : file.kernels) code += k.image.size();
  std::string out = str_cat("plan file of ", file.name, ", format ", plan_file_format(), "\n");
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
