#include "lamina/axes.h"

#include <set>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"
#include "lazy/axes.h"

namespace lamina {
namespace {

using detail::fail;
using detail::lazy_of;
using detail::located;
using hlo::Attr;

const lazy::BoundAxis& bound(const std::string& name) {
  if (const lazy::BoundAxis* axis = lazy::find_axis(name)) return *axis;
  std::string known;
  for (const lazy::BoundAxis& a : lazy::bound_axes())
    str_append(&known, known.empty() ? "" : ", ", "'", a.name, "' of size ", a.size);
  fail(ErrorKind::kValue,
       str_cat("unbound axis name '", name, "': ",
               known.empty() ? "no vmap with an axis_name is open here" : str_cat("bound here are ", known)));
}

// Records the exchange of `x` between the lanes of an axis.
Tensor exchanged(hlo::Op op, const Tensor& x, const lazy::BoundAxis& axis,
                 std::vector<hlo::Attrs::Entry> attrs) {
  attrs.emplace_back(Attr::axis_name, axis.name);
  attrs.emplace_back(Attr::axis_size, axis.size);
  const lazy::Lazy operands[] = {lazy_of(x), {axis.lane, false}};
  return detail::tensor_of(lazy::record(op, operands, hlo::intern_attrs(std::move(attrs)))[0]);
}

// `x` with a dimension of as many elements as there are lanes at `at`; the rest of a tiled one behind it.
Tensor divided(const char* what, const Tensor& x, int64_t at, int64_t lanes, bool tiled) {
  const int64_t size = x.shape()[static_cast<size_t>(at)];
  if (tiled ? lanes == 0 || size % lanes != 0 : size != lanes)
    fail(ErrorKind::kValue,
         str_cat(what, " divides dimension ", at, " of ", detail::describe(lazy_of(x)), " among ", lanes,
                 " lanes: its size must be ",
                 tiled ? "a multiple of that" : "that, or any multiple with LaneOptions::tiled"));
  if (!tiled) return x;
  Shape shape = x.shape();
  shape[static_cast<size_t>(at)] = lanes;
  shape.insert(shape.begin() + at + 1, size / lanes);
  return x.reshape(shape);
}

}  // namespace

int64_t axis_size(const std::string& axis, std::source_location where) {
  return located(where, [&] { return bound(axis).size; });
}

Tensor axis_index(const std::string& axis, std::source_location where) {
  return located(where, [&] { return detail::tensor_of(bound(axis).lane); });
}

namespace detail {

Tensor reduced_over_lanes(const Tensor& x, const std::string& axis, Reduction kind,
                          std::source_location where) {
  return located(where, [&] {
    const lazy::BoundAxis& over = bound(axis);
    const bool adds = kind == Reduction::kSum || kind == Reduction::kMean;
    const Tensor given = adds && x.dtype() == DType::boolean ? x.astype(DType::int32) : x;
    const char* const reduction = adds ? "add" : kind == Reduction::kMax ? "maximum" : "minimum";
    const Tensor total =
        exchanged(hlo::Op::all_reduce, given, over, {{Attr::reduction, std::string(reduction)}});
    return kind == Reduction::kMean ? total / Tensor(over.size) : total;
  });
}

}  // namespace detail

Tensor all_gather(const Tensor& x, const std::string& axis, LaneOptions options, std::source_location where) {
  return located(where, [&] {
    const lazy::BoundAxis& over = bound(axis);
    const int64_t at =
        detail::canonical_axis(options.dimension, x.ndim() + (options.tiled ? 0 : 1), "all_gather");
    const Tensor all = exchanged(hlo::Op::all_gather, x, over, {{Attr::dimension, at}});
    if (!options.tiled) return all;
    Shape shape = x.shape();
    shape[static_cast<size_t>(at)] *= over.size;
    return all.reshape(shape);
  });
}

Tensor psum_scatter(const Tensor& x, const std::string& axis, LaneOptions options,
                    std::source_location where) {
  return located(where, [&] {
    const lazy::BoundAxis& over = bound(axis);
    const int64_t at = detail::canonical_axis(options.dimension, x.ndim(), "psum_scatter");
    const Tensor parts = divided("psum_scatter", x, at, over.size, options.tiled);
    return exchanged(hlo::Op::reduce_scatter, parts, over, {{Attr::dimension, at}});
  });
}

Tensor all_to_all(const Tensor& x, const std::string& axis, int64_t split, int64_t concat,
                  std::source_location where) {
  return located(where, [&] {
    const lazy::BoundAxis& over = bound(axis);
    split = detail::canonical_axis(split, x.ndim(), "all_to_all: split");
    concat = detail::canonical_axis(concat, x.ndim(), "all_to_all: concat");
    return exchanged(hlo::Op::all_to_all, divided("all_to_all", x, split, over.size, false), over,
                     {{Attr::split_dimension, split}, {Attr::concat_dimension, concat}});
  });
}

Tensor ppermute(const Tensor& x, const std::string& axis,
                const std::vector<std::pair<int64_t, int64_t>>& pairs, std::source_location where) {
  return located(where, [&] {
    const lazy::BoundAxis& over = bound(axis);
    std::vector<int64_t> sources(static_cast<size_t>(over.size), -1);
    std::set<int64_t> from, to;
    for (const auto& [a, b] : pairs) {
      if (a < 0 || a >= over.size || b < 0 || b >= over.size || !from.insert(a).second ||
          !to.insert(b).second)
        fail(ErrorKind::kValue, str_cat("ppermute: (", a, ", ", b, ") has a lane that is not one of the ",
                                        over.size, " of axis '", axis, "', or sends or receives twice"));
      sources[static_cast<size_t>(b)] = a;
    }
    return exchanged(hlo::Op::collective_permute, x, over,
                     {{Attr::sources, hlo::Dims(sources.begin(), sources.end())}});
  });
}

}  // namespace lamina
