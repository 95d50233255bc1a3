#include "lazy/transforms.h"

#include <cstdint>
#include <cstring>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"
#include "lazy/api/index_checks.h"
#include "lazy/axes.h"
#include "lazy/recursion.h"

namespace lamina::detail {
namespace {

// Cotangents and tangents: one of the value's type for each; none stands for zero.
std::vector<lazy::Lazy> derivatives_for(const std::vector<Tensor>& given,
                                        const std::vector<lazy::Lazy>& values, const char* what) {
  if (given.size() != values.size())
    fail(ErrorKind::kValue, str_cat(what, ": ", static_cast<int64_t>(given.size()), " tensors for ",
                                    static_cast<int64_t>(values.size()), " values"));
  hlo::Builder b;
  std::vector<lazy::Lazy> out;
  for (size_t i = 0; i < given.size(); ++i) {
    const hlo::Value& value = values[i].value;
    if (!given[i].defined()) {
      out.push_back({b.zeros_like(value), false});
      continue;
    }
    const lazy::Lazy x = lazy_of(given[i]);
    if (x.value.dims() != value.dims())
      fail(ErrorKind::kValue, str_cat(what, ": ", describe(x), " for a value ", describe(values[i])));
    out.push_back(hlo::is_inexact(value.dtype()) ? x : lazy::Lazy{b.convert(x.value, value.dtype()), false});
  }
  lazy::check(b.status());
  return out;
}

// The dimension that `axis` names, which may count from the end.
int64_t checked_axis(const Tensor& x, int64_t axis, const char* what) {
  const int64_t rank = static_cast<int64_t>(x.shape().size());
  if (axis < -rank || axis >= rank)
    fail(ErrorKind::kValue,
         str_cat("vmap: ", what, " names dimension ", axis, " of a tensor ", describe(lazy_of(x))));
  return axis < 0 ? axis + rank : axis;
}
Tensor with_dimension_at(const Tensor& x, int64_t from, int64_t to, std::source_location where) {
  if (from == to) return x;
  Axes order;
  for (int64_t d = 0; d < static_cast<int64_t>(x.shape().size()); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return x.transpose(order, where);
}

}  // namespace

void fail_at(ErrorKind kind, const std::string& message, std::source_location where) {
  throw PlacedError(kind, message, where);
}

std::string signature(const std::vector<Tensor>& all) {
  std::string out;
  for (const Tensor& t : all) {
    const lazy::Lazy& x = lazy_of(t);
    // Types are interned: the address stands for element type and shape.
    const auto address = reinterpret_cast<uintptr_t>(x.value.type());
    char bytes[sizeof address + 1];
    std::memcpy(bytes, &address, sizeof address);
    bytes[sizeof address] = static_cast<char>('0' + x.weak);
    out.append(bytes, sizeof bytes);
  }
  out.push_back(static_cast<char>(hlo::record_state().mode));
  if (const uint32_t defaults = lazy::default_types().key()) out += std::to_string(defaults);
  if (const uint64_t axes = lazy::axes_key()) str_append(&out, "@", static_cast<int64_t>(axes));
  if (const int64_t recursion = lazy::recursion_key()) str_append(&out, "r", recursion);
  if (checking_indices()) out += "i";
  return out;
}

namespace {
struct TracedProgram final : Counted {
  template <typename... A>
  explicit TracedProgram(A&&... a) : program(std::forward<A>(a)...) {}
  lazy::Program program;
};
struct Table final : Counted {
  HashMap<std::string, Ref<Counted>> map;
};
// Of all tables: held for one look into a map.
hlo::Mutex& table_mutex() {
  static constinit hlo::Once<hlo::Mutex> mutex;
  return mutex.get([] { return new hlo::Mutex(hlo::LockRank::kTraces); });
}
}  // namespace

FlatProgram::FlatProgram(const FlatFunction& f, const std::vector<Tensor>& like, std::string name,
                         std::source_location where)
    : program_(located(where, [&] {
        std::vector<lazy::Typed> types;
        for (const lazy::Lazy& x : lazies(like)) types.push_back({x.value.type(), x.weak});
        std::string place = str_cat(where.file_name(), ":", static_cast<int64_t>(where.line()));
        return Ref<Counted>(new TracedProgram(inner(f), types, std::move(name), std::move(place)));
      })) {}

std::vector<Tensor> FlatProgram::call(const std::vector<Tensor>& arguments) const {
  return tensors(static_cast<TracedProgram&>(*program_).program.call(lazies(arguments)));
}

TraceTable::TraceTable() : table_(new Table) {}
Ref<Counted> TraceTable::find(const std::string& key) const {
  auto& table = static_cast<Table&>(*table_);
  std::lock_guard lock(table_mutex());
  const auto found = table.map.find(key);
  return found == table.map.end() ? Ref<Counted>() : found->second;
}
Ref<Counted> TraceTable::insert(std::string key, const Ref<Counted>& trace) const {
  auto& table = static_cast<Table&>(*table_);
  std::lock_guard lock(table_mutex());
  return table.map.try_emplace(std::move(key), trace).first->second;
}
int64_t TraceTable::size() const {
  auto& table = static_cast<Table&>(*table_);
  std::lock_guard lock(table_mutex());
  return static_cast<int64_t>(table.map.size());
}

FlatPullback flat_vjp(const FlatFunction& f, const std::vector<Tensor>& primals, std::source_location where) {
  return located(where, [&] {
    const lazy::VjpResult result = lazy::vjp(inner(f), lazies(primals));
    FlatFunction pull_back = [result, primals, where](const std::vector<Tensor>& cotangents) {
      return located(where, [&] {
        std::vector<lazy::Lazy> back =
            result.pull_back(derivatives_for(cotangents, result.outputs, "pull-back"));
        // What has no derivative gets zeros of its type.
        hlo::Builder b;
        for (size_t i = 0; i < back.size(); ++i)
          if (!back[i].value) back[i] = {b.zeros_like(lazy_of(primals[i]).value), false};
        return tensors(std::move(back));
      });
    };
    FlatFunction push_forward = [result, primals, where](const std::vector<Tensor>& tangents) {
      return located(where, [&] {
        return tensors(result.push_forward(derivatives_for(tangents, lazies(primals), "linearize")));
      });
    };
    return FlatPullback{tensors(result.outputs), std::move(pull_back), std::move(push_forward)};
  });
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> flat_jvp(const FlatFunction& f,
                                                             const std::vector<Tensor>& primals,
                                                             const std::vector<Tensor>& tangents,
                                                             std::source_location where) {
  return located(where, [&] {
    const std::vector<lazy::Lazy> at_point = lazies(primals);
    lazy::JvpResult r = lazy::jvp(inner(f), at_point, derivatives_for(tangents, at_point, "jvp"));
    return std::pair(tensors(std::move(r.outputs)), tensors(std::move(r.tangents)));
  });
}

std::vector<Tensor> flat_vmap(const FlatFunction& f, std::vector<Tensor> arguments,
                              const std::vector<std::optional<int64_t>>& axes, const std::string& axis_name,
                              std::optional<int64_t> axis_size, int strategy, std::source_location where) {
  return located(where, [&] {
    int64_t size = axis_size.value_or(-1);
    if (axis_size && size < 0) fail(ErrorKind::kValue, str_cat("vmap: an axis of size ", size));
    std::vector<bool> batched;
    for (size_t i = 0; i < arguments.size(); ++i) {
      batched.push_back(axes[i].has_value());
      if (!axes[i]) continue;
      if (arguments[i].shape().empty())
        fail(ErrorKind::kValue, str_cat("vmap: a number has no dimension ", *axes[i], " to map over"));
      arguments[i] =
          with_dimension_at(arguments[i], checked_axis(arguments[i], *axes[i], "in_axes"), 0, where);
      const Shape& shape = arguments[i].shape();
      if (size >= 0 && shape[0] != size)
        fail(ErrorKind::kValue, str_cat("vmap: mapped tensors of ", size, " and ", shape[0], " rows",
                                        axis_size ? ", where the first is axis_size" : ""));
      size = shape[0];
    }
    if (size < 0)
      fail(ErrorKind::kValue, "vmap: no argument is mapped; VmapOptions::axis_size says how many lanes");
    return tensors(lazy::vmap(inner(f), lazies(arguments), batched, size, nullptr, axis_name,
                              static_cast<trace::LaneStrategy>(strategy)));
  });
}
std::vector<Tensor> flat_lanes_at(std::vector<Tensor> results, const std::vector<int64_t>& axes,
                                  std::source_location where) {
  return located(where, [&] {
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = with_dimension_at(results[i], 0, checked_axis(results[i], axes[i], "out_axes"), where);
    return std::move(results);
  });
}

}  // namespace lamina::detail
