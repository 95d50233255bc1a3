// Sums over the steps of a loop whose terms are products, made by one product after it.
//
// On the way back through a loop the cotangent of what no step changes, a weight, is such a sum: each step
// adds the product of what it has from the way forward with the cotangents that come back. Kept for all
// steps, these are the factors of one product that sums over the steps too, where the loop would read and
// write all of the sum in each, for products of few terms.
//
// Contract: the sums are the same but for the order of their terms.
#ifndef LAMINA_TRACE_RULES_LOOP_SUMS_H_
#define LAMINA_TRACE_RULES_LOOP_SUMS_H_

#include <span>
#include <vector>

#include "trace/rules/support.h"

namespace lamina::trace {

class SummedAfter {
 public:
  // `body`: (carries; slices) -> (carries; outputs), of which the carries from `first` are looked at, for
  // terms of at least so many multiplications.
  static absl::StatusOr<SummedAfter> of(const ComputationPtr& body, size_t first, size_t carries,
                                        int64_t steps, int64_t least);

  // As the one given, without those terms, and with their factors as further outputs.
  const ComputationPtr& body() const { return body_; }
  bool is_empty() const { return terms_.empty(); }
  // Adds the terms to the results of the scan of `body`; `arrays` are those scanned. Of a part of the steps
  // where arrays and outputs are those of a part.
  void add(Builder& b, std::span<const Value> arrays, Values* results) const;

 private:
  // A factor in every step: a slice, or an output.
  struct Factor {
    bool is_slice;
    size_t index;
  };
  struct Term {
    size_t carry;
    Factor lhs, rhs;
    const Node* dot;
    std::vector<const Node*> moves;  // what is done with the product, the first one first
  };
  std::optional<Factor> factor(Operand o, size_t carries) const;
  bool take(Operand term, size_t carry, size_t carries, int64_t steps, int64_t least);

  ComputationPtr whole_, body_;  // the first one holds the nodes of the terms
  Values outputs_;
  std::vector<Term> terms_;
};

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LOOP_SUMS_H_
