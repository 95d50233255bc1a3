// Plan files: a compiled program with its machine code in one file, for processes without a code generator.
//
// Contract: a loaded plan gives the bits that the saved function gives, and compiles nothing: liblamina_llvm
// is neither needed nor opened. Files are data, checked before anything of them is used, but the machine code
// in them is executed, and the checksum tells of damage, not of who wrote it: load files that you would run.
// Python writes and reads the same files (Compiled.save, lamina.plans); its containers are lists here, in the
// order of tree leaves.
#ifndef LAMINA_PLAN_H_
#define LAMINA_PLAN_H_

#include <source_location>
#include <string>
#include <vector>

#include "lamina/flat_transforms.h"
#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina {

class Plan {
 public:
  using Where = std::source_location;
  // An argument or result; the path is what the one who saved it called it ("params['w']"), or empty.
  struct Array {
    std::string path;
    DType dtype;
    Shape shape;
  };

  // Error (kValue) if it is no plan file, damaged, or of another version; (kRuntime) if it cannot be read.
  static Plan load(const std::string& path, Where where = Where::current());

  // Outside of transforms, with tensors of the arguments' shapes and element types.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments, Where where = Where::current()) const;

  const std::string& name() const { return name_; }
  const std::vector<Array>& arguments() const { return arguments_; }
  const std::vector<Array>& results() const { return results_; }
  // Why kernels are compiled or interpreted here after all, with the same results: the file's machine code is
  // for another machine, say. Empty where it serves.
  const std::string& slow() const { return slow_; }

 private:
  Plan() = default;
  std::string name_, slow_;
  std::vector<Array> arguments_, results_;
  detail::Ref<detail::Counted> program_;
};

// Traces f on tensors like these, compiles it with all its kernels and writes it. `path` holds the whole file
// or what it held before. Values that f uses from outside are those of now. Error (kNotImplemented) if f
// calls back into this process, (kRuntime) if there is no code generator or the file cannot be written.
void save_plan(const std::string& path, const detail::FlatFunction& f, const std::vector<Tensor>& like,
               std::source_location where = std::source_location::current());

}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_PLAN_H_
