// Steps that follow each other and work row by row of the same rows run together, block of rows by block, so
// that what one leaves for the next is still near the processor: a softmax reads and writes memory once.
//
// Contract: a chain is a stretch of steps each of which, for the rows it is given, touches only those rows of
// what the chain writes. Memory is planned so that no two places of a chain share it but row by row
// (MemoryRequest::together). The elements' bits are those of the steps one after the other.
#ifndef LAMINA_JIT_PROGRAM_ROW_CHAIN_H_
#define LAMINA_JIT_PROGRAM_ROW_CHAIN_H_

#include <memory>
#include <span>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/program/executable.h"

namespace lamina::jit {

// How a step reaches a value: element (index along the leading dimension) * stride + [low, high).
struct RowAccess {
  int slot;
  bool written;
  int64_t stride, low, high;
  int64_t elements, bytes;  // of the value
};

// A step whose leading dimension may be run in parts.
class RowStep : public Step {
 public:
  const RowStep* by_rows() const override { return leading() > 0 ? this : nullptr; }
  // Extent of the leading dimension; 0: it runs as a whole only.
  virtual int64_t leading() const = 0;
  virtual std::vector<RowAccess> row_accesses() const = 0;
  // Machine code, or null for the interpreting tier; asked once per run.
  virtual KernelEntry entry(Run& run) const = 0;
  // The part [begin, end) of the leading dimension; false if stopped.
  virtual bool run_rows(Run& run, KernelEntry entry, int64_t begin, int64_t end) const = 0;
};

struct RowChain {
  int first, last;      // steps
  int64_t rows, block;  // and how many of them at a time
  int64_t work = 0;     // of all steps

  absl::Status run(Run& run, std::span<const std::unique_ptr<Step>> steps) const;
};

// Chains of `steps`, which have not been placed. Takes from `request` what may not be written over in a chain
// and adds what belongs together.
std::vector<RowChain> make_row_chains(std::span<const std::unique_ptr<Step>> steps, const Places& places,
                                      MemoryRequest& request);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_ROW_CHAIN_H_
