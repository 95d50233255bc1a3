#include "lazy/transforms.h"

#include <cstring>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"
#include "lazy/axes.h"

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

}  // namespace

void fail_at(ErrorKind kind, const std::string& message, std::source_location where) {
  throw PlacedError(kind, message, where);
}

std::string signature(const std::vector<Tensor>& all) {
  std::string out;
  for (const Tensor& t : all) {
    const lazy::Lazy& x = lazy_of(t);
    const hlo::Type* type = x.value.type();  // interned: the address stands for element type and shape
    char bytes[sizeof type + 1];
    std::memcpy(bytes, &type, sizeof type);
    bytes[sizeof type] = static_cast<char>('0' + x.weak);
    out.append(bytes, sizeof bytes);
  }
  out.push_back(static_cast<char>(hlo::record_state().mode));
  if (const uint32_t defaults = lazy::default_types().key()) out += std::to_string(defaults);
  if (const uint64_t axes = lazy::axes_key()) str_append(&out, "@", static_cast<int64_t>(axes));
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

std::vector<Tensor> flat_vmap(const FlatFunction& f, const std::vector<Tensor>& arguments,
                              const std::vector<bool>& batched, const std::string& axis_name,
                              std::optional<int64_t> axis_size, std::source_location where) {
  return located(where, [&] {
    int64_t size = axis_size.value_or(-1);
    if (axis_size && size < 0) fail(ErrorKind::kValue, str_cat("vmap: an axis of size ", size));
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!batched[i]) continue;
      const Shape& shape = arguments[i].shape();
      if (shape.empty()) fail(ErrorKind::kValue, "vmap: a number has no dimension 0 to map over");
      if (size >= 0 && shape[0] != size)
        fail(ErrorKind::kValue, str_cat("vmap: mapped tensors of ", size, " and ", shape[0], " rows",
                                        axis_size ? ", where the first is axis_size" : ""));
      size = shape[0];
    }
    if (size < 0)
      fail(ErrorKind::kValue, "vmap: no argument is mapped; VmapOptions::axis_size says how many lanes");
    return tensors(lazy::vmap(inner(f), lazies(arguments), batched, size, nullptr, axis_name));
  });
}

std::vector<std::vector<Tensor>> flat_jacobian(const FlatFunction& f, const std::vector<Tensor>& primals,
                                               bool forward, const char* what, std::source_location where) {
  return located(where, [&] {
    const std::vector<lazy::Lazy> at_point = lazies(primals);
    auto check_float = [what](const char* which, const lazy::Lazy& x) {
      if (!hlo::is_float(x.value.dtype()))
        fail(ErrorKind::kType, str_cat(what, " needs float ", which, ", not ", describe(x)));
    };
    for (const lazy::Lazy& x : at_point) check_float("inputs", x);
    std::vector<std::vector<Tensor>> out;
    // The unit vectors of all elements of the lists, as rows.
    auto basis = [](const std::vector<lazy::Lazy>& of) {
      int64_t total = 0, before = 0;
      for (const lazy::Lazy& x : of) total += x.value.type()->num_elements;
      hlo::Builder b;
      std::vector<lazy::Lazy> rows;
      for (const lazy::Lazy& x : of) {
        const hlo::Type* t = x.value.type();
        const hlo::Dims flat{total, t->num_elements};
        const hlo::Value row = b.iota(hlo::DType::kS64, flat, 0), column = b.iota(hlo::DType::kS64, flat, 1);
        const hlo::Value shifted =
            b.add(column, b.broadcast_scalar(b.scalar_int(hlo::DType::kS64, before), flat));
        hlo::Dims dims{total};
        dims.insert(dims.end(), t->dims.begin(), t->dims.end());
        rows.push_back({b.reshape(b.convert(b.compare(row, shifted, "EQ"), t->dtype), dims), false});
        before += t->num_elements;
      }
      lazy::check(b.status());
      return std::pair(std::move(rows), total);
    };
    // Rows first ... first + n - 1 of x.
    auto cut = [](hlo::Builder& b, const hlo::Value& x, int64_t first, int64_t n) {
      hlo::Dims start(x.rank(), 0), limit = x.dims();
      start[0] = first;
      limit[0] = first + n;
      return b.slice(x, start, limit);
    };
    auto joined = [](const hlo::Value& y, const hlo::Value& x) {
      hlo::Dims dims = y.dims();
      dims.insert(dims.end(), x.dims().begin(), x.dims().end());
      return dims;
    };
    hlo::Builder b;
    if (forward) {
      const auto [rows, total] = basis(at_point);
      const std::vector<lazy::Lazy> columns = lazy::vmap(
          [&](const std::vector<lazy::Lazy>& direction) {
            lazy::JvpResult r = lazy::jvp(inner(f), at_point, direction);
            return std::move(r.tangents);
          },
          rows, std::vector<bool>(rows.size(), true), total);
      for (const lazy::Lazy& c : columns) {
        std::vector<Tensor>& row = out.emplace_back();
        int64_t first = 0;
        hlo::Dims order, dims(c.value.dims().begin() + 1, c.value.dims().end());
        for (int64_t d = 1; d < c.value.rank(); ++d) order.push_back(d);
        order.push_back(0);
        for (const lazy::Lazy& x : at_point) {
          const int64_t n = x.value.type()->num_elements;
          hlo::Dims full = dims;
          full.insert(full.end(), x.value.dims().begin(), x.value.dims().end());
          row.push_back(tensor_of(b.reshape(b.transpose(cut(b, c.value, first, n), order), full)));
          first += n;
        }
      }
    } else {
      const lazy::VjpResult r = lazy::vjp(inner(f), at_point);
      for (const lazy::Lazy& y : r.outputs) check_float("results", y);
      const auto [cotangents, total] = basis(r.outputs);
      const std::vector<lazy::Lazy> rows =
          lazy::vmap(r.pull_back, cotangents, std::vector<bool>(cotangents.size(), true), total);
      int64_t first = 0;
      for (const lazy::Lazy& y : r.outputs) {
        std::vector<Tensor>& row = out.emplace_back();
        const int64_t n = y.value.type()->num_elements;
        for (size_t i = 0; i < rows.size(); ++i)
          row.push_back(
              tensor_of(b.reshape(cut(b, rows[i].value, first, n), joined(y.value, at_point[i].value))));
        first += n;
      }
    }
    lazy::check(b.status());
    return out;
  });
}

std::vector<Tensor> flat_checkpoint(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                    std::source_location where) {
  return located(where, [&] { return tensors(lazy::checkpoint(inner(f), lazies(arguments))); });
}

Tensor unit_cotangent(const Tensor& value, std::source_location where) {
  return located(where, [&] {
    const lazy::Lazy& x = lazy_of(value);
    if (x.value.rank() != 0 || !hlo::is_float(x.value.dtype()))
      fail(ErrorKind::kType, str_cat("grad needs a function whose result is one real float, not ",
                                     describe(x), "; sum it, or use vjp"));
    hlo::Builder b;
    return tensor_of(b.full_like(x.value, 1));
  });
}

}  // namespace lamina::detail
