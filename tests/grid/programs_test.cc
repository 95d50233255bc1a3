// Whole programs on the stand-in for the driver, whose kernels run as they are emitted: threads and blocks in
// order, and in a random one.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // of listeners
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "hlo/builder.h"
#include "hlo/printer.h"
#include "jit/program/executable.h"
#include "jit/program/row_chain.h"
#include "tests/build_paths.h"
#include "tests/grid/row_programs.h"
#include "tests/grid/standin.h"
#include "tests/jit/cuda_testing.h"
#include "tests/smith/generator.h"

namespace lamina::grid {
namespace {

using hlo::ComputationPtr;
using hlo::LiteralPtr;
using testing::Literals;

// Kernels that are ready to run.
constexpr size_t kMostKept = 64;

struct Runs {
  Seed order = 0;
  bool by_turns = false;  // order and a random one
  int64_t kernels = 0, chains = 0;
  int64_t counted = 0;  // bytes of buffers whose traffic counts
  Traffic traffic;
  void (*change)(llvm::Module&) = nullptr;
  std::map<std::string, std::unique_ptr<StandIn>> ready;
  std::string fault;
};
Runs& runs() {
  static Runs made;
  return made;
}

absl::StatusOr<StandIn*> stand_in(const StandinRun& run) {
  Runs& all = runs();
  const std::string text = std::string(run.kernel) + run.schedule;
  if (const auto known = all.ready.find(text); known != all.ready.end()) return known->second.get();
  auto parts = jit::parse_grid_parts(run.kernel, run.schedule);
  if (!parts.ok()) return parts.status();
  auto made = StandIn::make(*std::move(parts), all.change);
  if (!made.ok()) return made.status();
  if (all.ready.size() >= kMostKept) all.ready.clear();
  return (all.ready[text] = *std::move(made)).get();
}

const char* run_kernel(const StandinRun* run) {
  Runs& all = runs();
  ++all.kernels;
  all.chains += run->rows > 0;
  if (all.by_turns) all.order = all.kernels % 2 ? 0 : static_cast<Seed>(all.kernels);
  const auto kernel = stand_in(*run);
  if (!kernel.ok()) {
    all.fault = std::string(kernel.status().message());
    return all.fault.c_str();
  }
  std::vector<Region> regions;
  const auto parts = jit::parse_grid_parts(run->kernel, run->schedule);
  for (const jit::GridPart& p : *parts)
    for (const jit::BufferDecl& b : p.kernel.buffers) {
      const size_t i = regions.size();
      // Aligned as it is on the device.
      const auto skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(run->buffers[i]) % jit::kGridAlign);
      regions.push_back({run->buffers[i], run->bytes[i], b.written, skew});
    }
  const std::span<const int64_t> args(run->args, static_cast<size_t>(run->num_args));
  all.fault = run->rows > 0 ? (*kernel)->run_chain(regions, args, {run->rows, run->block_rows}, all.order)
                            : (*kernel)->run(regions, args, all.order);
  const std::vector<Traffic> traffic = (*kernel)->traffic();
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].bytes != all.counted) continue;
    all.traffic.loaded += traffic[i].loaded;
    all.traffic.stored += traffic[i].stored;
  }
  return all.fault.c_str();
}

struct EmittedKernels {
  EmittedKernels() {
    testing::cuda_client().kernels().set_library(kCodeGenerator);
    testing::standin()->set_runner(run_kernel);
    // Programs here are small.
    cluster::Costs costs = before_;
    costs.chain_least_rows = 1;
    testing::cuda_client().target().set_costs(costs);
  }
  ~EmittedKernels() {
    testing::cuda_client().target().set_costs(before_);
    testing::standin()->set_runner(nullptr);
    runs() = {};
  }

 private:
  const cluster::Costs before_ = testing::cuda_client().target().costs();
};

// The tests of library ops, which this program has too, run kernels so.
class LibraryOps : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    if (std::find(info.tags.begin(), info.tags.end(), "cuda_calls") == info.tags.end()) return;
    emitted_.emplace();
    runs().by_turns = true;
  }
  void testCaseEnded(const Catch::TestCaseStats&) override { emitted_.reset(); }

 private:
  std::optional<EmittedKernels> emitted_;
};
CATCH_REGISTER_LISTENER(LibraryOps)

absl::StatusOr<Literals> run_once(const jit::Executable& executable, const ComputationPtr& program,
                                  std::span<const LiteralPtr> arguments) {
  jit::Client& client = testing::cuda_client();
  std::vector<jit::BufferRef> in, out;
  for (const LiteralPtr& a : arguments) {
    auto buffer = client.put(testing::cuda_device(), a->data(), a->bytes());
    if (!buffer.ok()) return buffer.status();
    in.push_back(*std::move(buffer));
  }
  if (absl::Status s = executable.run(in, out); !s.ok()) return s;
  std::vector<std::shared_ptr<hlo::Literal>> read;
  std::vector<jit::Client::Read> reads;
  for (size_t i = 0; i < out.size(); ++i) {
    read.push_back(std::make_shared<hlo::Literal>(program->roots()[i].type()));
    reads.push_back({&*out[i], 0, read.back()->bytes(), read.back()->data()});
  }
  if (absl::Status s = client.read(reads, nullptr); !s.ok()) return s;
  for (const std::string& v : testing::standin_violations()) return absl::InternalError(v);
  return Literals(read.begin(), read.end());
}

// The results of both orders, which are the same bits but for NaN: those of the order that the seed draws.
testing::SmithExecutor in_order(bool random) {
  return {random ? "emitted kernels, threads in a random order" : "emitted kernels",
          testing::SmithGroup::kCuda,
          [random](const ComputationPtr& program, std::span<const LiteralPtr> arguments,
                   uint64_t seed) -> absl::StatusOr<Literals> {
            const auto executable = jit::Executable::compile(testing::cuda_device(), program);
            if (!executable.ok()) return executable.status();
            runs().order = random ? seed + 1 : 0;
            return run_once(**executable, program, arguments);
          }};
}

void check_programs(uint64_t first, uint64_t last) {
  const EmittedKernels emitted;
  runs().kernels = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const ComputationPtr program = testing::random_program(seed);
    for (const bool random : {false, true}) {
      const testing::SmithExecutor executor = in_order(random);
      const std::string what = testing::difference(program, executor, seed);
      if (what.empty()) continue;
      const ComputationPtr small = testing::reduce_program(
          program, [&](const ComputationPtr& p) { return !difference(p, executor, seed).empty(); });
      INFO("seed " << seed << ", " << executor.name << "\n" << print(*small));
      INFO(difference(small, executor, seed));
      CHECK(what.empty());
    }
  }
  CHECK(runs().kernels > static_cast<int64_t>(last - first));
  CHECK(runs().chains > static_cast<int64_t>(last - first) / 20);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> row_chains(hlo::DType type, const hlo::Dims& dims) {
  const EmittedKernels emitted;
  std::vector<std::pair<std::string, std::string>> out;
  for (const RowProgram& p : row_programs(type, dims)) {
    const auto executable = *jit::Executable::compile(testing::cuda_device(), p.program);
    for (const jit::RowChain& chain : executable->chains())
      for (const jit::KernelText* k : chain.step->kernels()) out.emplace_back(k->text, k->grid);
  }
  return out;
}

TEST_CASE("random programs have the evaluator's bits as they are emitted, in both orders of threads",
          "[grid_programs]") {
  check_programs(0, 2000);
}

TEST_CASE("programs that read large arrays across have the evaluator's bits, and do so by tiles",
          "[grid_programs]") {
  const EmittedKernels emitted;
  hlo::Builder b;
  const auto parameter = [](hlo::DType t, hlo::Dims dims) {
    return hlo::make_parameter(*hlo::array_type(t, std::move(dims)));
  };
  const auto check = [](const std::vector<hlo::Value>& in, const hlo::Value& out) {
    const ComputationPtr program = *hlo::Computation::make(in, {{out}});
    const auto executable = jit::Executable::compile(testing::cuda_device(), program);
    REQUIRE(executable.ok());
    CHECK_THAT((*executable)->describe(), Catch::Contains("schedule grid form=tiles"));
    for (const bool random : {false, true}) CHECK(testing::difference(program, in_order(random), 7) == "");
  };
  for (const hlo::DType t :
       {hlo::DType::kBool, hlo::DType::kBF16, hlo::DType::kF32, hlo::DType::kC64, hlo::DType::kC128})
    for (const int64_t n : {320, 333}) {
      CAPTURE(hlo::info(t).name, n);
      const hlo::Value x = parameter(t, {n, 256});
      check({x}, b.transpose(x, {{1, 0}}));
      const hlo::Value y = parameter(t, {3, n, 2, 40});
      check({y}, b.transpose(y, {{2, 0, 3, 1}}));
    }
  const hlo::Value x = parameter(hlo::DType::kF32, {301, 260}), y = parameter(hlo::DType::kF32, {260, 301}),
                   row = parameter(hlo::DType::kF32, {301});
  check({x, y, row},
        b.multiply(b.add(b.transpose(x, {{1, 0}}), y), b.broadcast_in_dim(row, y.dims(), {{1}})));
}

TEST_CASE("kernels over the same rows are one launch, with the evaluator's bits",
          "[grid_programs][grid_chains]") {
  const EmittedKernels emitted;
  // Rows that end within a segment of the tree and at its end; few and many at a time; of one element.
  for (const hlo::DType t : {hlo::DType::kF16, hlo::DType::kBF16, hlo::DType::kF32, hlo::DType::kF64})
    for (const hlo::Dims& dims :
         {hlo::Dims{70, 3}, {33, 45}, {5, 4, 129}, {40, 64}, {9, 256}, {7, 520}, {3, 530}})
      for (const RowProgram& p : row_programs(t, dims)) {
        CAPTURE(p.name, hlo::info(t).name, dims);
        for (const bool random : {false, true}) {
          runs().kernels = runs().chains = 0;
          CHECK(testing::difference(p.program, in_order(random), 7) == "");
          // Of gradients and f16 some are more than one.
          if (t == hlo::DType::kF16 || (p.name != "softmax" && p.name != "layer norm")) continue;
          CHECK(runs().kernels == 1);
          CHECK(runs().chains == 1);
        }
      }
}

TEST_CASE("rows that the threads of a block can hold are read once and written once",
          "[grid_programs][grid_chains]") {
  const EmittedKernels emitted;
  for (const hlo::DType t : {hlo::DType::kF16, hlo::DType::kBF16, hlo::DType::kF32, hlo::DType::kF64})
    for (const hlo::Dims& dims : {hlo::Dims{21, 128}, {700, 128}, {5, 3, 256}, {9, 768}, {3, 1024}, {2, 2048}})
      for (const RowProgram& p : row_programs(t, dims)) {
        CAPTURE(p.name, hlo::info(t).name, dims);
        const auto executable = *jit::Executable::compile(testing::cuda_device(), p.program);
        INFO(executable->describe());
        const bool held = executable->chains().size() == 1 &&
                          executable->chains()[0].last + 1 == std::ssize(executable->steps()) &&
                          executable->chains()[0].what.starts_with("each row held by");
        if (dims.back() <= 256 && (p.name == "softmax" || p.name == "layer norm")) CHECK(held);
        if (!held) continue;
        runs().traffic = {};
        runs().counted = p.program->parameters()[0].type()->bytes();
        CHECK(testing::difference(p.program, in_order(true), 7) == "");
        CHECK(runs().traffic.loaded == p.arrays_in * runs().counted);
        CHECK(runs().traffic.stored == p.arrays_out * runs().counted);
      }
}

namespace {

// Takes what the intrinsic does out of the code; of a shuffle threads get what is their own.
template <llvm::Intrinsic::ID kIntrinsic>
void forget(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& i : block)
        if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
            call && call->getIntrinsicID() == kIntrinsic)
          calls.push_back(call);
  for (llvm::IntrinsicInst* call : calls) {
    if (!call->getType()->isVoidTy()) call->replaceAllUsesWith(call->getArgOperand(1));
    call->eraseFromParent();
  }
}

// Rows less their sums.
ComputationPtr centred_rows(const hlo::Dims& dims) {
  hlo::Builder b;
  const hlo::Value x = hlo::make_parameter(*hlo::array_type(hlo::DType::kF32, dims));
  const hlo::Value sum = b.reduce_sum(x, {{1}});
  return *hlo::Computation::make({{x}}, {{b.subtract(x, b.broadcast_in_dim(sum, x.dims(), {{0}}))}});
}

}  // namespace

TEST_CASE("planted: threads of a chain that do not meet between kernels", "[grid_chains][planted]") {
  const EmittedKernels emitted;
  runs().change = forget<llvm::Intrinsic::nvvm_barrier0>;
  // A step that reads what other threads have made: rows are not held.
  hlo::Builder b;
  const hlo::Value x = hlo::make_parameter(*hlo::array_type(hlo::DType::kF32, hlo::Dims{5, 45}));
  const hlo::Value e = b.exponential(x), sum = b.reduce_sum(e, {{1}});
  const hlo::Value out = b.divide(b.reverse(e, {{1}}), b.broadcast_in_dim(sum, x.dims(), {{0}}));
  const ComputationPtr program = *hlo::Computation::make({{x}}, {{out}});
  CHECK_THAT((*jit::Executable::compile(testing::cuda_device(), program))->describe(),
             Catch::Contains("each step reads its rows anew"));
  int found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    found += testing::difference(program, in_order(true), seed) != "";
  CHECK(found > 0);
}

TEST_CASE("planted: threads that hold a row and do not hear of its sum", "[grid_chains][planted]") {
  const EmittedKernels emitted;
  runs().change = forget<llvm::Intrinsic::nvvm_shfl_sync_idx_i32>;
  CHECK(testing::difference(centred_rows({5, 45}), in_order(true), 7) != "");
}

TEST_CASE("planted: warps that hold a row and do not meet", "[grid_chains][planted]") {
  const EmittedKernels emitted;
  runs().change = forget<llvm::Intrinsic::nvvm_barrier0>;
  CHECK(testing::difference(centred_rows({5, 1000}), in_order(true), 7) != "");
}

TEST_CASE("planted: kernels of whole programs that write past the end", "[grid_programs][planted]") {
  const EmittedKernels emitted;
  runs().change = [](llvm::Module& module) {
    for (llvm::Function& f : module)
      for (llvm::BasicBlock& block : f)
        for (llvm::Instruction& i : block)
          if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
              store && store->getPointerAddressSpace() == 1) {
            llvm::IRBuilder<> b(store);
            store->setOperand(1, b.CreateConstGEP1_64(b.getInt8Ty(), store->getPointerOperand(), 1 << 20));
          }
  };
  int found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    found += difference(testing::random_program(seed), in_order(false), seed).find("outside of buffer") !=
             std::string::npos;
  CHECK(found > 10);
  testing::standin_violations();
}

}  // namespace lamina::grid
