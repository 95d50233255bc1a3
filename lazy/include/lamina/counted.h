// Counted references for the API's handles: what std::shared_ptr gives, at a tenth of its header.
#ifndef LAMINA_COUNTED_H_
#define LAMINA_COUNTED_H_

#include <type_traits>
#include <utility>

namespace lamina::detail {

class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  virtual ~Counted() = default;

 private:
  template <typename T>
  friend class Ref;
  mutable long references_ = 0;  // changed by atomic operations only
};

// Owns a share of an object that derives from Counted; null when default-made or moved from. Copies may be
// used from different threads.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
  Ref(const Ref<U>& other) : object_(other.get()) {  // NOLINT: implicit on purpose, to a base
    retain();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && __atomic_sub_fetch(&base()->references_, 1, __ATOMIC_ACQ_REL) == 0) delete base();
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Counted* base() const { return object_; }
  void retain() const {
    if (object_) __atomic_add_fetch(&base()->references_, 1, __ATOMIC_RELAXED);
  }
  T* object_ = nullptr;
};

// Any value, counted.
template <typename T>
class Box final : public Counted {
 public:
  explicit Box(T v) : value(std::move(v)) {}
  T value;
};

// A callable, counted: what std::function gives, at a tenth of its header.
template <typename Signature>
class Function;
template <typename R, typename... A>
class Function<R(A...)> {
 public:
  Function() = default;
  template <typename F>
  // NOLINTNEXTLINE(google-explicit-constructor): implicit on purpose
  requires(!std::is_same_v<std::decay_t<F>, Function>) Function(F f) : call_(new Call<F>(std::move(f))) {}
  R operator()(A... x) const { return call_->run(std::forward<A>(x)...); }
  explicit operator bool() const { return static_cast<bool>(call_); }

 private:
  struct AnyCall : Counted {
    virtual R run(A... x) const = 0;
  };
  template <typename F>
  struct Call final : AnyCall {
    explicit Call(F f) : function(std::move(f)) {}
    R run(A... x) const override { return function(std::forward<A>(x)...); }
    F function;
  };
  Ref<AnyCall> call_;
};

}  // namespace lamina::detail

#endif  // LAMINA_COUNTED_H_
