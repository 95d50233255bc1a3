// What programs are compiled for: the steps that one kind of device has, and the code of its kernels.
#ifndef LAMINA_JIT_PROGRAM_TARGET_H_
#define LAMINA_JIT_PROGRAM_TARGET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/costs.h"
#include "cluster/fuse.h"
#include "jit/program/step.h"

namespace lamina::jit {

// Machine code of a kernel as bytes that run wherever a page begins with them: nothing in them is left to
// link.
struct KernelCode {
  KernelText kernel;
  std::string image;
  uint64_t entry = 0;  // where in the image
};

class Target {
 public:
  virtual const cluster::Costs& costs() const = 0;
  // The program as it is best computed here.
  virtual absl::StatusOr<hlo::ComputationPtr> prepared(const hlo::ComputationPtr& program) const {
    return program;
  }
  // The step of a group that is no alias; null for what is left to the program: loops and branches
  // (jit/program/control.h), and what the host does (jit/program/host_call.h).
  virtual absl::StatusOr<std::unique_ptr<Step>> lower(const cluster::FusionPlan& plan,
                                                      const cluster::Group& group,
                                                      const SlotOf& slot_of) const = 0;
  // One step in place of `steps`, its own, which may run in parts of `rows` rows: `block` rows at a time.
  virtual std::unique_ptr<const Step> chain(std::span<const Step* const> steps, int64_t rows,
                                            int64_t block) const = 0;
  // The same where the step needs no memory for some of what they make, made before they are placed; then it
  // is placed as they are. `of_slot`: the place of each slot; `inner`: by place, whether nothing but these
  // steps touches it. No step, and in words why, where `chain` is to make one; no words where there never is
  // another.
  struct HeldRows {
    std::unique_ptr<Step> step;
    std::vector<int> unwritten;  // places without memory
    std::string what;            // for the report
  };
  virtual HeldRows hold_rows(std::span<const Step* const>, int64_t /*rows*/, std::span<const int> /*of_slot*/,
                             const std::vector<bool>& /*inner*/) const {
    return {};
  }
  // One step in place of the first of `steps`, its own, that takes less time to start than they do, where
  // there is one: `count` of them.
  struct Batch {
    std::unique_ptr<const Step> step;
    size_t count = 1;
  };
  virtual Batch batch(std::span<const Step* const>) const { return {}; }
  // Listings of what a kernel becomes; Unavailable where there is no code generator.
  virtual absl::StatusOr<std::string> ir(const KernelText& kernel) const = 0;
  virtual absl::StatusOr<std::string> assembly(const KernelText& kernel) const = 0;

  // For programs that are kept in files. One line that says which machines run the code made here;
  // FailedPrecondition in words where this is none of the machines that such a line names.
  virtual absl::StatusOr<std::string> machine() const = 0;
  virtual absl::Status check_machine(std::string_view machine) const = 0;
  virtual absl::StatusOr<KernelCode> code(const KernelText& kernel) const = 0;
  // Steps made while what it returns lives run this code, unless they had the kernel's code before. The
  // caller has checked where the bytes come from: they will be executed.
  virtual absl::StatusOr<std::shared_ptr<const void>> adopt(const KernelCode& code) const = 0;

 protected:
  ~Target() = default;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_TARGET_H_
