// Trains a network of two layers to say on which side of a circle points lie.
#include <lamina/lamina.h>

#include <cstdio>
using namespace lamina;
struct Layer {
  Tensor weight, bias;
  auto fields() { return std::tie(weight, bias); }
};
using Network = std::vector<Layer>;

Tensor loss(const Network& net, const Tensor& x, const Tensor& y) {
  const Tensor hidden = tanh(matmul(x, net[0].weight) + net[0].bias);
  return mean(softplus(-(matmul(hidden, net[1].weight) + net[1].bias) * (2 * y - 1)));
}
int main() {
  const Tensor keys = random::split(random::key(0), 3);
  const Tensor x = random::uniform(keys[0], {256, 2}, -1, 1),
               y = (sum(x * x, {1}, true) < 0.6).astype(DType::float32);
  Network net{{random::normal(keys[1], {2, 16}), zeros({16})},
              {random::normal(keys[2], {16, 1}) * 0.3, zeros({1})}};
  auto step = jit([](const Network& n, const Tensor& a, const Tensor& b) {
    return tree_map([](const Tensor& p, const Tensor& g) { return p - 1.0 * g; }, n, grad(loss)(n, a, b));
  });
  const float before = loss(net, x, y).item<float>();
  for (int i = 0; i < 400; ++i) net = step(net, x, y);
  const float after = loss(net, x, y).item<float>();
  std::printf("loss %.4f -> %.4f, traced %d times\n", before, after, static_cast<int>(step.traces()));
  return after < 0.15f && step.traces() == 1 ? 0 : 1;
}
