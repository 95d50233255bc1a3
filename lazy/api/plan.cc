#include "lamina/plan.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lazy/api/flat.h"
#include "lazy/plan_file.h"
#include "lazy/scopes.h"

namespace lamina {
namespace {

using detail::fail;
using detail::located;

struct LoadedProgram final : detail::Counted {
  std::shared_ptr<lazy::Program> program;
};

[[noreturn]] void fail_file(const std::string& path, const char* what) {
  fail(ErrorKind::kRuntime, str_cat(path, " cannot be ", what, ": ", std::strerror(errno)));
}

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) fail_file(path, "read");
  return bytes;
}

void write_file(const std::string& path, const std::string& bytes) {
  const std::string fresh = str_cat(path, ".", static_cast<int64_t>(getpid()), ".new");
  errno = 0;
  std::ofstream file(fresh, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  errno = error;
  fail_file(path, "written");
}

std::vector<Plan::Array> arrays_of(const std::vector<jit::PlanFile::Port>& ports) {
  std::vector<Plan::Array> out;
  for (const jit::PlanFile::Port& p : ports)
    out.push_back({p.path, detail::from_hlo(p.type->dtype), p.type->dims});
  return out;
}

}  // namespace

Plan Plan::load(const std::string& path, Where where) {
  return located(where, [&] {
    const std::string bytes = read_file(path);
    lazy::LoadedPlan loaded;
    try {
      loaded = lazy::load_plan(bytes);
    } catch (const Error& e) {
      fail(e.kind(), str_cat(path, ": ", e.what()));
    }
    Plan plan;
    plan.name_ = loaded.file.name;
    plan.slow_ = loaded.slow;
    plan.arguments_ = arrays_of(loaded.file.arguments);
    plan.results_ = arrays_of(loaded.file.results);
    auto* const held = new LoadedProgram;
    plan.program_ = detail::Ref<detail::Counted>(held);
    held->program = std::move(loaded.program);
    return plan;
  });
}

std::vector<Tensor> Plan::operator()(const std::vector<Tensor>& arguments, Where where) const {
  return located(where, [&] {
    if (!lazy::open_scopes().empty())
      fail(ErrorKind::kType,
           str_cat(name_,
                   " comes from a plan file, which holds machine code and no derivative: call it "
                   "outside of jit, grad and vmap, or transform the function before it is saved"));
    if (arguments.size() != arguments_.size())
      fail(ErrorKind::kType,
           str_cat(name_, " was saved for ", arguments_.size(), " arrays, not ", arguments.size()));
    lazy::Program& program = *static_cast<LoadedProgram&>(*program_).program;
    const std::vector<lazy::Lazy> given = detail::lazies(arguments);
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i].value.type() != program.arguments()[i].type)
        fail(ErrorKind::kType,
             str_cat(name_, " was saved for ", hlo::to_string(*program.arguments()[i].type), " as ",
                     arguments_[i].path.empty() ? str_cat("argument ", i) : arguments_[i].path, ", not ",
                     hlo::to_string(*given[i].value.type())));
    return detail::tensors(program.call(given));
  });
}

void save_plan(const std::string& path, const detail::FlatFunction& f, const std::vector<Tensor>& like,
               std::source_location where) {
  located(where, [&] {
    std::vector<lazy::Typed> types;
    for (const lazy::Lazy& x : detail::lazies(like)) types.push_back({x.value.type(), x.weak});
    const std::string name = std::filesystem::path(path).stem().string();
    lazy::Program program(detail::inner(f), types, name, str_cat(where.file_name(), ":", where.line()));
    write_file(path, lazy::plan_bytes(program, {}, {name, "", {}, {}, {}}));
  });
}

}  // namespace lamina
