// A compiled program as bytes: what a process without a code generator needs to run it as fast as here.
//
// Contract: the program in the text form of hlo/printer.h, simplified; the types that its callers see; the
// values that it has besides its arguments, bit for bit; the machine code of its kernels, each with the text
// of the kernel, and the line that says which machines run it (Target::machine). Planning is done again when
// it is loaded: it needs no code generator, and of equal programs it gives equal kernels, which then find
// their code by their texts. A kernel that finds none is like any other: interpreted or compiled.
//
// The format's number is made of its layout, so that a file that is laid out otherwise is never taken for one
// of these: each part by name and kind, and what the parts mean (plan_file_layout).
//
// Bytes that are no plan file of this format, cut short, or not as they were written (XXH3, 128 bits, over
// all of them, compared before anything else is read) give InvalidArgument that says which of these it is.
// The sum finds damage, not intent: code in a file is executed, so files are to come from where programs may
// come from.
#ifndef LAMINA_JIT_PROGRAM_PLAN_FILE_H_
#define LAMINA_JIT_PROGRAM_PLAN_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "jit/program/target.h"

namespace lamina::jit {

struct PlanFile {
  // An argument or result as the caller sees it.
  struct Port {
    const hlo::Type* type;
    bool weak = false;
    bool given_up = false;  // an argument whose memory may be used for results
    std::string path;       // as the caller writes it: params['w']
    bool operator==(const Port&) const = default;
  };

  std::string name;       // of the function
  std::string structure;  // how the caller's language nests arguments and results; not read here
  std::vector<Port> arguments, results;
  hlo::ComputationPtr program;        // its parameters: the arguments, then the captured values
  std::vector<std::string> captured;  // bytes, by parameter
  std::string machine;
  std::vector<KernelCode> kernels;
};

// The program without what has a meaning in this process only: the derivatives that custom rules give calls.
// Unimplemented if it calls back into this process.
absl::StatusOr<hlo::ComputationPtr> without_process(const hlo::ComputationPtr& program);

// What a file holds in which order, a line for each part, and what is not seen in that: how texts are
// written, what code is called with. Another text is another format.
std::string plan_file_layout();
// Of that text. Of files with another nothing is read.
uint32_t plan_file_format();

absl::StatusOr<std::string> to_bytes(const PlanFile& file);
// Whether they begin as a plan file does.
bool looks_like_plan_file(std::string_view bytes);
absl::StatusOr<PlanFile> parse_plan_file(std::string_view bytes);
// What is in it, for people.
std::string describe(const PlanFile& file);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_PLAN_FILE_H_
