// What a target finds worth fusing: the bounds and prices that the plan of a program is made with.
//
// Contract: they change what runs together and how fast, never a result.
#ifndef LAMINA_CLUSTER_COSTS_H_
#define LAMINA_CLUSTER_COSTS_H_

#include <cstdint>

namespace lamina::cluster {

struct Costs {
  // Computing at most this many cheap ops again costs less than a trip through memory.
  int cheap_ops = 4;
  // Ops in one inlined expression and in one kernel: bounds compile time and recursion depth.
  int max_inlined_ops = 200;
  int max_group_ops = 400;
  int max_group_anchors = 48;
  // A transpose of so many elements is made by tiles before it is read where no tiles are.
  int64_t least_turned_elements = 1 << 15;
  // A kernel asks each piece of a concatenation for every element. One of more pieces, and of at least
  // `least_turned_elements`, is copied from stored pieces.
  int most_read_pieces = 6;
  // A kernel whose last dimension is so short computes its elements by code of their own, for many indices of
  // the dimension before at once. 1: none does.
  int64_t most_written_out = 4;
  // The same where it puts columns side by side, and would ask for each element which one it is of.
  int64_t most_columns = 8;
  // Steps over the same rows run together, by so many rows as touch `chain_block_bytes` of memory, which
  // should stay in a cache; one row touches no more than `chain_row_bytes`. Those that touch less than
  // `chain_least_bytes` in all gain nothing.
  int64_t chain_block_bytes = 384 * 1024, chain_row_bytes = 384 * 1024;
  int64_t chain_least_bytes = 512 * 1024;
  // With fewer rows they do not either: where many units work on rows at a time.
  int64_t chain_least_rows = 1;
  // What routines do by themselves (cluster/read_through.h): products multiply the bytes that factors are
  // converted from, those in `fast` numerics also floats of one byte; gathers and scatters count negative
  // indices from the end; routines of linear algebra that solve take matrices transposed.
  bool reads_bytes = false, reads_float8 = false, counts_from_end = false, reads_turned = false;
};

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_COSTS_H_
