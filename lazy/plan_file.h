// Programs into plan files and back (jit/program/plan_file.h).
//
// Contract: functions here throw lamina::Error. What is loaded gives the bits that the saved program gives,
// whether or not its machine code can be used here. It runs outside of transforms: derivatives and batches
// belong to the function that was saved.
#ifndef LAMINA_LAZY_PLAN_FILE_H_
#define LAMINA_LAZY_PLAN_FILE_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/program/plan_file.h"
#include "lazy/transforms.h"

namespace lamina::lazy {

// What the program itself does not know of its callers.
struct PlanNotes {
  std::string name, structure;
  std::vector<std::string> paths, result_paths;
  std::vector<bool> given_up;  // by argument; shorter: the others are not
};

// The bytes of a plan file: the program with all its machine code, which is made for this where it is not at
// hand. Values that it uses from outside are those of now; `hidden` as Program::call takes it.
std::string plan_bytes(Program& program, std::span<const Value> hidden, const PlanNotes& notes);

struct LoadedPlan {
  jit::PlanFile file;  // without the values and the machine code
  std::string text;    // jit::describe of it
  std::shared_ptr<Program> program;
  // Why kernels are interpreted or compiled here, in words; empty: none is.
  std::string slow;
};
LoadedPlan load_plan(std::string_view bytes);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_PLAN_FILE_H_
