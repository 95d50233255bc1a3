// Steps that follow each other and work row by row of the same rows run together, block of rows by block, so
// that what one leaves for the next is still near the processor: a softmax reads and writes memory once, and
// so does a solution by factors of a batch of small matrices.
//
// Contract: a chain is a stretch of steps each of which, for the rows it is given, touches only those rows of
// what the chain writes. Memory is planned so that no two places of a chain share it but row by row
// (MemoryRequest::together). The elements' bits are those of the steps one after the other.
#ifndef LAMINA_JIT_PROGRAM_ROW_CHAIN_H_
#define LAMINA_JIT_PROGRAM_ROW_CHAIN_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/costs.h"
#include "jit/program/memory_plan.h"
#include "jit/program/step.h"

namespace lamina::jit {

struct RowChain {
  int first, last;                        // steps
  int64_t rows, block;                    // and how many of them at a time
  std::unique_ptr<const Step> step = {};  // that runs them together, once the target has made it
  std::string what = {};                  // how, for the report
};

// Chains of `steps`, which have not been placed. Takes from `request` what may not be written over in a chain
// and adds what belongs together.
std::vector<RowChain> make_row_chains(std::span<const std::unique_ptr<Step>> steps, const Places& places,
                                      const cluster::Costs& costs, MemoryRequest& request);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_ROW_CHAIN_H_
