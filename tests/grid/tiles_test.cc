// Tiles on the stand-in: loads that cross the last dimension.
#include <algorithm>
#include <catch2/catch.hpp>

#include "jit/kernel/grid_tiles.h"
#include "tests/grid/grid_testing.h"
#include "tests/jit/random_kernel.h"

namespace lamina::grid {
namespace {

using Extents = std::vector<int64_t>;
using Order = std::vector<int>;

GridSchedule tiles(uint32_t lanes, uint32_t vectors, uint32_t rows) {
  return {GridForm::kTiles, lanes, vectors, rows};
}

// Arrays over some of the dimensions `extents`, in memory in another order of them; each is copied to one
// that lies in theirs.
class Copies {
 public:
  explicit Copies(Extents extents)
      : extents_(std::move(extents)), k_(static_cast<int>(extents_.size()), 0), rng_(extents_.size()) {
    c_.args = extents_;
  }

  // `order`: of memory, the last one innermost; each element holds `parts` of type `t`. `pad`: elements
  // between rows that are of nobody. Gives the values of its parts.
  std::vector<uint32_t> load(DType t, const Order& order, int parts = 1, int64_t pad = 0) {
    std::vector<uint32_t> values;
    for (uint32_t access : place(t, order, parts, pad, false)) values.push_back(k_.load(access));
    return values;
  }
  uint32_t load_first(DType t, const Order& order, int parts) {
    return k_.load(place(t, order, parts, 0, false)[0]);
  }
  void store(DType t, const std::vector<uint32_t>& values) {
    Order order(extents_.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int>(d);
    const auto to = place(t, order, static_cast<int>(values.size()), 0, true);
    for (size_t p = 0; p < to.size(); ++p) k_.store(to[p], values[p]);
  }
  void copy(DType t, const Order& order, int parts = 1, int64_t pad = 0) {
    store(t, load(t, order, parts, pad));
  }
  uint32_t add(DType t, uint32_t a, uint32_t b) { return k_.prim(Prim::add, t, {a, b}); }

  GridCase take() {
    c_.kernel = k_.kernel;
    REQUIRE(verify(c_.kernel).ok());
    REQUIRE(jit::reads_back(c_.kernel));
    return c_;
  }

 private:
  std::vector<uint32_t> place(DType t, const Order& order, int parts, int64_t pad, bool written) {
    const uint32_t buffer = k_.buffer(t, written);
    int64_t stride = parts;
    std::vector<jit::AccessTerm> terms;
    for (size_t i = order.size(); i-- > 0;) {
      const bool known = stride <= jit::kMostKnownStride && i + 1 == order.size();
      jit::AccessTerm term{static_cast<uint8_t>(order[i]), static_cast<int8_t>(known ? stride : 0), 0};
      if (!known) {
        term.stride_slot = k_.arg();
        c_.args.push_back(stride);
      }
      terms.push_back(term);
      stride = stride * extents_[static_cast<size_t>(order[i])] + (i + 1 == order.size() ? pad : 0);
    }
    c_.memory.push_back(jit::random_elements(t, std::max<int64_t>(stride - pad, 1), rng_));
    std::vector<uint32_t> accesses;
    for (int p = 0; p < parts; ++p) {
      accesses.push_back(k_.access(buffer, terms));
      k_.kernel.accesses.back().beside = static_cast<uint8_t>(p);
    }
    return accesses;
  }

  Extents extents_;
  jit::KernelBuilder k_;
  GridCase c_;
  std::mt19937_64 rng_;
};

GridCase transpose(DType t, int64_t across, int64_t along, int parts = 1, int64_t pad = 0) {
  Copies made({across, along});
  made.copy(t, {1, 0}, parts, pad);
  return made.take();
}

}  // namespace

TEST_CASE("a transpose of each element type and vector, in tiles", "[grid]") {
  uint64_t seed = 0;
  for (int t = 0; t < hlo::kNumDTypes; ++t) {
    const auto type = static_cast<DType>(t);
    if (hlo::is_complex(type)) continue;
    const auto size = hlo::byte_size(type);
    for (const uint32_t lanes : {1u, 2u, 4u, 8u, 16u}) {
      if (lanes * size > 16) continue;
      CAPTURE(hlo::info(type).name, lanes);
      const uint32_t most = lanes == 1 ? 8 : 32;
      check_grid(transpose(type, 70, 96), tiles(lanes, 1, most), ++seed);
      check_grid(transpose(type, 112, 96), tiles(lanes, 2, 2 * most), ++seed);
    }
  }
}

TEST_CASE("extents that are no multiple of a tile's", "[grid]") {
  uint64_t seed = 0;
  for (const DType t : {DType::kS8, DType::kBF16, DType::kF32, DType::kF64})
    for (const auto& [across, along] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {1, 300}, {300, 1}, {3, 5}, {16, 128}, {128, 16}, {64, 64}, {65, 63}, {100, 131}})
      for (const GridSchedule& s :
           {tiles(4, 4, 64), tiles(2, 2, 8), tiles(1, 8, 64), tiles(1, 4, 4), tiles(16, 1, 4)}) {
        CAPTURE(hlo::info(t).name, across, along);
        if (s.lanes * hlo::byte_size(t) > 16) continue;
        check_grid(transpose(t, across, along, 1, seed % 3 == 0 ? 5 : 0), s, seed);
        ++seed;
      }
}

TEST_CASE("parts of elements that alternate are turned together", "[grid]") {
  uint64_t seed = 0;
  for (const DType t : {DType::kS8, DType::kBF16, DType::kF32, DType::kF64})
    for (const int parts : {2, 4}) {
      if (parts * hlo::byte_size(t) > 16) continue;
      CAPTURE(hlo::info(t).name, parts);
      const GridCase c = transpose(t, 72, 45, parts);
      const jit::CrossedLoads crossed = jit::crossed_loads(c.kernel);
      REQUIRE(crossed.loads.size() == 1);
      CHECK(std::ssize(crossed.loads[0].accesses) == parts);
      for (const GridSchedule& s : {tiles(1, 4, 32), tiles(2, 2, 32), tiles(4, 1, 8)})
        check_grid(c, s, ++seed);
    }
  // Every second element: the last one's neighbour may not be there.
  Copies made({20, 30});
  made.store(DType::kF32, {made.load_first(DType::kF32, {1, 0}, 2)});
  CHECK(jit::crossed_loads(made.take().kernel).loads.empty());
}

TEST_CASE("tiles of a plane of several dimensions", "[grid]") {
  uint64_t seed = 0;
  for (const Order& order : {Order{0, 2, 1}, {2, 1, 0}, {2, 0, 1}, {1, 2, 0}})
    for (const GridSchedule& s : {tiles(4, 1, 16), tiles(2, 4, 64)}) {
      Copies made({5, 37, 40});
      made.copy(DType::kF32, order);
      check_grid(made.take(), s, ++seed);
    }
  for (const Order& order : {Order{0, 1, 3, 2}, {0, 3, 2, 1}, {3, 2, 1, 0}, {1, 3, 0, 2}}) {
    Copies made({3, 11, 9, 34});
    made.copy(DType::kBF16, order);
    check_grid(made.take(), tiles(8, 1, 8), ++seed);
  }
}

TEST_CASE("several loads that cross, beside others", "[grid]") {
  uint64_t seed = 0;
  for (const auto& [across, along] : std::vector<std::pair<int64_t, int64_t>>{{64, 96}, {61, 99}, {128, 33}})
    for (const GridSchedule& s : {tiles(4, 2, 32), tiles(2, 1, 16), tiles(8, 1, 32)}) {
      Copies sum({across, along});
      const uint32_t x = sum.load(DType::kF32, {0, 1})[0], y = sum.load(DType::kF32, {1, 0})[0],
                     row = sum.load(DType::kF32, {1})[0], column = sum.load(DType::kF32, {0})[0];
      const uint32_t both =
          sum.add(DType::kF32, sum.add(DType::kF32, x, y), sum.add(DType::kF32, row, column));
      sum.store(DType::kF32, {sum.add(DType::kF32, both, sum.load(DType::kF32, {1, 0})[0])});
      const GridCase c = sum.take();
      CHECK(jit::crossed_loads(c.kernel).loads.size() == 2);
      check_grid(c, s, ++seed);

      Copies mixed({across, along});
      mixed.copy(DType::kS8, {1, 0});
      mixed.copy(DType::kF32, {0, 1});
      mixed.copy(DType::kF64, {1, 0}, 2);
      mixed.copy(DType::kBF16, {1, 0}, 1, 3);
      check_grid(mixed.take(), s, ++seed);
    }
}

TEST_CASE("random kernels that cross have the interpreter's bits in tiles", "[grid]") {
  int crossing = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const jit::Case made = jit::RandomKernel(seed).make(2 + static_cast<int>(seed % 3), 0);
    const GridCase c{made.kernel, made.args, made.memory};
    const GridSchedule s = tiles(1u << seed % 4, 1u << seed / 4 % 2, seed % 4 ? 32 : 8);
    if (!takes_tiles(c.kernel, s).ok()) continue;
    ++crossing;
    check_grid(c, s, seed);
  }
  CHECK(crossing > 30);
}

TEST_CASE("random sums of elements that lie one way and another, in tiles", "[grid]") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const DType types[] = {DType::kBool, DType::kS16, DType::kF32, DType::kF64};
    const jit::Case made =
        jit::RandomKernel(seed).turned(types[seed % 4], {1 + static_cast<int64_t>(seed % 5) * 9, 18, 50},
                                       static_cast<int>(seed / 4 % 2), 1 + static_cast<int>(seed / 8 % 3));
    check_grid({made.kernel, made.args, made.memory}, tiles(1u << seed % 3, 1, 8), seed);
  }
}

TEST_CASE("tiles are chosen where a large array is read across", "[grid]") {
  const auto chosen = [](const GridCase& c, Extents args) {
    args.insert(args.end(), c.args.begin() + std::ssize(args), c.args.end());
    return favoured_grid(c.kernel, args);
  };
  const GridCase f32 = transpose(DType::kF32, 8, 8), bf16 = transpose(DType::kBF16, 8, 8),
                 c64 = transpose(DType::kF32, 8, 8, 2);
  CHECK(chosen(f32, {1024, 65536}) == tiles(4, 4, 64));
  CHECK(chosen(f32, {16, 1 << 20}) == tiles(4, 4, 16));
  CHECK(chosen(f32, {1 << 20, 16}) == tiles(2, 4, 128));
  CHECK(chosen(bf16, {1024, 65536}) == tiles(8, 4, 128));
  CHECK(chosen(c64, {1024, 65536}) == tiles(2, 4, 64));

  // Rows that begin at odd addresses, and at those of pairs.
  CHECK(chosen(transpose(DType::kF32, 8, 9), {1024, 65536}) == tiles(1, 8, 64));
  CHECK(chosen(transpose(DType::kF32, 8, 10), {1024, 65536}) == tiles(2, 4, 64));
  CHECK(chosen(f32, {256, 256}).form == GridForm::kTiles);
  CHECK(chosen(f32, {64, 64}).form == GridForm::kElements);
  CHECK(chosen(f32, {2, 1 << 20}).form == GridForm::kElements);
  CHECK(chosen(f32, {1 << 20, 4}).form == GridForm::kElements);
  Copies straight({8, 8});
  straight.copy(DType::kF32, {0, 1});
  CHECK(chosen(straight.take(), {4096, 4096}).form == GridForm::kElements);
  Copies matrices({8, 8, 8});
  matrices.copy(DType::kF32, {0, 2, 1});
  const GridCase small = matrices.take();
  CHECK(chosen(small, {65536, 8, 8}).form == GridForm::kElements);
  CHECK(chosen(small, {65536, 16, 16}).form == GridForm::kElements);
  CHECK(chosen(small, {65536, 32, 32}) == tiles(4, 1, 32));
  CHECK(chosen(small, {1024, 64, 64}) == tiles(4, 4, 64));
  // Whatever is chosen has a plan.
  for (int64_t across : {8, 33, 1000})
    for (int64_t along : {8, 200, 70000})
      for (const GridCase* c : {&f32, &bf16, &c64}) {
        Extents args = c->args;
        args[0] = across;
        args[1] = along;
        CHECK(grid_plan(c->kernel, favoured_grid(c->kernel, args), args).ok());
      }
}

TEST_CASE("tiles of kernels that have none are refused in words", "[grid]") {
  Copies straight({8, 8});
  straight.copy(DType::kF32, {0, 1});
  const GridCase c = straight.take();
  CHECK(
      grid_plan(c.kernel, tiles(4, 1, 32), c.args).status().message() ==
      "\"schedule grid form=tiles lanes=4 vectors=1 rows=32\" is no schedule here: no load crosses the last "
      "dimension");
  CHECK(StandIn::make(c.kernel, tiles(4, 1, 32)).status().message() == "no load crosses the last dimension");
  const GridCase turned = transpose(DType::kF64, 8, 8);
  CHECK(!grid_plan(turned.kernel, tiles(4, 1, 64), turned.args).ok());
  CHECK(!grid_plan(turned.kernel, tiles(2, 4, 8), turned.args).ok());
  CHECK(!grid_plan(turned.kernel, tiles(8, 4, 64), turned.args).ok());
}

}  // namespace lamina::grid
