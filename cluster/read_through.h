// What a library step reads in place of one of its operands, where its routine does by itself what made it:
// neither that nor its result in memory is needed then.
//
// Contract: the step's results are those it has of its operands. Which forms a target's routines know is said
// by its costs (Costs::reads_bytes and those beside it).
#ifndef LAMINA_CLUSTER_READ_THROUGH_H_
#define LAMINA_CLUSTER_READ_THROUGH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/costs.h"
#include "hlo/graph.h"

namespace lamina::cluster {

// By operand: what the routine reads. Empty where it is the operands themselves.
//
// A product of integers reads the bytes that both factors are converted from; in `fast` numerics one of
// floats those of float8_e4m3fn and float8_e5m2, of which one factor is the former. A gather or scatter along
// one dimension reads the indices of which negative ones count from its end. A call that solves by triangles
// or by LU factors of its own reads what its matrices are the transposes or adjoints of.
std::vector<hlo::Value> read_through(const hlo::Node& node, const Costs& costs);

// How such a call, with what it reads, takes its matrices.
enum class Turned : uint8_t { kNo, kTransposed, kAdjoint };
Turned turned(const hlo::Node& node, std::span<const hlo::Value> reads);

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_READ_THROUGH_H_
