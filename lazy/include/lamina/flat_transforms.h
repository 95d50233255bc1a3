// The library's side of the transforms, on flat lists of tensors; lamina/transforms.h puts trees around it.
#ifndef LAMINA_FLAT_TRANSFORMS_H_
#define LAMINA_FLAT_TRANSFORMS_H_

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina::detail {

// A function on lists of tensors.
class FlatFunction {
 public:
  FlatFunction() = default;
  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, FlatFunction>) FlatFunction(F f)
      : call_(new Call<F>(std::move(f))) {}  // NOLINT: implicit on purpose
  std::vector<Tensor> operator()(const std::vector<Tensor>& x) const { return call_->run(x); }

 private:
  struct AnyCall : Counted {
    virtual std::vector<Tensor> run(const std::vector<Tensor>& x) const = 0;
  };
  template <typename F>
  struct Call final : AnyCall {
    explicit Call(F f) : function(std::move(f)) {}
    std::vector<Tensor> run(const std::vector<Tensor>& x) const override { return function(x); }
    F function;
  };
  Ref<AnyCall> call_;
};

// A function traced for the types of `like`, compiled when it is first called.
class FlatProgram {
 public:
  FlatProgram(const FlatFunction& f, const std::vector<Tensor>& like, std::string name,
              std::source_location where);
  std::vector<Tensor> call(const std::vector<Tensor>& arguments) const;

 private:
  Ref<Counted> program_;
};
// What was traced, by signature; used from any thread.
class TraceTable {
 public:
  TraceTable();
  Ref<Counted> find(const std::string& key) const;  // null if there is none
  // Keeps `trace` unless there is one already; gives what is kept.
  Ref<Counted> insert(std::string key, const Ref<Counted>& trace) const;
  int64_t size() const;

 private:
  Ref<Counted> table_;
};
// Element type, shape and weakness of each: what a specialization depends on.
std::string signature(const std::vector<Tensor>& tensors);
struct FlatPullback {
  std::vector<Tensor> outputs;
  FlatFunction pull_back;
};
FlatPullback flat_vjp(const FlatFunction& f, const std::vector<Tensor>& primals, std::source_location where);
std::pair<std::vector<Tensor>, std::vector<Tensor>> flat_jvp(const FlatFunction& f,
                                                             const std::vector<Tensor>& primals,
                                                             const std::vector<Tensor>& tangents,
                                                             std::source_location where);
// batched[i]: whether argument i carries the batch at dimension 0.
std::vector<Tensor> flat_vmap(const FlatFunction& f, const std::vector<Tensor>& arguments,
                              const std::vector<bool>& batched, std::source_location where);
std::vector<Tensor> flat_checkpoint(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                    std::source_location where);
// Throws unless `value` is a real float without dimensions.
Tensor unit_cotangent(const Tensor& value, std::source_location where);
[[noreturn]] void fail_at(ErrorKind kind, const std::string& message, std::source_location where);

}  // namespace lamina::detail

#pragma GCC visibility pop

#endif  // LAMINA_FLAT_TRANSFORMS_H_
