#include "lazy/nan_check.h"

#include "hlo/nan_search.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/lazy.h"
#include "lazy/location_text.h"
#include "lazy/placement.h"

namespace lamina::lazy {
namespace {

hlo::LiteralPtr literal_of(const hlo::Type* type, const jit::BufferRef& buffer) {
  return hlo::Literal::copy_of(type, host_bytes(jit::Array(type, buffer)));
}

}  // namespace

bool& nan_checks() {
  thread_local bool on = false;
  return on;
}

void check_nan(const hlo::Computation& program, std::span<const jit::BufferRef> arguments,
               std::span<const jit::BufferRef> results) {
  bool any = false;
  for (size_t i = 0; i < results.size() && !any; ++i) {
    const hlo::Type* type = program.roots()[i].type();
    any = type->is_array() && hlo::has_nan(*literal_of(type, results[i]));
  }
  if (!any) return;
  if (arguments.empty() && !program.parameters().empty())
    throw Error(ErrorKind::kFloatingPoint,
                "invalid value (nan) among the results of a call that was given its arguments; which "
                "operation made it "
                "is told where they are not donated");
  std::vector<hlo::LiteralPtr> given;
  for (size_t i = 0; i < arguments.size(); ++i)
    given.push_back(literal_of(program.parameters()[i].type(), arguments[i]));
  const hlo::Node* n = check(hlo::first_nan(program, given));
  if (!n) return;
  throw Error(ErrorKind::kFloatingPoint, str_cat("invalid value (nan) encountered in ", n->def().name, " of ",
                                                 hlo::to_string(*n->type()), location_text(n->location())));
}

}  // namespace lamina::lazy
