// The structures below are DLPack's published binary interface (versions 0.x and 1.x).
#include "python/dlpack.h"

#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "hlo/strings.h"
#include "jit/client/exchange.h"
#include "lazy/delivery.h"
#include "lazy/placement.h"
#include "python/interpreter.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::DType;

struct Device {
  int32_t type;
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

// What others do wrong is a BufferError.
template <typename T>
T taken(absl::StatusOr<T> result) {
  if (absl::IsInvalidArgument(result.status()))
    throw py::buffer_error(std::string(result.status().message()));
  return lazy::check(std::move(result));
}

// Where the value lies, or in memory of the host.
jit::BufferRef buffer_of(const py::object& x, bool on_host) {
  const hlo::Value value = lazy_of(x.ptr()).value;
  if (!may_leave(x.ptr())) throw py::error_already_set();
  jit::Device* device = &lazy::device_of(value);
  if (on_host && &device->client() != &jit::host()) {
    lazy::fetch(std::span(&value, 1));
    device = &jit::host_device();
  }
  lazy::array(value);
  return lazy::buffers_on(*device, std::span(&value, 1))[0];
}

// What an export keeps alive.
template <typename M>
struct Export {
  Export(jit::HandedOver from, const hlo::Type* type)
      : handed(std::move(from)), shape(type->dims), strides(hlo::row_major_strides(type->dims)) {
    const jit::Device& device = handed.buffer().memory().device();
    const jit::Exchange::Name name = device.client().exchange()->name_of(device);
    managed.view = {reinterpret_cast<void*>(handed.place()),
                    {name.kind, name.number},
                    static_cast<int32_t>(type->rank()),
                    element_type(type->dtype),
                    shape.data(),
                    strides.data(),
                    0};
    managed.owner = this;
    managed.deleter = [](M* m) { delete static_cast<Export<M>*>(m->owner); };
  }

  M managed;
  const jit::HandedOver handed;
  hlo::Dims shape, strides;
};

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

py::object export_tensor(const py::object& x, bool versioned, bool on_host, jit::Exchange::TheirStream stream,
                         bool copy) {
  const hlo::Type* const type = lazy_of(x.ptr()).value.type();
  if (is_packed(type->dtype))
    throw Error(ErrorKind::kType,
                str_cat("elements of type ", std::string(hlo::info(type->dtype).numpy_name),
                        " have a byte each here and are packed in DLPack: convert them to 8 bits or more"));
  jit::BufferRef buffer = buffer_of(x, on_host);
  jit::Device& device = buffer->memory().device();
  if (copy) buffer = lazy::check(device.client().copy_across(device, buffer));
  jit::HandedOver handed = taken(jit::HandedOver::make(std::move(buffer), stream));
  if (versioned) {
    auto e = std::make_unique<Export<ManagedVersioned>>(std::move(handed), type);
    e->managed.major = 1;
    e->managed.minor = 0;
    e->managed.flags = copy ? kCopied : kReadOnlyFlag;
    return capsule(std::move(e), kNameVersioned);
  }
  return capsule(std::make_unique<Export<Managed>>(std::move(handed), type), kName);
}

// The address and stream of a Tensor's memory, and what keeps it while others have it.
py::tuple hand_over(const py::object& x) {
  jit::BufferRef buffer = buffer_of(x, false);
  const jit::Exchange* const exchange = buffer->memory().client().exchange();
  const jit::Exchange::TheirStream stream = taken(exchange->stream_with(*buffer));
  auto handed = std::make_unique<jit::HandedOver>(
      taken(jit::HandedOver::make(std::move(buffer), jit::Exchange::kNoStream)));
  const uint64_t place = handed->place();
  const py::capsule holder(handed.release(), [](void* p) { delete static_cast<jit::HandedOver*>(p); });
  return py::make_tuple(place, stream, holder);
}

// An array of others, where it is.
struct Theirs {
  jit::Device& device;
  uint64_t at;
  DType dtype;
  hlo::Dims dims, strides;  // in elements
  jit::Exchange::TheirStream stream;

  const hlo::Type* type() const { return lazy::check(hlo::array_type(dtype, dims)); }
  int64_t width() const { return hlo::byte_size(dtype); }
  bool is_dense() const {
    const hlo::Dims dense = hlo::row_major_strides(dims);
    for (size_t d = 0; d < dims.size(); ++d)
      if (strides[d] != dense[d] && dims[d] > 1) return false;
    return true;
  }
  // Of the element that lies first, from the first by index, and of the last.
  std::pair<int64_t, int64_t> span() const {
    int64_t first = 0, last = 0;
    for (size_t d = 0; d < dims.size(); ++d) (strides[d] < 0 ? first : last) += strides[d] * (dims[d] - 1);
    return {first, last};
  }
};

void copy_dense(std::byte* to, const Theirs& from) {
  const auto* const begin = reinterpret_cast<const std::byte*>(from.at);
  const int64_t width = from.width(), count = from.type()->num_elements;
  hlo::Dims at(from.dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * from.strides[d];
    std::memcpy(to + i * width, begin + offset * width, static_cast<size_t>(width));
    for (size_t d = at.size(); d-- > 0 && ++at[d] == from.dims[d];) at[d] = 0;
  }
}

[[noreturn]] void refuse_copy(const char* why) {
  throw py::buffer_error(str_cat("the array comes as a copy, as ", why, ": leave out copy=False"));
}

py::object tensor_of(const hlo::Type* type, jit::BufferRef buffer) {
  jit::Device& device = buffer->memory().device();
  const hlo::Place place = &device.client() == &jit::host() ? hlo::kAnywhere : device.place();
  return to_object({hlo::make_leaf(type, new jit::Array(type, std::move(buffer)), place), false});
}

// A Tensor over their memory, or a copy of it; (Tensor, None). Where the elements lie apart on a device that
// the host does not read, the Tensor has all from the first to the last, and beside it is where to find the
// elements: (shape, strides, position of the first). `release` is called once in any case.
py::tuple take_over(const Theirs& theirs, std::optional<bool> copy, std::function<void()> release) {
  const absl::Cleanup releases = [&] {
    if (release) release();
  };
  const hlo::Type* type = theirs.type();
  const jit::Exchange& exchange = *theirs.device.client().exchange();
  const bool on_host = &theirs.device.client() == &jit::host(), is_dense = theirs.is_dense();
  const auto [first, last] = theirs.span();
  const uint64_t begin = theirs.at + static_cast<uint64_t>(first * theirs.width());
  const bool is_aligned = begin % static_cast<uint64_t>(exchange.alignment(theirs.width())) == 0;
  const bool is_copied = copy.value_or(!is_dense || !is_aligned);
  if (type->num_elements == 0)
    return py::make_tuple(tensor_of(type, lazy::check(theirs.device.client().put(theirs.device, nullptr, 0))),
                          py::none());
  if (!is_copied && !is_dense) refuse_copy("its elements do not lie one behind the other");
  if (!is_copied && !is_aligned) refuse_copy("its address is not aligned");
  if (on_host && is_copied) {
    std::vector<std::byte> packed(is_dense ? 0 : static_cast<size_t>(type->bytes()));
    if (!is_dense) copy_dense(packed.data(), theirs);
    const void* const data = is_dense ? reinterpret_cast<const void*>(theirs.at) : packed.data();
    return py::make_tuple(to_object({lazy::from_host(theirs.dtype, theirs.dims, data), false}), py::none());
  }
  if (!is_dense) type = lazy::check(hlo::array_type(theirs.dtype, hlo::Dims{last - first + 1}));
  jit::BufferRef buffer = taken(exchange.take_over(theirs.device, begin, type->bytes(), theirs.stream,
                                                   std::exchange(release, nullptr)));
  if (is_copied && (is_dense || !is_aligned)) buffer = lazy::snapshot(buffer);
  return py::make_tuple(
      tensor_of(type, std::move(buffer)),
      is_dense ? py::object(py::none()) : py::make_tuple(theirs.dims, theirs.strides, -first));
}

template <typename M>
py::tuple import_capsule(const py::object& c, const char* name, const char* used, std::optional<bool> copy) {
  M* m = static_cast<M*>(PyCapsule_GetPointer(c.ptr(), name));
  if (!m) throw py::error_already_set();
  const View& v = m->view;
  const std::optional<DType> dtype = dtype_from_dlpack(v.dtype);
  if (!dtype)
    throw Error(ErrorKind::kType, str_cat("the element type of the array (DLPack code ", int{v.dtype.code},
                                          ", ", int{v.dtype.bits}, " bits) is none that lamina knows"));
  Theirs theirs{*taken(jit::find_device(jit::Exchange::Name{v.device.type, v.device.id})),
                reinterpret_cast<uint64_t>(v.data) + v.byte_offset,
                *dtype,
                {v.shape, v.shape + v.ndim},
                {},
                jit::Exchange::kNoStream};
  theirs.strides = v.strides ? hlo::Dims(v.strides, v.strides + v.ndim) : hlo::row_major_strides(theirs.dims);
  theirs.type();
  if (PyCapsule_SetName(c.ptr(), used) != 0) throw py::error_already_set();
  return take_over(theirs, copy, [m] {
    if (m->deleter) while_python_lives([m] { m->deleter(m); });
  });
}

}  // namespace

void add_dlpack(py::module_& m) {
  m.def("to_dlpack", export_tensor, py::arg("x"), py::arg("versioned"), py::arg("on_host"), py::arg("stream"),
        py::arg("copy"));
  m.def("hand_over", hand_over, "(address, stream on which the elements are there, what keeps the memory).");
  m.def(
      "from_dlpack",
      [](const py::object& c, std::optional<bool> copy) {
        if (PyCapsule_IsValid(c.ptr(), kNameVersioned))
          return import_capsule<ManagedVersioned>(c, kNameVersioned, kUsedVersioned, copy);
        if (PyCapsule_IsValid(c.ptr(), kName)) return import_capsule<Managed>(c, kName, kUsed, copy);
        throw py::value_error("a DLPack capsule that has not been used yet is needed");
      },
      py::arg("capsule"), py::arg("copy"),
      "The array of a DLPack capsule, shared if dense and aligned, else copied, and None; on a device, where "
      "it is "
      "neither shared nor dense, a Tensor that has all its elements, and where they are in it: (shape, "
      "strides, position of "
      "the first).");
  m.def(
      "take_over",
      [](int32_t kind, uint64_t at, const std::string& dtype, const hlo::Dims& dims, const hlo::Dims& strides,
         jit::Exchange::TheirStream stream, const py::object& owner, std::optional<bool> copy) {
        jit::Device* device = taken(jit::find_device(jit::Exchange::Name{kind, 0}));
        const Theirs theirs{*device, at, dtype_of(dtype), dims, strides, stream};
        if (theirs.type()->num_elements > 0) device = taken(device->client().exchange()->owner_of(at));
        PyObject* const held = Py_NewRef(owner.ptr());
        return take_over({*device, at, theirs.dtype, dims, strides, stream}, copy,
                         [held] { while_python_lives([held] { Py_DECREF(held); }); });
      },
      "The array at an address of a kind of device that DLPack numbers, as from_dlpack; `owner` is kept.");
  m.def(
      "dlpack_device",
      [](const py::object& x) -> std::optional<std::pair<int32_t, int32_t>> {
        const jit::Device& device = lazy::device_of(lazy_of(x.ptr()).value);
        const jit::Exchange* const exchange = device.client().exchange();
        if (!exchange) return std::nullopt;
        const jit::Exchange::Name name = exchange->name_of(device);
        return std::pair(name.kind, name.number);
      },
      "The kind and number of a Tensor's device; None where other libraries do not know it.");
  m.def(
      "dlpack_source",
      [](int32_t kind, int32_t number) {
        const jit::Device& device = *taken(jit::find_device(jit::Exchange::Name{kind, number}));
        return py::make_tuple(device.name(), device.client().exchange()->stream_of(device));
      },
      "Of a kind and number: the device, and its stream that others are to have wait for what they do with "
      "an array.");
}

}  // namespace lamina::python
