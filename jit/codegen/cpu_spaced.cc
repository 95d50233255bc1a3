#include "jit/codegen/cpu_spaced.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <vector>

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

unsigned lanes_of(Value* vector) {
  return llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
}

// Where elements are read: the vectors, by their first place, and for each element the vector and its lane.
struct Sources {
  struct Lane {
    size_t vector;
    int64_t lane;
  };
  std::vector<int64_t> begins;
  std::vector<Lane> of;
};

// Vectors of `m`, each one lane less than that behind the one before: so no two elements are in one lane, and
// the vectors blend before their lanes are moved. There may be no such choice.
std::optional<Sources> in_own_lanes(int64_t apart, unsigned n, int64_t m) {
  const int64_t last = apart * (n - 1) + 1 - m;
  Sources out;
  for (int64_t k = 0; k < apart; ++k) out.begins.push_back(std::min(k * (m - 1), last));
  std::vector<bool> taken(m, false);
  for (unsigned i = 0; i < n; ++i) {
    for (size_t k = 0; k < out.begins.size() && out.of.size() == i; ++k) {
      const int64_t lane = apart * i - out.begins[k];
      if (lane < 0 || lane >= m || taken[lane]) continue;
      taken[lane] = true;
      out.of.push_back({k, lane});
    }
    if (out.of.size() == i) return std::nullopt;
  }
  return out;
}

// As few vectors as hold the elements.
Sources in_fewest(int64_t apart, unsigned n, int64_t m) {
  const int64_t last = apart * (n - 1) + 1 - m;
  Sources out;
  for (unsigned i = 0; i < n; ++i) {
    const int64_t at = apart * i;
    if (out.begins.empty() || at >= out.begins.back() + m) out.begins.push_back(std::min(at, last));
    out.of.push_back({out.begins.size() - 1, at - out.begins.back()});
  }
  return out;
}

Value* joined(llvm::IRBuilder<>& b, std::vector<Value*> parts) {
  while (parts.size() > 1) {
    const unsigned n = lanes_of(parts[0]);
    std::vector<int> all;
    for (unsigned i = 0; i < 2 * n; ++i) all.push_back(static_cast<int>(i));
    std::vector<Value*> pairs;
    for (size_t i = 0; i < parts.size(); i += 2)
      pairs.push_back(b.CreateShuffleVector(parts[i], parts[i + 1], all));
    parts = std::move(pairs);
  }
  return parts[0];
}

// Lanes of less than 4 bytes move within 16 bytes only.
int64_t shuffled_bytes(int64_t element_bytes, int64_t vector_bytes) {
  return element_bytes < 4 ? std::min<int64_t>(vector_bytes, 16) : vector_bytes;
}

}  // namespace

SpacedElements::SpacedElements(llvm::IRBuilder<>& b, llvm::Type* element, int64_t vector_bytes)
    : b_(b), element_(element) {
  const auto bytes = static_cast<int64_t>(element->getPrimitiveSizeInBits().getFixedValue() / 8);
  half_ = static_cast<unsigned>(16 / bytes);
  most_ = static_cast<unsigned>(shuffled_bytes(bytes, vector_bytes) / bytes);
}

Value* SpacedElements::load(Value* address, int64_t step, unsigned n, const Mask& mask) {
  const unsigned part = std::min(n, most_);
  std::vector<Value*> parts;
  for (unsigned at = 0; at < n; at += part) {
    const int64_t begin = std::abs(step) * at;
    const Mask from = [&](int64_t place, unsigned lanes) { return mask(begin + place, lanes); };
    parts.push_back(
        load_part(b_.CreateConstGEP1_64(element_, address, begin), step, part, mask ? from : Mask()));
  }
  if (step < 0) std::ranges::reverse(parts);
  return joined(b_, std::move(parts));
}

Value* SpacedElements::load_part(Value* address, int64_t step, unsigned n, const Mask& mask) {
  const int64_t apart = std::abs(step);
  const auto m = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(apart * (n - 1) + 1, most_))));
  const std::optional<Sources> own = m == n ? in_own_lanes(apart, n, m) : std::nullopt;
  const Sources from = own ? *own : in_fewest(apart, n, m);
  const auto place = [&](unsigned i) { return step < 0 ? n - 1 - i : i; };
  std::vector<int> moved(n);
  for (unsigned i = 0; i < n; ++i) moved[place(i)] = static_cast<int>(from.of[i].lane);
  Value* all = nullptr;
  for (size_t k = 0; k < from.begins.size(); ++k) {
    auto* const type = llvm::FixedVectorType::get(element_, static_cast<unsigned>(m));
    Value* place_of = b_.CreateConstGEP1_64(element_, address, from.begins[k]);
    Value* vector = mask ? b_.CreateMaskedLoad(type, place_of, llvm::Align(1),
                                               mask(from.begins[k], static_cast<unsigned>(m)),
                                               llvm::Constant::getNullValue(type))
                         : static_cast<Value*>(b_.CreateAlignedLoad(type, place_of, llvm::Align(1)));
    std::vector<int> blend, own_place(n, -1);
    for (unsigned i = 0; i < n; ++i) blend.push_back(static_cast<int>(i));
    for (unsigned i = 0; i < n; ++i) {
      if (from.of[i].vector != k) continue;
      const auto lane = static_cast<int>(from.of[i].lane);
      blend[own ? lane : place(i)] += static_cast<int>(n);
      own_place[place(i)] = lane;
    }
    if (!own) vector = b_.CreateShuffleVector(vector, own_place);
    all = all ? b_.CreateShuffleVector(all, vector, blend) : vector;
  }
  return own ? b_.CreateShuffleVector(all, moved) : all;
}

void SpacedElements::store(Value* address, const Values& values, const Mask& mask) {
  const unsigned n = lanes_of(values[0]), part = std::min(n, most_);
  int64_t at = 0;
  for (unsigned from = 0; from < n; from += part) {
    std::vector<int> lanes;
    for (unsigned i = 0; i < part; ++i) lanes.push_back(static_cast<int>(from + i));
    Values parts;
    for (Value* v : values) parts.push_back(part == n ? v : b_.CreateShuffleVector(v, lanes));
    for (Value* v : interleaved(parts)) {
      Value* place = b_.CreateConstGEP1_64(element_, address, at);
      if (mask)
        b_.CreateMaskedStore(v, place, llvm::Align(1), mask(at, part));
      else
        b_.CreateAlignedStore(v, place, llvm::Align(1));
      at += part;
    }
  }
}

// Of an even number the first half with the second, which leaves half as many of twice the length.
SpacedElements::Values SpacedElements::interleaved(const Values& values) {
  const size_t half = values.size() / 2;
  if (values.size() == 1) return values;
  if (values.size() % 2 == 1) return interleaved_odd(values);
  Values lower, upper;
  for (size_t i = 0; i < half; ++i) {
    const Values pair = interleaved_pair(values[i], values[half + i]);
    lower.push_back(pair[0]);
    upper.push_back(pair[1]);
  }
  Values all = interleaved(lower);
  for (Value* v : interleaved(upper)) all.push_back(v);
  return all;
}

// Within halves of registers first, which registers have instructions for.
SpacedElements::Values SpacedElements::interleaved_pair(Value* a, Value* b) {
  const unsigned n = lanes_of(a), half = std::min(n, half_);
  Values within;
  for (unsigned upper = 0; upper < 2; ++upper) {
    std::vector<int> lanes;
    for (unsigned i = 0; i < n; ++i)
      lanes.push_back(static_cast<int>(i / half * half + upper * half / 2 + i % half / 2 + i % 2 * n));
    within.push_back(b_.CreateShuffleVector(a, b, lanes));
  }
  if (n == half) return within;
  Values all;
  for (unsigned k = 0; k < 2; ++k) {
    std::vector<int> lanes;
    for (unsigned i = 0; i < n; ++i) {
      const unsigned block = (k * n + i) / half;
      lanes.push_back(static_cast<int>(block % 2 * n + block / 2 * half + i % half));
    }
    all.push_back(b_.CreateShuffleVector(within[0], within[1], lanes));
  }
  return all;
}

// Of c vectors element i of vector m goes to place c * i + m: each vector's elements to lanes of their own,
// as an odd c divides no number of lanes, and the vectors blend.
SpacedElements::Values SpacedElements::interleaved_odd(const Values& values) {
  const auto n = lanes_of(values[0]), count = static_cast<unsigned>(values.size());
  Values placed;
  for (unsigned m = 0; m < count; ++m) {
    std::vector<int> lanes(n);
    for (unsigned i = 0; i < n; ++i) lanes[(count * i + m) % n] = static_cast<int>(i);
    placed.push_back(b_.CreateShuffleVector(values[m], lanes));
  }
  Values all;
  for (unsigned k = 0; k < count; ++k) {
    Value* vector = placed[0];
    for (unsigned m = 1; m < count; ++m) {
      std::vector<int> blend;
      for (unsigned i = 0; i < n; ++i)
        blend.push_back(static_cast<int>((k * n + i) % count == m ? n + i : i));
      vector = b_.CreateShuffleVector(vector, placed[m], blend);
    }
    all.push_back(vector);
  }
  return all;
}

}  // namespace lamina::jit::codegen
