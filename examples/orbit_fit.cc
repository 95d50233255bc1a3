// An orbit from sightings: two bodies are seen on the sky for two periods, their first positions, velocities
// and the mass are not known. A scan integrates the motion (Runge and Kutta's fourth-order step), and its
// Jacobian, by forward mode through the scan, fits it: Gauss and Newton's iteration in a while loop, all of
// it one program.
//
// Run: orbit_fit. Exits with an error unless the fit finds what the sightings were made from, the gradient by
// reverse mode is that of the Jacobian, and the integration keeps the energy.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "lamina/lamina.h"

namespace {

using namespace lamina;

struct Body {
  Tensor position, velocity;  // [2]
  auto fields() { return std::tie(position, velocity); }
};
struct Orbit {
  Body start;
  Tensor mass;
  auto fields() { return std::tie(start, mass); }
};

Body moved(const Body& b, const Body& rate, double time) {
  return {b.position + time * rate.position, b.velocity + time * rate.velocity};
}

Body rate_of(const Body& b, const Tensor& mass) {
  const Tensor square = sum(b.position * b.position);
  return {b.velocity, -mass * b.position / (square * sqrt(square))};
}

Body step(const Body& b, const Tensor& mass, double time) {
  const Body k1 = rate_of(b, mass), k2 = rate_of(moved(b, k1, time / 2), mass);
  const Body k3 = rate_of(moved(b, k2, time / 2), mass), k4 = rate_of(moved(b, k3, time), mass);
  auto mean = [](const Tensor& a, const Tensor& p, const Tensor& q, const Tensor& d) {
    return (a + 2 * p + 2 * q + d) / 6;
  };
  return moved(b,
               {mean(k1.position, k2.position, k3.position, k4.position),
                mean(k1.velocity, k2.velocity, k3.velocity, k4.velocity)},
               time);
}

constexpr int kSightings = 24, kStepsBetween = 40;
constexpr double kTime = 0.55;  // between sightings

// Positions [kSightings, 2] and energies [kSightings].
std::pair<Tensor, Tensor> flight(const Orbit& orbit) {
  auto to_next = [&](const Body& b, const std::tuple<>&) {
    const Body next = fori_loop(
        0, kStepsBetween,
        [&](const Tensor&, const Body& c) { return step(c, orbit.mass, kTime / kStepsBetween); }, b);
    const Tensor energy =
        sum(next.velocity * next.velocity) / 2 - orbit.mass / sqrt(sum(next.position * next.position));
    return std::pair(next, std::pair(next.position, energy));
  };
  return scan(to_next, orbit.start, std::tuple<>{}, {.length = kSightings}).second;
}

Tensor flat(const Orbit& o) { return concatenate({o.start.position, o.start.velocity, o.mass.reshape({1})}); }
Orbit unflat(const Tensor& p) { return {{p[Slice{0, 2, {}}], p[Slice{2, 4, {}}]}, p[4]}; }

// What is left of the sightings, [2 * kSightings].
Tensor residuals(const Tensor& parameters, const Tensor& seen) {
  return (flight(unflat(parameters)).first - seen).flatten();
}

void require(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "orbit_fit: %s\n", what);
  std::exit(1);
}

}  // namespace

int main() {
  const DefaultTypesScope doubles({.floating = DType::float64});
  const Orbit truth{{array({1., 0.}), array({0.1, 0.9})}, 1.02};
  const auto [seen, energies] = jit(flight)(truth);
  const double drift = max(abs(energies - energies[0])).item();
  std::printf("energy drifts by %.1e in %d steps\n", drift, kSightings * kStepsBetween);

  // (parameters, length of the last correction, steps) until the corrections are small.
  using Search = std::tuple<Tensor, Tensor, Tensor>;
  auto fit = jit(
      [](const Tensor& guess, const Tensor& sightings) {
        return while_loop([](const Search& s) { return (std::get<1>(s) > 1e-12) & (std::get<2>(s) < 30); },
                          [&](const Search& s) {
                            const Tensor& p = std::get<0>(s);
                            const Tensor r = residuals(p, sightings), j = jacfwd(residuals)(p, sightings);
                            const Tensor correction = linalg::solve(matmul(j.T(), j), matmul(j.T(), r));
                            return Search(p - correction, linalg::norm(correction), std::get<2>(s) + 1);
                          },
                          Search(guess, 1.0, 0));
      },
      "fit");
  const Tensor guess = flat({{array({1.003, -0.002}), array({0.098, 0.903})}, 1.015});
  const auto [found, last, steps] = fit(guess, seen);
  const double error = max(abs(found - flat(truth))).item();
  std::printf("found %s in %d steps, error %.1e\n", found.to_string().c_str(), steps.item<int>(), error);

  // Reverse mode through the scan of loops against the Jacobian: of half the squares, J^T r.
  auto loss = [](const Tensor& p, const Tensor& sightings) {
    return sum(square(residuals(p, sightings))) / 2;
  };
  const Tensor gradient = jit(grad(loss))(guess, seen);
  const Tensor j = jit(jacfwd(residuals))(guess, seen);
  const double apart =
      max(abs(gradient - matmul(j.T(), residuals(guess, seen)))).item() / max(abs(gradient)).item();
  std::printf("gradients by reverse and by forward mode are %.1e apart\n", apart);

  require(drift < 1e-8, "the energy drifts");
  require(error < 1e-9, "the fit missed the orbit");
  require(apart < 1e-10, "the modes disagree");
}
