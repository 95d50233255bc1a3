// Programs that work along the rows of an array: what becomes chains (jit/kernel/grid_chain.h).
#ifndef LAMINA_TESTS_GRID_ROW_PROGRAMS_H_
#define LAMINA_TESTS_GRID_ROW_PROGRAMS_H_

#include <string>
#include <utility>
#include <vector>

#include "hlo/builder.h"

namespace lamina::grid {

struct RowProgram {
  std::string name;
  hlo::ComputationPtr program;
  int arrays_in, arrays_out;  // parameters and results of all elements
};

// Softmax and its like, a normalization, and the gradients of these, of arrays of `dims` along the last one.
std::vector<RowProgram> row_programs(hlo::DType type, const hlo::Dims& dims);
// The texts of kernels and schedules of the chains that CUDA devices make of them.
std::vector<std::pair<std::string, std::string>> row_chains(hlo::DType type, const hlo::Dims& dims);

}  // namespace lamina::grid

#endif  // LAMINA_TESTS_GRID_ROW_PROGRAMS_H_
