// The geometry of reduce_window and select_and_scatter, cut into runs of positions that see the same part of
// their windows.
#ifndef LAMINA_JIT_CPU_WINDOW_H_
#define LAMINA_JIT_CPU_WINDOW_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "hlo/graph.h"

namespace lamina::jit {

// Positions of a window over an array. Rows run along one dimension, `along`; the rows are numbered row-major
// over the positions of the others.
class WindowWalk {
 public:
  // `array` and `positions`: dims of the array and of the result.
  WindowWalk(const hlo::Node& node, const hlo::Dims& array, const hlo::Dims& positions);

  int64_t rows() const { return rows_; }
  int64_t row_length() const { return row_length_; }
  int64_t row_step() const { return row_step_; }  // between the places of neighbours of a row in the result
  int64_t volume() const { return volume_; }      // elements of a window, at most those of the array

  // Positions begin ... end - 1 of a row: window element number k (of those that exist, in window order) of
  // position begin + i is array element base + offsets[k] + i * step.
  struct Stretch {
    int64_t begin, end;
    int64_t base;
    const std::vector<int64_t>* offsets;
    int64_t step;
  };
  // Working memory of one thread.
  struct State {
    int64_t row = -1;
    std::vector<int64_t> position, offsets;
    std::vector<std::pair<int64_t, int64_t>> kept;  // per dimension: the window's indices that exist
  };

  // Calls f(run, place) for the runs of row `row`, in order; `place`: of the row's first position in the
  // result.
  template <typename F>
  void for_row(int64_t row, State& state, F&& f) const {
    const int64_t place = seek(row, state);
    for (size_t c = 0; c + 1 < cuts_.size(); ++c) f(run(cuts_[c], cuts_[c + 1], state), place);
  }

 private:
  struct Dim {
    int64_t size, stride, base_dilation, dilation, padding;  // of the window
    int64_t extent, positions;                               // of the array and of the result
    int64_t array_stride, result_stride;
    int64_t whole_until;  // the last position whose window does not run over the end; without padding only
  };
  // The window's indices that exist at a position, where the array is not dilated.
  static std::pair<int64_t, int64_t> kept(const Dim& d, int64_t position);
  int64_t seek(int64_t row, State& state) const;
  void enter(size_t dim, State& state) const;
  Stretch run(int64_t begin, int64_t end, State& state) const;

  std::vector<Dim> dims_;
  size_t along_ = 0;
  int64_t rows_ = 1, row_length_ = 1, row_step_ = 1, volume_ = 1;
  bool dilated_ = false;        // the array is
  std::vector<int64_t> cuts_;   // where runs begin along a row, and its end
  std::vector<int64_t> whole_;  // offsets of a whole window
  bool has_whole_ = true;       // some position sees one
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_WINDOW_H_
