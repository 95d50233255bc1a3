// Objects of the process that are made at first use and never destroyed.
//
// Contract: as a function's `static T* const object = new T`, and a fork waits while one is being made, so
// that no child finds one that a thread it does not have was making. Where making one throws, the next caller
// makes it. Declared `static constinit Once<T>`.
#ifndef LAMINA_HLO_ONCE_H_
#define LAMINA_HLO_ONCE_H_

#include <atomic>

namespace lamina::hlo {

namespace internal {

enum OnceState : int { kUnmade, kBeingMade, kMade };
// Waits for another thread that makes it; whether the caller has to make it.
bool begin_making(std::atomic<int>& state);
void end_making(std::atomic<int>& state, bool made);

}  // namespace internal

template <typename T>
class Once {
 public:
  constexpr Once() = default;
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  T& get() {
    return get([] { return new T; });
  }
  // `make` returns the new object's address.
  template <typename Make>
  T& get(Make&& make) {
    T* object = object_.load(std::memory_order_acquire);
    if (!object) [[unlikely]]
      object = made(make);
    return *object;
  }

 private:
  template <typename Make>
  T* made(Make& make) {
    if (internal::begin_making(state_)) {
      try {
        object_.store(make(), std::memory_order_release);
      } catch (...) {
        internal::end_making(state_, false);
        throw;
      }
      internal::end_making(state_, true);
    }
    return object_.load(std::memory_order_acquire);
  }

  std::atomic<int> state_{internal::kUnmade};
  std::atomic<T*> object_{nullptr};
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_ONCE_H_
