#include "tests/smith/executors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "hlo/verifier.h"
#include "jit/client/threads.h"
#include "jit/cpu/client.h"
#include "jit/fake/client.h"
#include "jit/program/executable.h"
#include "lazy/delivery.h"
#include "lazy/lazy.h"
#include "lazy/placement.h"
#include "lazy/transforms.h"
#include "tests/jit/cuda_testing.h"
#include "tests/jit/host_data.h"
#include "tests/smith/text_cases.h"
#include "trace/vmap.h"

namespace lamina::testing {
namespace {

using namespace hlo;
using Results = absl::StatusOr<Literals>;
using Arguments = std::span<const LiteralPtr>;

// How programs are run: the code generator, or the interpreting tier alone; the number of threads.
struct Settings {
  std::string llvm_path;
  bool compiled = false;
  int threads = 1;
};

class ScopedSettings {
 public:
  explicit ScopedSettings(const Settings& s) : limit_(s.threads) {
    jit::CpuClient::get().kernels().set_generator_options(
        {.library_path = s.llvm_path, .cpu = {}, .features = {}});
    jit::CpuClient::get().kernels().set_compiling(s.compiled);
    jit::CpuClient::get().kernels().set_eager(s.compiled);
    if (s.threads > 1) jit::CpuClient::get().pool().set_least_parallel_work(0);
  }
  ~ScopedSettings() {
    jit::CpuClient::get().kernels().set_compiling(true);
    jit::CpuClient::get().kernels().set_eager(false);
    jit::CpuClient::get().pool().set_least_parallel_work(jit::ThreadPool::kLeastParallelWork);
  }

 private:
  jit::ScopedThreadLimit limit_;
};

Results run_executable(const ComputationPtr& program, Arguments arguments, const Settings& settings) {
  ScopedSettings scope(settings);
  const auto executable = jit::Executable::compile(jit::host_device(), program);
  if (!executable.ok()) return executable.status();
  std::vector<jit::BufferRef> buffers, results;
  for (const LiteralPtr& a : arguments) {
    buffers.push_back(*jit::host_device().memory().allocate(a->bytes()));
    if (a->bytes() > 0) std::memcpy(host_data(buffers.back()), a->data(), a->bytes());
  }
  if (absl::Status s = (*executable)->run(buffers, results); !s.ok()) return s;
  if (!jit::CpuClient::get().kernels().unavailable().empty())
    return absl::InternalError(jit::CpuClient::get().kernels().unavailable());
  Literals out;
  for (size_t i = 0; i < results.size(); ++i)
    out.push_back(Literal::copy_of(program->roots()[i].type(), host_data(results[i])));
  // Arguments are never written.
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i]->bytes() > 0 &&
        std::memcmp(host_data(buffers[i]), arguments[i]->data(), arguments[i]->bytes()) != 0)
      return absl::InternalError(str_cat("argument ", i, " was written"));
  return out;
}

// On a device that runs later. Nothing is left of the run when it returns.
Results run_later(jit::Device& device, const jit::Executable& executable, const ComputationPtr& program,
                  Arguments arguments, bool giving_up) {
  jit::Client& client = device.client();
  std::vector<jit::BufferRef> buffers, results;
  for (const LiteralPtr& a : arguments) {
    auto buffer = client.put(device, a->data(), a->bytes());
    if (!buffer.ok()) return buffer.status();
    buffers.push_back(*std::move(buffer));
  }
  if (absl::Status s =
          giving_up ? executable.run_giving_up(buffers, results) : executable.run(buffers, results);
      !s.ok())
    return s;
  std::vector<std::shared_ptr<Literal>> read;
  std::vector<jit::Client::Read> reads;
  const auto add = [&](const Type* type, const jit::BufferRef& from) {
    read.push_back(std::make_shared<Literal>(type));
    reads.push_back({&*from, 0, type->bytes(), read.back()->data()});
  };
  for (size_t i = 0; i < results.size(); ++i) add(program->roots()[i].type(), results[i]);
  for (size_t i = 0; i < arguments.size() && !giving_up; ++i) add(arguments[i]->type(), buffers[i]);
  if (absl::Status s = client.read(reads, nullptr); !s.ok()) return s;
  for (size_t i = 0; i < arguments.size() && !giving_up; ++i)
    if (std::memcmp(read[read.size() - arguments.size() + i]->data(), arguments[i]->data(),
                    static_cast<size_t>(arguments[i]->bytes())) != 0)
      return absl::InternalError(str_cat("argument ", i, " was written"));
  return Literals(read.begin(), read.begin() + static_cast<ptrdiff_t>(program->roots().size()));
}

// On the fake device, whose queues run in the order of the seed; an op or two are left to the host.
Results run_fake(const ComputationPtr& program, Arguments arguments, uint64_t seed,
                 const Settings& settings) {
  ScopedSettings scope(settings);
  jit::FakeClient& client = jit::FakeClient::get();
  jit::Device& device = *client.devices()[seed % 2];
  client.queues().set_seed(seed);
  client.refuse(seed % 3 == 0 ? std::vector<Op>{Op::dot_general, Op::sort, Op::gather} : std::vector<Op>());
  const auto executable = jit::Executable::compile(device, program);
  client.refuse({});
  if (!executable.ok()) return executable.status();
  Results results = run_later(device, **executable, program, arguments, seed % 5 == 0);
  client.queues().drain();
  for (const std::string& v : client.queues().take_violations()) return absl::InternalError(v);
  return results;
}

// On a CUDA device. On the stand-in for the driver streams run in the order of the seed.
Results run_cuda(const ComputationPtr& program, Arguments arguments, uint64_t seed,
                 const Settings& settings) {
  ScopedSettings scope(settings);
  const auto devices = cuda_client().devices();
  jit::Device& device = *devices[seed % devices.size()];
  if (standin()) standin()->set_seed(seed);
  cuda_client().kernels().set_library(settings.llvm_path);
  const ScopedLeastWork products(least_work_with_bits(seed % 2 == 1 ? 0 : jit::cuda::Products::kLeastWork));
  const ScopedPlainRuns graphs_later(seed % 4 < 2 ? 0 : jit::cuda::kPlainRuns);
  const auto executable = jit::Executable::compile(device, program);
  if (!executable.ok()) return executable.status();
  Results results = run_later(device, **executable, program, arguments, seed % 5 == 0);
  if (standin())
    for (const std::string& v : standin_violations()) return absl::InternalError(v);
  return results;
}

// Prints, parses and evaluates.
Results run_text(const ComputationPtr& program, Arguments arguments, uint64_t) {
  const auto back = parse(print(*program));
  if (!back.ok()) return back.status();
  if (*back != program) return absl::InternalError("another program was read back");
  return evaluate(**back, arguments);
}

Results run_pass(const Pass& pass, const ComputationPtr& program, Arguments arguments) {
  const auto after = pass.run(program);
  if (!after.ok()) return after.status();
  if (absl::Status s = verify(**after); !s.ok()) return s;
  const auto again = pass.run(*after);
  if (!again.ok() || *again != *after) return absl::InternalError("the pass is not idempotent");
  return evaluate(**after, arguments);
}

// `program` recorded anew, `make` standing for each node.
template <typename Make>
absl::StatusOr<Values> record(const Computation& program, Values parameters, const Make& make) {
  absl::flat_hash_map<const Node*, Values> made;
  for (size_t i = 0; i < parameters.size(); ++i) made[program.parameters()[i].node()] = {parameters[i]};
  for (const Node* n : program.nodes()) {
    if (made.contains(n)) continue;
    Values operands;
    for (Operand o : n->operands()) operands.push_back(made.at(o.node())[o.index()]);
    absl::StatusOr<Values> results = make(*n, operands);
    if (!results.ok()) return results;
    made[n] = *std::move(results);
  }
  Values roots;
  for (const Value& r : program.roots()) roots.push_back(made.at(r.node())[r.index()]);
  return roots;
}

// With barriers at random places: nothing is fused across one.
Results run_cut(const ComputationPtr& program, Arguments arguments, uint64_t seed, const Settings& settings) {
  std::mt19937_64 random(seed);
  GraphLock lock;
  Builder b;
  Values parameters(program->parameters().begin(), program->parameters().end());
  const auto roots =
      record(*program, parameters, [&](const Node& n, const Values& operands) -> absl::StatusOr<Values> {
        Values results = b.remake(n, operands);
        if (!b.ok()) return b.status();
        if (random() % 3 != 0) return results;
        results = b.make_multi(Op::optimization_barrier, results,
                               intern_attrs({{Attr::instance, static_cast<int64_t>(random() % 1000)}}));
        return b.ok() ? absl::StatusOr<Values>(results) : b.status();
      });
  if (!roots.ok()) return roots.status();
  const auto cut = Computation::make(program->parameters(), *roots);
  if (!cut.ok()) return cut.status();
  // An equal computation may have been recorded before, with parameters of its own.
  return run_executable(*cut, arguments, settings);
}

Literals literals_of(std::span<const Value> values) {
  Literals out;
  for (const Value& v : values) out.push_back(Literal::copy_of(v.type(), lazy::host_bytes(*lazy::array(v))));
  return out;
}

Values leaves_of(Arguments arguments) {
  Values out;
  for (const LiteralPtr& a : arguments)
    out.push_back(lazy::from_host(a->dtype(), a->type()->dims, a->data()));
  return out;
}

// Recorded on arrays and forced at random places, so that the cuts fall anywhere.
Results run_lazily(const ComputationPtr& program, Arguments arguments, uint64_t seed,
                   const Settings& settings) {
  ScopedSettings scope(settings);
  std::mt19937_64 random(seed);
  Builder b;
  const auto roots = record(*program, leaves_of(arguments),
                            [&](const Node& n, const Values& operands) -> absl::StatusOr<Values> {
                              Values results = b.remake(n, operands);
                              if (!b.ok()) return b.status();
                              if (random() % 5 == 0) lazy::force({{results[random() % results.size()]}});
                              return results;
                            });
  if (!roots.ok()) return roots.status();
  return literals_of(*roots);
}

// The same, each op on a device that is drawn, to which what lies elsewhere is brought: the fake ones, whose
// queues run in the order of the seed, and the host's. Any of them is the default device.
Results run_mixed(const ComputationPtr& program, Arguments arguments, uint64_t seed,
                  const Settings& settings) {
  ScopedSettings scope(settings);
  std::mt19937_64 random(seed);
  jit::FakeClient& client = jit::FakeClient::get();
  client.queues().set_seed(seed);
  const std::array devices{client.devices()[0], client.devices()[1], &jit::host_device()};
  const auto any = [&]() -> jit::Device& { return *devices[random() % devices.size()]; };
  const auto put = [](const Value& v, jit::Device& device) { return lazy::put_on({v, false}, device).value; };
  jit::Device* const usual = lazy::set_default_device(&any());
  absl::Cleanup restore = [&] { lazy::set_default_device(usual); };
  Builder b;
  Values parameters = leaves_of(arguments);
  for (Value& p : parameters)
    if (random() % 4 != 0) p = put(p, any());
  const auto roots =
      record(*program, parameters, [&](const Node& n, Values operands) -> absl::StatusOr<Values> {
        const auto bound = std::find_if(operands.begin(), operands.end(),
                                        [](const Value& v) { return v.node()->place() != kAnywhere; });
        const bool stays = random() % 2 == 0;
        jit::Device& here = bound != operands.end() && stays ? lazy::device_of(*bound) : any();
        for (Value& v : operands)
          if (v.node()->place() != kAnywhere || random() % 4 == 0) v = put(v, here);
        Values results = b.remake(n, operands);
        if (!b.ok()) return b.status();
        if (random() % 5 == 0) lazy::force({{results[random() % results.size()]}});
        return results;
      });
  if (!roots.ok()) return roots.status();
  Literals results = literals_of(*roots);
  client.queues().drain();
  for (const std::string& v : client.queues().take_violations()) return absl::InternalError(v);
  return results;
}

// Traced as jit does, called twice.
Results run_jitted(const ComputationPtr& program, Arguments arguments, const Settings& settings) {
  ScopedSettings scope(settings);
  std::vector<lazy::Lazy> args;
  for (const Value& v : leaves_of(arguments)) args.push_back({v, false});
  const lazy::FlatFunction f = [&](const std::vector<lazy::Lazy>& inputs) {
    Builder b;
    Values operands;
    for (const lazy::Lazy& x : inputs) operands.push_back(x.value);
    std::vector<lazy::Lazy> out;
    for (const Value& v : inline_computation(b, *program, operands)) out.push_back({v, false});
    return out;
  };
  std::vector<lazy::Typed> types;
  for (const Type* t : program->parameter_types()) types.push_back({t, false});
  lazy::Program traced(f, types, "smith", "");
  Values results;
  for (int call = 0; call < 2; ++call) {
    results.clear();
    for (const lazy::Lazy& x : traced.call(args)) results.push_back(x.value);
  }
  return literals_of(results);
}

// Three lanes at once: the program's own arguments and two others. Each lane has to have the bits of a run
// alone.
Results run_batched(const ComputationPtr& program, Arguments arguments, uint64_t seed,
                    const Settings& settings) {
  constexpr int64_t kLanes = 3;
  std::mt19937_64 random(seed);
  std::vector<Literals> lanes{Literals(arguments.begin(), arguments.end())};
  for (int64_t k = 1; k < kLanes; ++k) lanes.push_back(arguments_for(*program, seed + 1000 * k));
  GraphLock lock;
  absl::InlinedVector<bool, 8> batched;
  Values values;
  Literals joined;
  for (size_t i = 0; i < arguments.size(); ++i) {
    batched.push_back(random() % 3 != 0);
    const Type* t = arguments[i]->type();
    if (!batched[i]) {
      for (Literals& lane : lanes) lane[i] = arguments[i];
      joined.push_back(arguments[i]);
    } else {
      std::vector<std::byte> bytes;
      for (const Literals& lane : lanes)
        bytes.insert(bytes.end(), lane[i]->element(0), lane[i]->element(0) + lane[i]->bytes());
      Dims dims = t->dims;
      dims.insert(dims.begin(), kLanes);
      t = array_type_or_die(t->dtype, dims);
      joined.push_back(Literal::copy_of(t, bytes.data()));
    }
    values.push_back(make_parameter(t));
  }
  const auto outputs = trace::vmap(program->roots(), program->parameters(), values, batched, kLanes);
  if (!outputs.ok()) return outputs.status();
  const auto together = Computation::make(values, *outputs);
  if (!together.ok()) return together.status();
  const Results all =
      settings.compiled ? run_executable(*together, joined, settings) : evaluate(**together, joined);
  if (!all.ok()) return all;
  Literals first;
  for (int64_t k = 0; k < kLanes; ++k) {
    const Results alone = evaluate(*program, lanes[k]);
    if (!alone.ok()) return alone;
    for (size_t r = 0; r < alone->size(); ++r) {
      const Literal& want = *(*alone)[r];
      const LiteralPtr have = Literal::copy_of(want.type(), (*all)[r]->element(0) + k * want.bytes());
      if (k == 0)
        first.push_back(have);
      else if (!same_values(want, *have))
        return absl::InternalError(str_cat("result ", r, " of lane ", k, " differs from a run alone"));
    }
  }
  return first;
}

}  // namespace

std::vector<SmithExecutor> smith_executors(const std::string& llvm_path) {
  const Settings interpreted{llvm_path, false, 1}, compiled{llvm_path, true, 1},
      threaded{llvm_path, false, 2};
  std::vector<SmithExecutor> all{{"text", SmithGroup::kText, run_text}};
  for (const Pass& pass : passes())
    all.push_back({std::string(pass.name), SmithGroup::kPass,
                   [&pass](const ComputationPtr& p, Arguments a, uint64_t) { return run_pass(pass, p, a); }});
  auto add = [&](std::string name, SmithGroup group, Settings settings, auto run) {
    all.push_back(
        {std::move(name), group, [run, settings](const ComputationPtr& p, Arguments a, uint64_t seed) {
           return run(p, a, seed, settings);
         }});
  };
  const auto plain = [](const ComputationPtr& p, Arguments a, uint64_t, const Settings& s) {
    return run_executable(p, a, s);
  };
  const auto jitted = [](const ComputationPtr& p, Arguments a, uint64_t, const Settings& s) {
    return run_jitted(p, a, s);
  };
  add("interpreted", SmithGroup::kRun, interpreted, plain);
  add("two threads", SmithGroup::kRun, threaded, plain);
  add("fake device", SmithGroup::kRun, interpreted, run_fake);
  add("CUDA device", SmithGroup::kCuda, interpreted, run_cuda);
  add("compiled", SmithGroup::kCompiled, compiled, plain);
  add("cut anywhere", SmithGroup::kRun, interpreted, run_cut);
  add("lazy", SmithGroup::kRun, interpreted, run_lazily);
  add("mixed devices", SmithGroup::kRun, interpreted, run_mixed);
  add("jit", SmithGroup::kRun, interpreted, jitted);
  add("vmap", SmithGroup::kBatch, interpreted, run_batched);
  return all;
}

}  // namespace lamina::testing
