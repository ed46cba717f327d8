// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD library that moves the clocks of a real process. The file MOVED_CLOCK_FILE holds five
// little-endian 8-byte numbers, times in nanoseconds:
//   0, 1  the process reads the wall clock as the system's time plus number 0; if number 1 is not 0, it always reads
//         number 1. Monotonic clocks are unchanged.
//   2     rate of all clocks, wall and monotonic: ticks that the process reads in a thousand of the system's; 1000 is
//         the true rate. Set before the process starts, and not together with 0 and 1.
//   3, 4  the system's wall clock and CLOCK_MONOTONIC at which both clocks of the process are right.
// Timeouts and deadlines are translated back to system time. A wait in progress when the wall clock
// moves ends as it would without the move.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "tests/integration/preload.h"

namespace {

using atl::preload::Real;

constexpr int64_t kSecond_ns = 1'000'000'000;
// Distinguishes times given without a clock: above it a wall time (after 2001), below it a time
// since boot.
constexpr int64_t kEarliestWall_s = 1'000'000'000;
constexpr int64_t kForEver_s = 9'000'000'000;  // nanoseconds of larger values overflow

const volatile int64_t* Numbers() {
  static const volatile int64_t* const numbers = [] {
    const char* path = std::getenv("MOVED_CLOCK_FILE");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* page = fd < 0 ? MAP_FAILED : mmap(nullptr, 5 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) std::abort();  // a test that moves nothing proves nothing
    return static_cast<const volatile int64_t*>(page);
  }();
  return numbers;
}

// The time at which the wall clock is stopped; 0: it runs.
int64_t StoodAt_ns() { return Numbers()[1]; }

// The difference between the process's wall clock and the system's.
int64_t Offset_ns() {
  static constinit Real real(&clock_gettime, "clock_gettime");
  timespec now{};
  if (StoodAt_ns() == 0 || real(CLOCK_REALTIME, &now) != 0) return Numbers()[0];
  return StoodAt_ns() - (now.tv_sec * kSecond_ns + now.tv_nsec);
}

int64_t NsOf(const timespec& time) { return time.tv_sec * kSecond_ns + time.tv_nsec; }

timespec TimeOf(int64_t ns) {
  const int64_t rest = ns % kSecond_ns, carry = rest < 0 ? 1 : 0;
  return {static_cast<time_t>(ns / kSecond_ns - carry), static_cast<long>(rest + carry * kSecond_ns)};
}

timespec Plus(const timespec& time, int64_t ns) { return TimeOf(NsOf(time) + ns); }

int64_t PerThousand() { return Numbers()[2]; }
bool IsRight() { return PerThousand() == 1000; }

// Converts durations between system and process. Thousands and remainder separately, to avoid
// overflow.
int64_t Times(int64_t ns, int64_t by, int64_t over) { return ns / over * by + ns % over * by / over; }
int64_t Stretched(int64_t ns) { return Times(ns, PerThousand(), 1000); }
int64_t Shrunk(int64_t ns) { return Times(ns, 1000, PerThousand()); }

bool IsWall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }
bool IsMonotonic(clockid_t clock) {
  return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE ||
         clock == CLOCK_BOOTTIME;
}
// The system's time at which a clock with another rate is right.
int64_t Anchor_ns(bool wall) { return Numbers()[wall ? 3 : 4]; }

// Converts a deadline on one of the process's clocks to the system's.
timespec Back(const timespec& time, bool wall) {
  if (time.tv_sec >= kForEver_s) return time;
  if (!IsRight()) return TimeOf(Anchor_ns(wall) + Shrunk(NsOf(time) - Anchor_ns(wall)));
  return wall ? Plus(time, -Offset_ns()) : time;
}
timespec Back(const timespec& time) { return Back(time, time.tv_sec >= kEarliestWall_s); }

// A timeout in milliseconds, rounded up; negative: forever.
int Back_ms(int ms) {
  if (ms <= 0 || IsRight()) return ms;
  return static_cast<int>(std::min<int64_t>(INT_MAX, (int64_t{ms} * 1000 + PerThousand() - 1) / PerThousand()));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static constinit Real real(&clock_gettime, "clock_gettime");
  const int result = real(clock, time);
  if (result != 0) return result;
  if (!IsRight() && (IsWall(clock) || IsMonotonic(clock))) {
    const int64_t anchor_ns = Anchor_ns(IsWall(clock));
    *time = TimeOf(anchor_ns + Stretched(NsOf(*time) - anchor_ns));
    return result;
  }
  if (!IsWall(clock)) return result;
  const int64_t stood = StoodAt_ns();
  *time = stood == 0 ? Plus(*time, Offset_ns()) : timespec{stood / kSecond_ns, stood % kSecond_ns};
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, static_cast<suseconds_t>(now.tv_nsec / 1000)};
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex, const timespec* until) {
  static constinit Real real(&pthread_cond_timedwait, "pthread_cond_timedwait");
  const timespec at = Back(*until);
  return real(cond, mutex, &at);
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static constinit Real real(&pthread_cond_clockwait, "pthread_cond_clockwait");
  const timespec at = Back(*until, IsWall(clock));
  return real(cond, mutex, clock, &at);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static constinit Real real(&sem_timedwait, "sem_timedwait");
  const timespec at = Back(*until);
  return real(semaphore, &at);
}

// Sleeps. The remaining time after a signal is in system time; no caller here uses it.
int nanosleep(const timespec* time, timespec* left) {
  static constinit Real real(&nanosleep, "nanosleep");
  const timespec wait = IsRight() ? *time : TimeOf(Shrunk(NsOf(*time)));
  return real(&wait, left);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static constinit Real real(&clock_nanosleep, "clock_nanosleep");
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const timespec wait = absolute ? Back(*time, IsWall(clock)) : IsRight() ? *time : TimeOf(Shrunk(NsOf(*time)));
  return real(clock, flags, &wait, left);
}

int poll(pollfd* fds, nfds_t count, int ms) {
  static constinit Real real(&poll, "poll");
  return real(fds, count, Back_ms(ms));
}

int epoll_wait(int fd, epoll_event* events, int most, int ms) {
  static constinit Real real(&epoll_wait, "epoll_wait");
  return real(fd, events, most, Back_ms(ms));
}

int epoll_pwait(int fd, epoll_event* events, int most, int ms, const sigset_t* mask) {
  static constinit Real real(&epoll_pwait, "epoll_pwait");
  return real(fd, events, most, Back_ms(ms), mask);
}

long syscall(long number, ...) noexcept {
  static constinit Real real(&syscall, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const long command = a[1] & FUTEX_CMD_MASK;
  const bool until = command == FUTEX_WAIT_BITSET,
             waits = number == SYS_futex && (until || command == FUTEX_WAIT) && a[3] != 0;
  if (!waits) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const timespec& time = *reinterpret_cast<const timespec*>(a[3]);
  const timespec at = until       ? Back(time, (a[1] & FUTEX_CLOCK_REALTIME) != 0)
                      : IsRight() ? time
                                  : TimeOf(Shrunk(NsOf(time)));
  return real(number, a[0], a[1], a[2], reinterpret_cast<long>(&at), a[4], a[5]);
}

}  // extern "C"
