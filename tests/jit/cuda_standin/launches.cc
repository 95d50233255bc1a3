// What kernels do that the stand-in for the CUDA driver launches (control.h).
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "tests/jit/cuda_standin/state.h"

namespace standins {
namespace {

using lamina::str_cat;
using lamina::jit::cuda::OpaqueFunction;
using Access = Queues::Access;

// From there to the end of its block.
int64_t bytes_after(DevicePointer at) {
  std::lock_guard lock(standin().mutex);
  auto block = standin().blocks.upper_bound(at);
  if (block == standin().blocks.begin()) return 0;
  --block;
  return std::max<int64_t>(
      static_cast<int64_t>(block->first) + block->second.bytes - static_cast<int64_t>(at), 0);
}

void run_by(const char* (*runner)(const StandinRun*), const KernelTwin& twin,
            std::span<const uint64_t> values, const std::vector<int64_t>& bytes) {
  const std::vector<int64_t> args = twin.args(values);
  std::vector<char*> buffers;
  for (size_t i : twin.addresses()) buffers.push_back(reinterpret_cast<char*>(values[i]));
  const auto [rows, block_rows] = twin.rows(values);
  const StandinRun run{twin.kernel_text().c_str(),
                       twin.schedule_text().c_str(),
                       args.data(),
                       static_cast<int>(args.size()),
                       static_cast<int>(buffers.size()),
                       buffers.data(),
                       bytes.data(),
                       rows,
                       block_rows};
  if (const std::string fault = runner(&run); !fault.empty()) standin().violation(fault);
}

Result work_of_twin(const OpaqueFunction& function, unsigned blocks, unsigned threads, void** parameters,
                    Work* work) {
  const std::shared_ptr<const KernelTwin> twin = function.twin;
  std::vector<uint64_t> values(twin->parameters());
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], sizeof values[i]);
  if (std::string why = twin->refusal(function.entry, values, blocks, threads); !why.empty()) {
    standin().violation(std::move(why));
    return Result::kInvalidValue;
  }
  const std::vector<size_t> addresses = twin->addresses();
  std::vector<int64_t> bytes = twin->bytes(values);
  const std::vector<bool> is_held = twin->are_held(), is_nowhere = twin->are_made_held(values);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] < 0) bytes[i] = bytes_after(values[addresses[i]]);
  *work = {Queues::Kind::kLaunch, str_cat("kernel ", function.entry), twin->touches(function.entry, values),
           [=, entry = function.entry] {
             std::vector<uint64_t> pointers = values;
             // What is held lies elsewhere for the interpreter, and nowhere for the kernel as it is emitted.
             std::map<uint64_t, std::vector<char>> held;
             std::vector<int64_t> reached = bytes;
             for (size_t i = 0; i < addresses.size(); ++i) {
               if (is_held[i]) reached[i] = 0;
               if (!is_nowhere[i]) continue;
               std::vector<char>& own = held[values[addresses[i]]];
               own.resize(std::max(own.size(), static_cast<size_t>(bytes[i])));
             }
             for (size_t i = 0; i < addresses.size(); ++i)
               pointers[addresses[i]] = is_nowhere[i]
                                            ? reinterpret_cast<uintptr_t>(held[values[addresses[i]]].data())
                                            : reinterpret_cast<uintptr_t>(bytes_at(values[addresses[i]]));
             if (!standin().runner)
               twin->run(entry, pointers);
             else if (twin->does_all(entry))
               run_by(standin().runner, *twin, pointers, reached);
           }};
  return Result::kSuccess;
}

}  // namespace

bool is_loaded(FunctionHandle function) {
  std::lock_guard lock(standin().mutex);
  return standin().functions.contains(function);
}

Result work_of(FunctionHandle function, const unsigned* grid, const unsigned* block, void** parameters,
               Work* work) {
  if (grid[0] == 0 || grid[1] != 1 || grid[2] != 1 || block[0] == 0 || block[0] > 1024 || block[1] != 1 ||
      block[2] != 1)
    return Result::kInvalidValue;
  const unsigned blocks = grid[0], threads = block[0];
  if (function->twin) {
    const Result result = work_of_twin(*function, blocks, threads, parameters, work);
    work->function = function;
    return result;
  }
  const StandinKernel kernel = function->kernel;
  std::vector<uint64_t> values(static_cast<size_t>(kernel.parameters));
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], sizeof values[i]);
  struct Sink {
    const std::vector<uint64_t>& values;
    std::vector<Queues::Touch> touches;
  } sink{values, {}};
  kernel.touch(values.data(), &sink, [](void* to, int parameter, int64_t bytes, bool is_written) {
    auto& s = *static_cast<Sink*>(to);
    s.touches.push_back({lamina::jit::Address(s.values[static_cast<size_t>(parameter)]), bytes,
                         is_written ? Access::kWrite : Access::kRead});
  });
  *work = {Queues::Kind::kLaunch, str_cat("kernel ", kernel.name), std::move(sink.touches),
           [=] {
             std::vector<uint64_t> pointers = values;
             for (size_t i = 0; i < static_cast<size_t>(kernel.buffers); ++i)
               pointers[i] = reinterpret_cast<uintptr_t>(bytes_at(values[i]));
             kernel.run(pointers.data(), blocks, threads);
           },
           function};
  return Result::kSuccess;
}

}  // namespace standins
