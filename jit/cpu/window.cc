#include "jit/cpu/window.h"

#include <algorithm>

#include "hlo/attributes.h"

namespace lamina::jit {

using hlo::Attr;
using hlo::Dims;

namespace {

// Rows shorter than this look for a longer dimension.
constexpr int64_t kFewAlong = 16;

// Appends the offsets of the window's elements in [kept) of every dimension, in window order.
template <typename D>
void append_offsets(const std::vector<D>& dims, const std::vector<std::pair<int64_t, int64_t>>& kept,
                    const std::vector<int64_t>& position, size_t d, int64_t at, std::vector<int64_t>& out) {
  if (d == dims.size()) {
    out.push_back(at);
    return;
  }
  const D& dim = dims[d];
  for (int64_t k = kept[d].first; k < kept[d].second; ++k) {
    int64_t p = position[d] * dim.stride + k * dim.dilation - dim.padding;
    if (dim.base_dilation != 1) {  // seldom, and divisions take long
      if (p % dim.base_dilation != 0) continue;
      p /= dim.base_dilation;
    }
    if (p < 0 || p >= dim.extent) continue;
    append_offsets(dims, kept, position, d + 1, at + p * dim.array_stride, out);
  }
}

}  // namespace

WindowWalk::WindowWalk(const hlo::Node& node, const Dims& array, const Dims& positions) {
  const hlo::Attrs& a = node.attrs();
  const auto entry = [&](Attr key, size_t d, int64_t absent) {
    const Dims& list = a.ints(key);
    return list.empty() ? absent : list[d];
  };
  const Dims strides = hlo::row_major_strides(array), places = hlo::row_major_strides(positions);
  for (size_t d = 0; d < array.size(); ++d) {
    dims_.push_back({a.ints(Attr::window_dimensions)[d], entry(Attr::window_strides, d, 1),
                     entry(Attr::base_dilations, d, 1), entry(Attr::window_dilations, d, 1),
                     entry(Attr::padding, 2 * d, 0), array[d], positions[d], strides[d], places[d], 0});
    Dim& last = dims_.back();
    const int64_t room = array[d] - 1 - (last.size - 1) * last.dilation;
    last.whole_until = room < 0 ? -1 : room / last.stride;
    dilated_ |= last.base_dilation != 1;
    volume_ *= std::min(dims_.back().size, std::max<int64_t>(array[d], 1));
  }
  if (dims_.empty()) {
    // A scalar is one window of one element.
    dims_.push_back({1, 1, 1, 1, 0, 1, 1, 1, 1, 0});
  }
  along_ = dims_.size() - 1;
  if (dims_[along_].positions < kFewAlong)
    for (size_t d = 0; d + 1 < dims_.size(); ++d)
      if (dims_[d].positions > 2 * dims_[along_].positions) along_ = d;
  row_length_ = dims_[along_].positions;
  row_step_ = dims_[along_].result_stride;
  for (size_t d = 0; d < dims_.size(); ++d)
    if (d != along_) rows_ *= dims_[d].positions;
  if (rows_ == 0) row_length_ = 0;
  for (int64_t q = 0; q < row_length_; ++q)
    if (q == 0 || dilated_ || kept(dims_[along_], q) != kept(dims_[along_], q - 1)) cuts_.push_back(q);
  cuts_.push_back(row_length_);

  std::vector<std::pair<int64_t, int64_t>> all;
  std::vector<Dim> at_zero = dims_;
  for (Dim& d : at_zero) {
    has_whole_ &= !dilated_ && d.size <= d.extent && (d.size - 1) * d.dilation < d.extent;
    d.padding = 0;
    all.emplace_back(0, d.size);
  }
  if (has_whole_) append_offsets(at_zero, all, std::vector<int64_t>(dims_.size(), 0), 0, 0, whole_);
}

std::pair<int64_t, int64_t> WindowWalk::kept(const Dim& d, int64_t position) {
  if (d.padding == 0 && position <= d.whole_until) return {0, d.size};
  const int64_t before = d.padding - position * d.stride, room = d.extent - 1 + before;
  const int64_t low = before <= 0 ? 0 : (before + d.dilation - 1) / d.dilation;
  const int64_t high = room < 0 ? 0 : std::min(d.size, room / d.dilation + 1);
  return low < high ? std::pair(low, high) : std::pair<int64_t, int64_t>(0, 0);
}

int64_t WindowWalk::seek(int64_t row, State& state) const {
  if (row == state.row + 1 && row > 0) {
    for (size_t d = dims_.size(); d-- > 0;) {
      if (d == along_) continue;
      const bool carry = ++state.position[d] == dims_[d].positions;
      if (carry) state.position[d] = 0;
      enter(d, state);
      if (!carry) break;
    }
  } else {
    state.position.assign(dims_.size(), 0);
    state.kept.resize(dims_.size());
    int64_t left = row;
    for (size_t d = dims_.size(); d-- > 0;) {
      if (d == along_) continue;
      state.position[d] = left % dims_[d].positions;
      left /= dims_[d].positions;
      enter(d, state);
    }
  }
  state.row = row;
  int64_t place = 0;
  for (size_t d = 0; d < dims_.size(); ++d)
    if (d != along_) place += state.position[d] * dims_[d].result_stride;
  return place;
}

void WindowWalk::enter(size_t d, State& state) const {
  state.kept[d] =
      dilated_ ? std::pair<int64_t, int64_t>(0, dims_[d].size) : kept(dims_[d], state.position[d]);
}

WindowWalk::Stretch WindowWalk::run(int64_t begin, int64_t end, State& state) const {
  const Dim& along = dims_[along_];
  state.position[along_] = begin;
  enter(along_, state);
  // A run of a dilated array is one position long.
  const int64_t step = along.stride * along.array_stride;
  bool whole = has_whole_;
  int64_t base = 0;
  for (size_t d = 0; d < dims_.size(); ++d) {
    whole &= state.kept[d].second - state.kept[d].first == dims_[d].size;
    base += (state.position[d] * dims_[d].stride - dims_[d].padding) * dims_[d].array_stride;
  }
  if (whole) return {begin, end, base, &whole_, step};
  state.offsets.clear();
  append_offsets(dims_, state.kept, state.position, 0, 0, state.offsets);
  return {begin, end, 0, &state.offsets, step};
}

}  // namespace lamina::jit
