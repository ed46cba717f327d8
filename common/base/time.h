// SPDX-License-Identifier: Apache-2.0
// Time as values. An Instant is a point on one machine's monotonic clock in nanoseconds and has no
// meaning on another machine. Wall time is for people and certificates only and is a plain string
// or WallNanos.
#ifndef ATOLL_COMMON_BASE_TIME_H_
#define ATOLL_COMMON_BASE_TIME_H_

#include <compare>
#include <cstdint>

namespace atl {

// A length of time in nanoseconds; may be negative.
struct Duration {
  int64_t ns = 0;
  friend auto operator<=>(const Duration&, const Duration&) = default;
  friend Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend Duration operator*(Duration a, int64_t k) { return {a.ns * k}; }
  friend Duration operator/(Duration a, int64_t k) { return {a.ns / k}; }
};
constexpr Duration Nanoseconds(int64_t n) { return {n}; }
constexpr Duration Microseconds(int64_t n) { return {n * 1'000}; }
constexpr Duration Milliseconds(int64_t n) { return {n * 1'000'000}; }
constexpr Duration Seconds(int64_t n) { return {n * 1'000'000'000}; }
inline double ToSeconds(Duration d) { return static_cast<double>(d.ns) * 1e-9; }

// A point in time on this process's monotonic clock.
struct Instant {
  int64_t ns = 0;
  friend auto operator<=>(const Instant&, const Instant&) = default;
  friend Instant operator+(Instant t, Duration d) { return {t.ns + d.ns}; }
  friend Instant operator-(Instant t, Duration d) { return {t.ns - d.ns}; }
  friend Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
};
constexpr Instant kNever{INT64_MAX};

// The only source of time. Pure rooms have no Clock: callers pass the time. The simulator has its own. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const = 0;
  // Unix time in nanoseconds, for logs, file stamps and certificates. No other decision depends on it.
  virtual int64_t WallNanos() const = 0;
};

// CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  Instant Now() const override;
  int64_t WallNanos() const override;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_TIME_H_
