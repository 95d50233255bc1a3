// Every allocation of a program that traces, transforms, clusters, compiles and runs fails once: what it
// raises is an error of memory, nothing is left behind, and the next run gives the right bits. The operators
// new and aligned_alloc are replaced here. What the thread that runs LLVM allocates does not fail: LLVM ends
// the process where it finds no memory, and is called only where there is enough (jit/codegen/client.h).
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/graph.h"
#include "kernels.h"
#include "lamina/lamina.h"
#include "tests/build_paths.h"

namespace {

// Of this thread.
thread_local int64_t until_failure = -1;  // counts the allocations down to the one that fails; negative: none
thread_local int64_t allocations = 0;
thread_local bool may_go_on = false;  // whoever asked for the one that failed may do without

bool fails() {
  if (lamina::testing::device_writes_down()) return false;
  ++allocations;
  return until_failure >= 0 && until_failure-- == 0;
}
bool fails_softly() { return fails() && (may_go_on = true); }

void* allocate(size_t bytes, size_t alignment) {
  void* p = nullptr;
  return posix_memalign(&p, std::max(alignment, sizeof(void*)), bytes ? bytes : 1) == 0 ? p : nullptr;
}
void* allocate_or_throw(size_t bytes, size_t alignment) {
  if (!fails())
    if (void* p = allocate(bytes, alignment)) return p;
  throw std::bad_alloc();
}
constexpr size_t kDefault = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t n) { return allocate_or_throw(n, kDefault); }
void* operator new[](size_t n) { return allocate_or_throw(n, kDefault); }
void* operator new(size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<size_t>(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return fails_softly() ? nullptr : allocate(n, kDefault);
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return fails_softly() ? nullptr : allocate(n, kDefault);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
extern "C" void* aligned_alloc(size_t alignment, size_t n) {
  return fails_softly() ? nullptr : allocate(n, alignment);
}

namespace lamina {
namespace {

using Program = std::function<std::vector<float>()>;

Tensor loss(const Tensor& w, const Tensor& x) {
  const Tensor h = checkpoint([](const Tensor& a) { return tanh(a) * 2.0 + sin(a); })(matmul(x, w));
  return mean(square(h) + exp(-h));
}

std::vector<float> train() {
  const Tensor w = ones({3, 2}) * 0.5, x = arange(12, DType::float32).reshape({4, 3}) * 0.25;
  auto step = jit([](const Tensor& a, const Tensor& b) { return a - 0.1 * grad(loss)(a, b); });
  Tensor next = step(w, x);
  next = next + vmap([](const Tensor& row) { return row * 3.0 - sum(row); })(next);
  return next.to_host<float>();
}

std::vector<float> second_order() {
  const auto f = [](const Tensor& x) { return sum(sort(x * x) * cumsum(sin(x), 0)) + prod(softmax(x)); };
  const auto slope = [f](const Tensor& x) { return sum(grad(f)(x) * x); };
  const Tensor x = linspace(0.5, 2, 5), batch = stack({x, x * 2.0});
  return concatenate({grad(slope)(x), vmap(grad(f))(batch).reshape({10})}).to_host<float>();
}

std::vector<float> matrices() {
  const Tensor a = eye(3) * 4.0 + ones({3, 3}), b = ones({3, 1});
  const auto f = [b](const Tensor& m) { return sum(linalg::solve(m, b) * 2.0) + linalg::det(m); };
  const Tensor image = arange(32, DType::float32).reshape({1, 2, 4, 4});
  const Tensor convolved = conv(image, ones({1, 2, 3, 3}));
  return concatenate({jit([f](const Tensor& m) { return grad(f)(m); })(a).reshape({9}),
                      take(b, array({0, 2}), 0).reshape({2}), convolved.reshape({-1})})
      .to_host<float>();
}

// Machine code is made anew for every run.
std::vector<float> compiled() {
  const testing::CompiledAtOnce scope;
  const Tensor x = arange(6, DType::float32);
  return jit([](const Tensor& a) { return exp(a) * 2.0 + sum(a); })(x).to_host<float>();
}

struct Left {
  int64_t nodes, attributes, bytes;
  bool operator==(const Left&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Left& l) {
  return out << l.nodes << " nodes, " << l.attributes << " attributes, " << l.bytes << " bytes";
}
Left left() {
  testing::drain_devices();
  cache::clear();
  testing::drop_kernels();
  // The last attributes interned are pinned: others take their places.
  for (int i = 0; i < hlo::kPinnedAttrs; ++i)
    hlo::intern_attrs({{hlo::Attr::value, hlo::LiteralPtr(hlo::Literal::scalar(hlo::DType::kF64, i))}});
  return {hlo::live_nodes(), hlo::live_counted_attrs(), cache::memory().live_bytes};
}

// What became of a run whose allocation `n` failed.
enum class Outcome { kNotReached, kRaised, kWentOn, kWrong };
Outcome fail_at(int64_t n, const Program& program, const std::vector<float>* want) {
  Outcome outcome = Outcome::kNotReached;
  may_go_on = false;
  until_failure = n;
  try {
    const std::vector<float> got = program();
    const bool reached = until_failure < 0;
    until_failure = -1;
    if (reached) outcome = may_go_on && (!want || got == *want) ? Outcome::kWentOn : Outcome::kWrong;
  } catch (const std::bad_alloc&) {
    outcome = Outcome::kRaised;
  } catch (const Error& e) {
    outcome = e.kind() == ErrorKind::kMemory ? Outcome::kRaised : Outcome::kWrong;
  }
  until_failure = -1;
  return outcome;
}

// Fails each `stride`-th allocation of the first `most`.
void fail_each(const Program& program, int64_t stride, int64_t most) {
  program();
  left();
  const std::vector<float> want = program();
  const Left before = left();
  allocations = 0;
  program();
  const int64_t count = std::min(allocations, most);
  left();
  CHECK(count > 300);
  for (int64_t n = 0; n < count; n += stride) {
    INFO("allocation " << n << " of " << count);
    const Outcome outcome = fail_at(n, program, &want);
    // The run before may have left memory to use, as in the allocator of arrays.
    CHECK((outcome == Outcome::kRaised || outcome == Outcome::kWentOn || n + 200 > count));
    CHECK(program() == want);
    CHECK(left() == before);
  }
}

const std::pair<const char*, Program> kPrograms[] = {
    {"train", train}, {"second order", second_order}, {"matrices", matrices}};

// In a process that has run nothing yet, made by fork: tables that are made at first use. It runs first.
void fail_cold(int64_t stride) {
  for (int64_t n = 0;; n += stride) {
    INFO("allocation " << n);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const Outcome outcome = fail_at(n, train, nullptr);
      bool right = outcome != Outcome::kWrong;
      for (int again = 0; again < 2; ++again) right &= train().size() == 6;
      right &= train() == train();
      _exit(!right ? 1 : outcome == Outcome::kNotReached ? 2 : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != 1);
    if (WEXITSTATUS(status) != 0) return;
  }
}

TEST_CASE("an allocation that fails in a fresh process is an error and changes nothing", "[fault]") {
  fail_cold(71);
}
TEST_CASE("each allocation of a fresh process may fail", "[.][fault][slow]") { fail_cold(1); }

TEST_CASE("a failed allocation is an error and changes nothing", "[fault]") {
  for (const auto& [name, program] : kPrograms) SECTION(name) fail_each(program, 101, 100'000);
}
TEST_CASE("each of the first 10,000 allocations may fail", "[.][fault][slow]") {
  for (const auto& [name, program] : kPrograms) SECTION(name) fail_each(program, 1, 10'000);
}

void fail_each_of_a_compile(int64_t stride, int64_t most) {
  testing::set_code_generator(kCodeGenerator);
  fail_each(compiled, stride, most);
}
TEST_CASE("an allocation of a compile that fails is an error and changes nothing", "[fault]") {
  fail_each_of_a_compile(53, 100'000);
}
TEST_CASE("each allocation of a compile may fail", "[.][fault][slow]") { fail_each_of_a_compile(1, 10'000); }

}  // namespace
}  // namespace lamina
