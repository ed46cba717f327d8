// SPDX-License-Identifier: Apache-2.0
// std::function with inline storage of a chosen size. A callable that fits, and that moves without exceptions,
// allocates nothing, even if it holds shared pointers (std::function stores inline only trivial callables of at most
// two words). Any other callable is stored in a std::function.
#ifndef ATOLL_COMMON_BASE_SMALL_FUNCTION_H_
#define ATOLL_COMMON_BASE_SMALL_FUNCTION_H_

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace atl {

// Copied and called like a std::function; empty by default. `kRoom`: bytes, at least the size of a
// std::function.
template <typename Signature, size_t kRoom = sizeof(std::function<void()>)>
class SmallFunction;

template <typename R, typename... Args, size_t kRoom>
class SmallFunction<R(Args...), kRoom> {
 public:
  SmallFunction() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as std::function
  SmallFunction(std::nullptr_t) {}
  template <typename F>
  requires(!std::is_same_v<F, SmallFunction> && std::is_invocable_r_v<R, F&, Args...>)
      // NOLINTNEXTLINE(google-explicit-constructor): as std::function
      SmallFunction(F f) {
    if constexpr (std::is_same_v<F, std::function<R(Args...)>>) {
      if (!f) return;
    }
    if constexpr (Fits<F>()) {
      Keep<F>(std::move(f));
    } else {
      Keep<std::function<R(Args...)>>(std::move(f));
    }
  }
  SmallFunction(const SmallFunction& other) : does_(other.does_) {
    if (does_ != nullptr) does_->copy(other.room_.data(), room_.data());
  }
  SmallFunction(SmallFunction&& other) noexcept { TakeFrom(other); }
  // By value for copy and move: the new value is complete before the old one is destroyed.
  SmallFunction& operator=(SmallFunction other) noexcept {
    Clear();
    TakeFrom(other);
    return *this;
  }
  ~SmallFunction() { Clear(); }

  explicit operator bool() const { return does_ != nullptr; }
  // Must not be empty.
  R operator()(Args... args) const { return does_->call(room_.data(), std::forward<Args>(args)...); }

 private:
  // Operations on the stored callable.
  struct Does {
    R (*call)(void*, Args&&...);
    void (*copy)(const void* from, void* to);
    void (*move)(void* from, void* to) noexcept;  // also destroys `from`
    void (*destroy)(void*) noexcept;
  };
  template <typename Held>
  static constexpr bool Fits() {
    return sizeof(Held) <= kRoom && alignof(Held) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<Held>;
  }
  template <typename Held>
  static constexpr Does kDoes = {
      [](void* held, Args&&... args) -> R { return (*static_cast<Held*>(held))(std::forward<Args>(args)...); },
      [](const void* from, void* to) { ::new (to) Held(*static_cast<const Held*>(from)); },
      [](void* from, void* to) noexcept {
        auto* held = static_cast<Held*>(from);
        ::new (to) Held(std::move(*held));
        held->~Held();
      },
      [](void* held) noexcept { static_cast<Held*>(held)->~Held(); }};

  template <typename Held, typename F>
  void Keep(F&& f) {
    static_assert(Fits<Held>(), "there is room for a std::function at least");
    ::new (static_cast<void*>(room_.data())) Held(std::forward<F>(f));
    does_ = &kDoes<Held>;
  }
  void TakeFrom(SmallFunction& other) noexcept {
    does_ = std::exchange(other.does_, nullptr);
    if (does_ != nullptr) does_->move(other.room_.data(), room_.data());
  }
  void Clear() noexcept {
    if (const Does* does = std::exchange(does_, nullptr)) does->destroy(room_.data());
  }

  alignas(std::max_align_t) mutable std::array<std::byte, kRoom> room_{};
  const Does* does_ = nullptr;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SMALL_FUNCTION_H_
