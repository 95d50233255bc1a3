// Computations as text.
//
//   computation r0(p0: f32[], p1: f32[]) -> (f32[]) {
//     v0 = f32[] add(p0, p1)
//     return (v0)
//   }
//
//   computation main(p0: f32[2,3]) -> (f32[2], f32[3]) {
//     v0 = f32[] constant(0)
//     v1 = f32[2] reduce(p0, v0), dimensions=[1], body=r0 @"model.py":12 in "loss"
//     (v2, v3) = (f32[3], s32[3]) sort(...), ...
//     return (v1, v2)
//   }
//
// Computations that others use come before them, each once; the last one is the program. Attributes are
// written by kind, in the order of attributes.def; those equal to their kind's empty value are left out. A
// numerics mode other than 0 is written mode=n. Constants: numbers in shortest form that reads back to the
// same bits, nan:0x... for a NaN other than the default one, splat(x) for one value throughout, nested braces
// otherwise.
#ifndef LAMINA_HLO_PRINTER_H_
#define LAMINA_HLO_PRINTER_H_

#include <string>
#include <vector>

#include "hlo/computation.h"
#include "hlo/text.h"

namespace lamina::hlo {

// The computation and all it uses; the program itself is called `name`.
std::string print(const Computation& computation, const TextOptions& options = TextOptions::full(),
                  std::string_view name = "main");

// What the operations of `computation` use, directly and through others, each once, used ones first;
// `computation` itself is not among them.
std::vector<const Computation*> regions_of(const Computation& computation);
// The computations among one node's attributes, in order.
std::vector<ComputationPtr> regions_of(const Node& node);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PRINTER_H_
