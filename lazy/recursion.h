// Functions that call themselves as deep as values say, over flat lists of lazy arrays.
//
// Contract: the body is traced as a region (lazy/control.h), and calls of itself in there become nodes
// (trace/call_sequence.h), of which one loop with a stack is made (trace/recursion.h). What calls give is
// found in rounds: at first nothing is known, and the branches that end without a call say it; numbers among
// arguments and results take the element types of the arrays that they meet. A recursion inside another is
// one more function of the same loop, and may call back to it. Arguments and results have one shape in every
// call; else Error(kType) names them.
#ifndef LAMINA_LAZY_RECURSION_H_
#define LAMINA_LAZY_RECURSION_H_

#include <functional>
#include <string>
#include <vector>

#include "lazy/control.h"

namespace lamina::lazy {

// Gets the function itself, for calls.
using RecursiveBody =
    std::function<std::vector<Lazy>(const FlatFunction& self, const std::vector<Lazy>& arguments)>;

// The results of `body` on the arguments, then an s32[] that is not 0 where calls lie deeper inside each
// other than `deepest`, or than the memory for frames allows; the results mean nothing then. In a recursion
// around it, it is 0: that one tells.
std::vector<Lazy> recursive(const ControlNames& arguments, const RecursiveBody& body, std::vector<Lazy> given,
                            int64_t deepest);

// Part of the key of what is traced in the body of a recursion, which is of no use elsewhere; 0 outside.
int64_t recursion_key();

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_RECURSION_H_
