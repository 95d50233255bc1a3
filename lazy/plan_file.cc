#include "lazy/plan_file.h"

#include <set>
#include <utility>

#include "hlo/strings.h"
#include "jit/program/listing.h"
#include "lazy/placement.h"

namespace lamina::lazy {
namespace {

std::string key_of(const jit::KernelText& kernel) { return kernel.text + to_string(kernel.schedule); }

std::vector<Typed> typed(const std::vector<jit::PlanFile::Port>& ports) {
  std::vector<Typed> out;
  for (const jit::PlanFile::Port& p : ports) out.push_back({p.type, p.weak});
  return out;
}

bool is_carried(const Typed& seen, const Value& in_program) {
  return in_program.type()->dtype == carrier_type(seen.type->dtype, seen.weak);
}

// Whether the types that callers see are carried by those of the program.
void check_carriers(const jit::PlanFile& file) {
  bool fits = true;
  for (size_t i = 0; i < file.arguments.size(); ++i)
    fits &= is_carried({file.arguments[i].type, file.arguments[i].weak}, file.program->parameters()[i]);
  for (size_t i = 0; i < file.results.size(); ++i)
    fits &= is_carried({file.results[i].type, file.results[i].weak}, file.program->roots()[i]);
  if (!fits) throw Error(ErrorKind::kValue, "the plan file is malformed: its types are not its program's");
}

// Makes the machine code of the file that of its kernels, for as long as `held` is. Why it did not; empty: it
// did.
std::string adopt(const jit::PlanFile& file, jit::Device& device,
                  std::vector<std::shared_ptr<const void>>& held) {
  const jit::Target& target = device.target();
  if (const absl::Status fits = target.check_machine(file.machine); !fits.ok())
    return std::string(fits.message());
  for (const jit::KernelCode& code : file.kernels) {
    absl::StatusOr<std::shared_ptr<const void>> kernel = target.adopt(code);
    if (absl::IsFailedPrecondition(kernel.status())) return std::string(kernel.status().message());
    held.push_back(check(std::move(kernel)));
  }
  return "";
}

std::string why_slow(const jit::PlanFile& file, const jit::Executable& executable, std::string unused) {
  if (!unused.empty()) return str_cat("its machine code is not used: ", unused);
  std::set<std::string> there;
  for (const jit::KernelCode& code : file.kernels) there.insert(key_of(code.kernel));
  int64_t missing = 0;
  const std::vector<const jit::KernelText*> kernels = jit::kernels_of(executable);
  for (const jit::KernelText* kernel : kernels) missing += !there.contains(key_of(*kernel));
  if (missing == 0) return "";
  return str_cat("it has no machine code for ", missing, " of its ", kernels.size(),
                 " kernels, which this version of Lamina makes otherwise; save it again");
}

}  // namespace

std::string plan_bytes(Program& program, std::span<const Value> hidden, const PlanNotes& notes) {
  jit::PlanFile file;
  file.name = notes.name;
  file.structure = notes.structure;
  file.program = check(jit::without_process(program.compile()->executable->program_ptr()));
  for (size_t i = 0; i < program.arguments().size(); ++i) {
    const Typed& t = program.arguments()[i];
    file.arguments.push_back({t.type, t.weak, i < notes.given_up.size() && notes.given_up[i],
                              i < notes.paths.size() ? notes.paths[i] : ""});
  }
  for (size_t i = 0; i < program.results().size(); ++i) {
    const Typed& t = program.results()[i];
    file.results.push_back(
        {t.type, t.weak, false, i < notes.result_paths.size() ? notes.result_paths[i] : ""});
  }
  const std::vector<Value> captured = program.captured(hidden);
  for (const Value& v : captured)
    if (!forceable(v))
      throw Error(ErrorKind::kValue,
                  str_cat(notes.name,
                          " uses a value of a transform that is open, which has no value to "
                          "save: ",
                          why_unknown(v)));
  force(captured);
  for (const Value& v : captured)
    file.captured.emplace_back(reinterpret_cast<const char*>(host_bytes(*jit::array_of(v))),
                               static_cast<size_t>(v.type()->bytes()));
  // The kernels are those that planning will ask for where the file is loaded.
  jit::Device& device = program.compile()->executable->device();
  const std::shared_ptr<const jit::Executable> executable =
      check(jit::Executable::of_simplified(device, file.program));
  file.machine = check(device.target().machine());
  for (const jit::KernelText* kernel : jit::kernels_of(*executable))
    file.kernels.push_back(check(device.target().code(*kernel)));
  return check(jit::to_bytes(file));
}

LoadedPlan load_plan(std::string_view bytes) {
  LoadedPlan loaded;
  loaded.file = check(jit::parse_plan_file(bytes));
  jit::PlanFile& file = loaded.file;
  check_carriers(file);
  loaded.text = jit::describe(file);
  jit::Device& device = default_device();
  std::vector<std::shared_ptr<const void>> held;
  std::string unused = adopt(file, device, held);
  auto entry = std::make_shared<jit::Specialization>();
  entry->info.kind = "plan";
  entry->info.name = file.name;
  entry->recorded = file.program;
  entry->executable = check(jit::Executable::of_simplified(device, file.program));
  loaded.slow = why_slow(file, *entry->executable, std::move(unused));
  std::vector<Value> captured;
  for (size_t i = 0; i < file.captured.size(); ++i) {
    const hlo::Type& type = *file.program->parameters()[file.arguments.size() + i].type();
    captured.push_back(from_host(type.dtype, type.dims, file.captured[i].data()));
  }
  loaded.program =
      Program::compiled(std::move(entry), typed(file.arguments), typed(file.results), std::move(captured));
  file.captured.clear();
  file.kernels.clear();
  return loaded;
}

}  // namespace lamina::lazy
