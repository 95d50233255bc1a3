#include "jit/tools/ptx_listing.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/codegen/ptx.h"
#include "jit/kernel/grid.h"
#include "jit/kernel/lower_call.h"

namespace lamina::jit {
namespace {

std::string commented(std::string_view text) {
  std::string out;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    str_append(&out, "// ", text.substr(begin, end - begin), "\n");
  }
  return out;
}

class Listing {
 public:
  Listing(const PtxGenerator& generator, const std::string& chip) : generator_(generator), chip_(chip) {}

  absl::Status add(const Executable& executable) {
    for (const cluster::Group& group : executable.fusion().groups) {
      const hlo::Op op = group.anchors[0]->op();
      if (op == hlo::Op::constant || group.kind == cluster::GroupKind::kAlias) continue;
      if (absl::Status s = add(executable.fusion(), group); !s.ok()) return s;
    }
    for (const auto& step : executable.steps())
      for (const Executable* inside : step->programs())
        if (absl::Status s = add(*inside); !s.ok()) return s;
    return absl::OkStatus();
  }
  std::string take() { return std::move(text_); }

 private:
  absl::Status add(const cluster::FusionPlan& plan, const cluster::Group& group) {
    const int step = steps_++;
    const absl::StatusOr<KernelSequence> sequence = group.kind == cluster::GroupKind::kHost
                                                        ? absl::UnimplementedError("a call of the host")
                                                        : lower_group(plan, group);
    absl::Status why = sequence.status();
    for (size_t k = 0; why.ok() && k < sequence->parts.size(); ++k)
      why = grid_takes(sequence->parts[k].loop.kernel);
    if (!why.ok()) {
      str_append(&text_, "// step ", step, ": no kernel: ", why.message(), "\n");
      return absl::OkStatus();
    }
    for (size_t k = 0; k < sequence->parts.size(); ++k) {
      const LoweredLoop& loop = sequence->parts[k].loop;
      const GridSchedule schedule = favoured_grid(loop.kernel, loop.args);
      const std::string kernel = to_string(loop.kernel);
      const absl::StatusOr<std::string> ptx = generator_.ptx(kernel, to_string(schedule), chip_);
      if (!ptx.ok()) return ptx.status();
      str_append(&text_, "// step ", step, ", kernel ", k, "\n", commented(kernel),
                 commented(to_string(schedule)), *ptx, "\n");
    }
    return absl::OkStatus();
  }

  const PtxGenerator& generator_;
  const std::string& chip_;
  int steps_ = 0;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> ptx_listing(const Executable& executable, const std::string& chip) {
  std::string library;
#ifdef LAMINA_LLVM_PATH
  if (!std::getenv("LAMINA_LLVM_PATH")) library = LAMINA_LLVM_PATH;
#endif
  const absl::StatusOr<PtxGenerator> generator = PtxGenerator::create(library);
  if (!generator.ok()) return generator.status();
  Listing out(*generator, chip);
  if (absl::Status s = out.add(executable); !s.ok()) return s;
  return out.take();
}

}  // namespace lamina::jit
