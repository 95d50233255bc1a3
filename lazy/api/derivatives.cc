// Gradients and Jacobians of C++ callables.
#include "hlo/op.h"
#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"

namespace lamina::detail {
namespace {

// Whether there is a derivative by an argument of this element type.
bool differentiable(hlo::DType dtype, bool forward, DerivativeOptions options) {
  if (options.holomorphic) return hlo::is_complex(dtype);
  if (forward) return hlo::is_float(dtype);  // it has one for both parts of a complex number
  return options.allow_int || hlo::is_inexact(dtype);
}

bool goes_forward(const char* what) { return std::string_view(what) == "jacfwd"; }

void check_result(const lazy::Lazy& y, const char* what, DerivativeOptions options) {
  const hlo::DType dtype = y.value.dtype();
  if (options.holomorphic ? hlo::is_complex(dtype) : hlo::is_float(dtype)) return;
  fail(ErrorKind::kType,
       str_cat(what, " needs ", options.holomorphic ? "complex" : "float", " results, not ", describe(y),
               hlo::is_complex(dtype) ? "; pass {.holomorphic = true} if it is holomorphic" : ""));
}

hlo::Dims joined(const hlo::Value& y, const hlo::Value& x) {
  hlo::Dims dims = y.dims();
  dims.insert(dims.end(), x.dims().begin(), x.dims().end());
  return dims;
}

// The unit vectors of all elements of the lists, as rows, and how many there are.
std::pair<std::vector<lazy::Lazy>, int64_t> basis(const std::vector<lazy::Lazy>& of) {
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
  return {std::move(rows), total};
}

// Rows first ... first + n - 1 of x.
hlo::Value cut(hlo::Builder& b, const hlo::Value& x, int64_t first, int64_t n) {
  hlo::Dims start(x.rank(), 0), limit = x.dims();
  start[0] = first;
  limit[0] = first + n;
  return b.slice(x, start, limit);
}

FlatJacobian columns(const FlatFunction& f, const std::vector<lazy::Lazy>& inputs, const size_t& values,
                     bool aux, DerivativeOptions options) {
  FlatJacobian out;
  const auto [rows, total] = basis(inputs);
  std::vector<lazy::Lazy> all = lazy::vmap(
      [&](const std::vector<lazy::Lazy>& direction) {
        lazy::JvpResult r = lazy::jvp(inner(f), inputs, direction);
        for (size_t i = 0; i < values; ++i) check_result(r.outputs[i], "jacfwd", options);
        r.tangents.resize(values);
        if (aux) r.tangents.insert(r.tangents.end(), r.outputs.begin(), r.outputs.end());
        return std::move(r.tangents);
      },
      rows, std::vector<bool>(rows.size(), true), total);
  hlo::Builder b;
  for (size_t k = 0; k < all.size(); ++k) {
    const hlo::Value& c = all[k].value;
    const hlo::Dims dims(c.dims().begin() + 1, c.dims().end());
    if (k >= values) {  // the same in every lane
      if (total > 0) out.outputs.push_back(tensor_of({b.reshape(cut(b, c, 0, 1), dims), all[k].weak}));
      continue;
    }
    std::vector<Tensor>& blocks = out.blocks.emplace_back();
    hlo::Dims order;
    for (int64_t d = 1; d < c.rank(); ++d) order.push_back(d);
    order.push_back(0);
    int64_t first = 0;
    for (const lazy::Lazy& x : inputs) {
      const int64_t n = x.value.type()->num_elements;
      hlo::Dims full = dims;
      full.insert(full.end(), x.value.dims().begin(), x.value.dims().end());
      blocks.push_back(tensor_of(b.reshape(b.transpose(cut(b, c, first, n), order), full)));
      first += n;
    }
  }
  lazy::check(b.status());
  if (aux && total == 0) out.outputs = f(tensors(inputs));
  return out;
}

FlatJacobian rows(const FlatFunction& f, const std::vector<lazy::Lazy>& inputs, const size_t& values,
                  DerivativeOptions options) {
  const lazy::VjpResult r = lazy::vjp(inner(f), inputs);
  FlatJacobian out{tensors(r.outputs), {}};
  const std::vector<lazy::Lazy> results(r.outputs.begin(),
                                        r.outputs.begin() + static_cast<ptrdiff_t>(values));
  for (const lazy::Lazy& y : results) check_result(y, "jacrev", options);
  const auto [cotangents, total] = basis(results);
  hlo::Builder b;
  const std::vector<lazy::Lazy> all = lazy::vmap(
      [&](std::vector<lazy::Lazy> given) {
        given.resize(r.outputs.size());
        std::vector<lazy::Lazy> back = r.pull_back(given);
        for (size_t i = 0; i < back.size(); ++i)
          if (!back[i].value) back[i] = {b.zeros_like(inputs[i].value), false};
        return back;
      },
      cotangents, std::vector<bool>(cotangents.size(), true), total);
  int64_t first = 0;
  for (const lazy::Lazy& y : results) {
    std::vector<Tensor>& blocks = out.blocks.emplace_back();
    const int64_t n = y.value.type()->num_elements;
    for (size_t i = 0; i < all.size(); ++i)
      blocks.push_back(
          tensor_of(b.reshape(cut(b, all[i].value, first, n), joined(y.value, inputs[i].value))));
    first += n;
  }
  lazy::check(b.status());
  return out;
}

}  // namespace

std::optional<size_t> without_derivative(const std::vector<Tensor>& arguments, const char* what,
                                         DerivativeOptions options) {
  const bool forward = goes_forward(what);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!differentiable(to_hlo(arguments[i].dtype()), forward, options)) return i;
  return std::nullopt;
}

void fail_without_derivative(const Tensor& argument, const std::string& name, const char* what,
                             DerivativeOptions options, std::source_location where) {
  const bool complex = hlo::is_complex(to_hlo(argument.dtype()));
  fail_at(
      ErrorKind::kType,
      str_cat(what, " needs ", options.holomorphic ? "complex" : "float", " inputs, but ", name, " is ",
              describe(lazy_of(argument)), ": ",
              options.holomorphic ? "convert it, or leave out .holomorphic"
              : complex ? "pass {.holomorphic = true} for a function that is holomorphic, or its real and "
                          "imaginary parts"
              : goes_forward(what) ? "convert it, or capture it"
                                   : "convert it, capture it, or pass {.allow_int = true}"),
      where);
}

FlatGradients flat_gradients(const FlatFunction& f, const std::vector<Tensor>& arguments,
                             DerivativeOptions options, std::source_location where) {
  return located(where, [&] {
    const lazy::FlatFunction run = inner(f);
    const auto checked = [&](const std::vector<lazy::Lazy>& inputs) {
      std::vector<lazy::Lazy> out = run(inputs);
      if (out.empty()) fail(ErrorKind::kType, "grad needs a function whose result is a number, not empty");
      const hlo::Value& y = out[0].value;
      const bool of_kind = options.holomorphic ? hlo::is_complex(y.dtype()) : hlo::is_float(y.dtype());
      if (y.rank() != 0 || !of_kind)
        fail(ErrorKind::kType,
             str_cat("grad needs a function whose result is one ",
                     options.holomorphic ? "complex number" : "real float", ", not ", describe(out[0]),
                     y.rank() == 0 && hlo::is_complex(y.dtype())
                         ? "; return its real part, or pass {.holomorphic = true} if it is holomorphic"
                         : "; sum it, or use vjp"));
      return out;
    };
    lazy::ValueAndGradients made = lazy::value_and_gradients(checked, lazies(arguments), [&] {
      return hlo::intern_location(where.file_name(), static_cast<int>(where.line()), where.function_name());
    });
    hlo::Builder b;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!made.gradients[i].value) made.gradients[i] = {b.zeros_like(lazy_of(arguments[i]).value), false};
    lazy::check(b.status());
    return FlatGradients{tensors(std::move(made.outputs)), tensors(std::move(made.gradients))};
  });
}

FlatJacobian flat_jacobian(const FlatFunction& f, const std::vector<Tensor>& arguments, const size_t& values,
                           bool forward, bool aux, DerivativeOptions options, std::source_location where) {
  return located(where, [&] {
    return forward ? columns(f, lazies(arguments), values, aux, options)
                   : rows(f, lazies(arguments), values, options);
  });
}

std::vector<Tensor> flat_zeros(const std::vector<Tensor>& like, std::source_location where) {
  return located(where, [&] {
    hlo::Builder b;
    std::vector<Tensor> out;
    bool inexact = like.empty();
    for (const Tensor& t : like) {
      const lazy::Lazy& x = lazy_of(t);
      inexact |= hlo::is_inexact(x.value.dtype());
      out.push_back(tensor_of(b.zeros_like(x.value)));
    }
    lazy::check(b.status());
    if (!inexact)
      fail(ErrorKind::kType, str_cat("linear_transpose needs real or complex arguments, not ",
                                     describe(lazy_of(like[0])), ": give them as floats"));
    return out;
  });
}

}  // namespace lamina::detail
