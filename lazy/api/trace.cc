// What C++ callables record.
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"
#include "lazy/control.h"
#include "lazy/escape.h"

namespace lamina::detail {
namespace {

struct Closure final : Counted {
  std::vector<lazy::Typed> arguments, results;
  hlo::ComputationPtr region;
  std::vector<lazy::Lazy> captured;
  std::vector<const hlo::Type*> captured_types;
  std::vector<bool> taken;  // by captured value: whether it is an argument
};

bool depends(const lazy::Lazy& x) {
  return hlo::is_inexact(x.value.dtype()) && (!lazy::forceable(x.value) || lazy::differentiated(x.value));
}

}  // namespace

FlatClosure::FlatClosure(const FlatFunction& f, const std::vector<Tensor>& like, bool all,
                         std::source_location where)
    : closure_(located(where, [&] {
        const Ref<Closure> made(new Closure);
        made->arguments = lazy::types_of(lazies(like));
        made->region = lazy::region(inner(f), made->arguments, &made->captured, &made->results);
        for (const lazy::Lazy& x : made->captured) {
          made->captured_types.push_back(x.value.type());
          made->taken.push_back(all || depends(x));
        }
        return Ref<Counted>(made);
      })) {}

std::vector<Tensor> FlatClosure::take_captured() {
  auto& c = static_cast<Closure&>(*closure_);
  std::vector<lazy::Lazy> out;
  for (size_t i = 0; i < c.captured.size(); ++i)
    if (c.taken[i]) out.push_back(std::exchange(c.captured[i], {}));
  return tensors(std::move(out));
}

std::vector<Tensor> FlatClosure::call(const std::vector<Tensor>& arguments_and_captured) const {
  const auto& c = static_cast<const Closure&>(*closure_);
  const std::vector<lazy::Lazy> given = lazies(arguments_and_captured);
  const size_t n = c.arguments.size(),
               wanted = n + static_cast<size_t>(std::count(c.taken.begin(), c.taken.end(), true));
  if (given.size() != wanted)
    fail(ErrorKind::kValue, str_cat("a converted function takes ", static_cast<int64_t>(wanted),
                                    " tensors, not ", static_cast<int64_t>(given.size())));
  hlo::Builder b;
  std::vector<lazy::Lazy> operands;
  const auto take = [&](const lazy::Lazy& x, const hlo::Type* type) {
    if (x.value.dims() != type->dims)
      fail(ErrorKind::kType,
           str_cat("a function converted for ", hlo::to_string(*type), " was called with ", describe(x)));
    operands.push_back(
        x.value.dtype() == type->dtype ? x : lazy::Lazy{lazy::converted(b, x, type->dtype), false});
  };
  for (size_t i = 0; i < n; ++i) take(given[i], c.arguments[i].type);
  size_t next = n;
  for (size_t i = 0; i < c.captured.size(); ++i) {
    if (c.taken[i])
      take(given[next++], c.captured_types[i]);
    else
      operands.push_back(c.captured[i]);
  }
  lazy::check(b.status());
  return tensors(lazy::call_region(c.region, std::move(operands), c.results));
}

std::vector<Tensor> flat_result_types(const FlatFunction& f, const std::vector<Tensor>& like,
                                      std::source_location where) {
  return located(where, [&] {
    std::vector<lazy::Lazy> captured;
    std::vector<lazy::Typed> results;
    bool effects = false;
    lazy::region(inner(f), lazy::types_of(lazies(like)), &captured, &results, true, &effects);
    hlo::Builder b;
    std::vector<lazy::Lazy> out;
    for (const lazy::Typed& t : results) out.push_back({b.zeros(t.type), t.weak});
    lazy::check(b.status());
    return tensors(std::move(out));
  });
}

FlatTrace flat_trace(const FlatFunction& f, const std::vector<Tensor>& like, std::source_location where) {
  return located(where, [&] {
    std::vector<lazy::Lazy> captured;
    std::vector<lazy::Typed> results;
    bool effects = false;
    const hlo::ComputationPtr made =
        lazy::region(inner(f), lazy::types_of(lazies(like)), &captured, &results, false, &effects);
    FlatTrace out;
    out.text = hlo::print(*made);
    for (const hlo::Node* n : made->nodes()) {
      if (n->op() == hlo::Op::parameter || n->op() == hlo::Op::constant) continue;
      std::string types;
      for (uint32_t i = 0; i < n->num_results(); ++i) {
        const hlo::Type& t = *n->result_type(i);
        str_append(&types, i ? ", " : "", hlo::info(t.dtype).numpy_name, hlo::dims_to_string(t.dims));
      }
      const hlo::Location at = hlo::location(n->location());
      out.operations.push_back({std::string(n->def().name), std::move(types),
                                at.line ? str_cat(at.file, ":", static_cast<int64_t>(at.line)) : ""});
    }
    return out;
  });
}

}  // namespace lamina::detail
