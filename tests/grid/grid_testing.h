// Kernels on the stand-in against the interpreter, in both orders of threads.
#ifndef LAMINA_TESTS_GRID_GRID_TESTING_H_
#define LAMINA_TESTS_GRID_GRID_TESTING_H_

#include <string>
#include <vector>

#include "hlo/op.h"
#include "tests/grid/standin.h"
#include "tests/jit/kernel_util.h"

namespace lamina::grid {

using hlo::DType;
using hlo::Prim;
using jit::GridForm;
using jit::GridSchedule;
using jit::LoopKernel;

// A kernel with arguments and what its buffers hold before it runs.
struct GridCase {
  LoopKernel kernel;
  std::vector<int64_t> args;
  std::vector<std::vector<char>> memory;
};

// Fails where the stand-in's memory differs from the interpreter's, or a fault was found.
void check_grid(const GridCase& c, const GridSchedule& schedule, uint64_t seed);
// The same with the schedule that is chosen for it.
void check_grid(const GridCase& c, uint64_t seed);

// One kernel for each op of the table, element type and value of its attributes that the op's type rule
// takes: rows of `count` elements. `name` says which.
struct OpKernel {
  std::string name;
  GridCase c;
};
std::vector<OpKernel> op_kernels(int64_t count);

// out = prim(a, b, c) for every primitive and types that it takes.
std::vector<OpKernel> prim_kernels(int64_t count);

}  // namespace lamina::grid

#endif  // LAMINA_TESTS_GRID_GRID_TESTING_H_
