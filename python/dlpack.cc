// The structures below are DLPack's published binary interface (versions 0.x and 1.x), CPU memory only.
#include "python/dlpack.h"

#include <cstring>
#include <memory>

#include "hlo/strings.h"
#include "lazy/placement.h"
#include "python/interpreter.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::DType;
using lazy::Lazy;

struct Device {
  int32_t type;  // 1: CPU
  int32_t id;
};
struct DlpackType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct View {
  void* data;
  Device device;
  int32_t ndim;
  DlpackType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
struct Managed {
  View view;
  void* owner;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* owner;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  View view;
};
constexpr uint64_t kReadOnlyFlag = 1, kCopied = 2;
constexpr int32_t kCpu = 1;
constexpr const char *kName = "dltensor", *kNameVersioned = "dltensor_versioned";
constexpr const char *kUsed = "used_dltensor", *kUsedVersioned = "used_dltensor_versioned";

// DLPack's codes in the order of the element types.
constexpr int kFirstNarrowFloat = static_cast<int>(DType::kF4E2M1FN);
constexpr uint8_t kNarrowFloats[] = {17, 15, 16, 7, 8, 10, 11, 9, 12, 13, 14};

// DLPack packs elements below eight bits.
bool is_packed(DType t) { return hlo::is_narrow(t) && hlo::bit_width(t) < 8; }

DlpackType element_type(DType t) {
  const uint8_t bits = static_cast<uint8_t>(hlo::byte_size(t) * 8);
  if (t == DType::kBool) return {6, 8, 1};
  if (t == DType::kBF16) return {4, 16, 1};
  if (hlo::is_narrow_float(t)) return {kNarrowFloats[static_cast<int>(t) - kFirstNarrowFloat], bits, 1};
  if (hlo::is_complex(t)) return {5, bits, 1};
  if (hlo::is_inexact(t)) return {2, bits, 1};
  return {static_cast<uint8_t>(hlo::is_signed(t) ? 0 : 1), bits, 1};
}

std::optional<DType> dtype_from_dlpack(DlpackType e) {
  if (e.lanes != 1) return std::nullopt;
  for (int i = 0; i < hlo::kNumDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    if (is_packed(t)) continue;
    const DlpackType have = element_type(t);
    if (have.code == e.code && have.bits == e.bits) return t;
  }
  return std::nullopt;
}

// What an export keeps alive.
template <typename M>
struct Export {
  M managed;
  jit::ArrayPtr array;
  hlo::Dims shape, strides;
};

template <typename M>
void fill(Export<M>& e, jit::ArrayPtr array, const hlo::Type* type) {
  e.array = std::move(array);
  e.shape = type->dims;
  e.strides = hlo::row_major_strides(type->dims);
  e.managed.view = {const_cast<std::byte*>(lazy::host_bytes(*e.array)),
                    {kCpu, 0},
                    static_cast<int32_t>(type->rank()),
                    element_type(type->dtype),
                    e.shape.data(),
                    e.strides.data(),
                    0};
  e.managed.owner = &e;
  e.managed.deleter = [](M* m) { delete static_cast<Export<M>*>(m->owner); };
}

template <typename M>
py::object capsule(std::unique_ptr<Export<M>> e, const char* name) {
  PyObject* out = PyCapsule_New(&e->managed, name, [](PyObject* c) {
    // A consumer renames the capsule and takes over.
    for (const char* unused : {kName, kNameVersioned}) {
      if (!PyCapsule_IsValid(c, unused)) continue;
      M* m = static_cast<M*>(PyCapsule_GetPointer(c, unused));
      if (m && m->deleter) m->deleter(m);
    }
  });
  if (!out) throw py::error_already_set();
  e.release();
  return py::reinterpret_steal<py::object>(out);
}

py::object export_tensor(const py::object& x, bool versioned, bool copy) {
  hlo::Value value = lazy_of(x.ptr()).value;
  if (is_packed(value.dtype()))
    throw Error(ErrorKind::kType,
                str_cat("elements of type ", std::string(hlo::info(value.dtype()).numpy_name),
                        " have a byte each here and are packed in DLPack: convert them to 8 bits or more"));
  if (!may_leave(x.ptr())) throw py::error_already_set();
  jit::ArrayPtr array = lazy::array(value);
  if (copy) {
    value = lazy::from_host(value.dtype(), value.dims(), lazy::host_bytes(*array));
    array = lazy::array(value);
  }
  if (versioned) {
    auto e = std::make_unique<Export<ManagedVersioned>>();
    fill(*e, std::move(array), value.type());
    e->managed.major = 1;
    e->managed.minor = 0;
    e->managed.flags = copy ? kCopied : kReadOnlyFlag;
    return capsule(std::move(e), kNameVersioned);
  }
  auto e = std::make_unique<Export<Managed>>();
  fill(*e, std::move(array), value.type());
  return capsule(std::move(e), kName);
}

void copy_dense(const std::byte* from, std::byte* to, const View& v, int64_t width) {
  std::vector<int64_t> at(v.ndim, 0);
  int64_t count = 1;
  for (int d = 0; d < v.ndim; ++d) count *= v.shape[d];
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int d = 0; d < v.ndim; ++d) offset += at[d] * v.strides[d];
    std::memcpy(to + i * width, from + offset * width, width);
    for (int d = v.ndim - 1; d >= 0 && ++at[d] == v.shape[d]; --d) at[d] = 0;
  }
}

template <typename M>
py::object import_capsule(const py::object& c, const char* name, const char* used, bool copy) {
  M* m = static_cast<M*>(PyCapsule_GetPointer(c.ptr(), name));
  if (!m) throw py::error_already_set();
  const View& v = m->view;
  if (v.device.type != kCpu)
    throw Error(ErrorKind::kType, "only arrays in CPU memory can be taken over through DLPack");
  const std::optional<DType> dtype = dtype_from_dlpack(v.dtype);
  if (!dtype)
    throw Error(ErrorKind::kType, str_cat("the element type of the array (DLPack code ", int{v.dtype.code},
                                          ", ", int{v.dtype.bits}, " bits) is none that lamina knows"));
  const hlo::Dims dims(v.shape, v.shape + v.ndim);
  const hlo::Type* type = lazy::check(hlo::array_type(*dtype, dims));
  const hlo::Dims dense = hlo::row_major_strides(dims);
  bool contiguous = true;
  for (int d = 0; v.strides && d < v.ndim; ++d) contiguous &= v.strides[d] == dense[d] || v.shape[d] <= 1;
  std::byte* data = static_cast<std::byte*>(v.data) + v.byte_offset;
  const int64_t width = hlo::byte_size(*dtype);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % width == 0;
  if (type->num_elements > 0 && contiguous && aligned && !copy) {
    if (PyCapsule_SetName(c.ptr(), used) != 0) throw py::error_already_set();
    auto release = [m] {
      if (m->deleter) while_python_lives([m] { m->deleter(m); });
    };
    return to_object({lazy::from_foreign(*dtype, dims, data, release), false});
  }
  std::vector<std::byte> packed;
  if (type->num_elements > 0 && !contiguous) {
    packed.resize(type->bytes());
    copy_dense(data, packed.data(), v, width);
    data = packed.data();
  }
  return to_object({lazy::from_host(*dtype, dims, data), false});
}

}  // namespace

void add_dlpack(py::module_& m) {
  m.def("to_dlpack", export_tensor, py::arg("x"), py::arg("versioned"), py::arg("copy"));
  m.def(
      "from_dlpack",
      [](const py::object& c, bool copy) {
        if (PyCapsule_IsValid(c.ptr(), kNameVersioned))
          return import_capsule<ManagedVersioned>(c, kNameVersioned, kUsedVersioned, copy);
        if (PyCapsule_IsValid(c.ptr(), kName)) return import_capsule<Managed>(c, kName, kUsed, copy);
        throw py::value_error("a DLPack capsule that has not been used yet is needed");
      },
      "The array of a DLPack capsule: shared if dense and aligned, else copied.");
}

}  // namespace lamina::python
