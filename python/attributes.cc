#include "python/attributes.h"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "python/regions.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {

using hlo::Attr;
using hlo::AttrKind;
using hlo::Attrs;

namespace {

// OverflowError where a value, or one of a sequence, is an integer beyond 64 bits.
void refuse_beyond_64_bits(const py::handle& value) {
  const auto refuse = [](const py::handle& x) {
    if (!PyLong_Check(x.ptr())) return;
    int beyond = 0;
    PyLong_AsLongLongAndOverflow(x.ptr(), &beyond);
    if (beyond == 0) return;
    const std::string digits = py::str(x);
    PyErr_SetString(PyExc_OverflowError,
                    str_cat("the Python integer ", digits, " does not fit 64 bits").c_str());
    throw py::error_already_set();
  };
  refuse(value);
  if (py::isinstance<py::sequence>(value))
    for (const py::handle& item : value.cast<py::sequence>()) refuse(item);
}

template <typename T>
T whole(const py::handle& value) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    refuse_beyond_64_bits(value);
    throw;
  }
}

hlo::AttrValue attr_value(Attr attr, const py::handle& value) {
  switch (hlo::attr_kind(attr)) {
    case AttrKind::kInt:
      return whole<int64_t>(value);
    case AttrKind::kBool:
      return value.cast<bool>();
    case AttrKind::kInts:
      return whole<hlo::Dims>(value);
    case AttrKind::kString:
      return value.cast<std::string>();
    case AttrKind::kDType:
      return dtype_of(value.cast<std::string>());
    case AttrKind::kComputation:
      return value.cast<const Region&>().computation;
    case AttrKind::kComputations: {
      std::vector<hlo::ComputationPtr> out;
      for (const py::handle& r : value.cast<py::sequence>())
        out.push_back(r.cast<const Region&>().computation);
      return out;
    }
    case AttrKind::kTypes: {
      std::vector<const hlo::Type*> out;
      for (const py::handle& t : value.cast<py::sequence>()) {
        const auto pair = t.cast<std::pair<std::string, hlo::Dims>>();
        out.push_back(type_of(pair.first, pair.second));
      }
      return out;
    }
    case AttrKind::kLiteral:
      break;
  }
  throw py::type_error("attribute " + std::string(hlo::attr_name(attr)) + " cannot be given from Python");
}

}  // namespace

const Attrs* attrs_of(const hlo::OpDef& def, const py::kwargs& kwargs) {
  std::vector<Attrs::Entry> entries;
  for (const auto& [key, value] : kwargs) {
    const std::string name = py::str(key);
    const std::optional<Attr> attr = hlo::parse_attr(name);
    bool known = false;
    for (const hlo::AttrSpec& spec : def.attrs) known |= attr == spec.attr;
    if (!known) throw py::type_error(str_cat(def.name, " has no attribute '", name, "'"));
    entries.emplace_back(*attr, attr_value(*attr, value));
  }
  for (const hlo::AttrSpec& spec : def.attrs) {
    bool given = spec.optional;
    for (const auto& e : entries) given |= e.first == spec.attr;
    if (!given)
      throw py::type_error(str_cat(def.name, " needs the attribute '", hlo::attr_name(spec.attr), "'"));
  }
  return hlo::intern_attrs(std::move(entries));
}

const hlo::OpDef& op_of(const std::string& name) {
  const std::optional<hlo::Op> op = hlo::parse_op(name);
  if (!op) throw py::value_error("there is no op '" + name + "'");
  return hlo::op_def(*op);
}

}  // namespace lamina::python
