// A wall clock that a test moves under a real process (LD_PRELOAD). The file MOVED_CLOCK_FILE holds two numbers of 8
// bytes, little-endian, in nanoseconds: what the process reads is the system's time plus the first, or, where the
// second is not 0, always the second. Monotonic clocks are left alone. Waits until a wall-clock time are translated
// back; one that has begun when the clock moves ends as it would have.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;
// Of a time without a clock: above it, it is one of the wall (2001), below it one since the start of the machine.
constexpr int64_t kEarliestWall_s = 1'000'000'000;

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

const volatile int64_t* Numbers() {
  static const volatile int64_t* const numbers = [] {
    const char* path = std::getenv("MOVED_CLOCK_FILE");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* page = fd < 0 ? MAP_FAILED : mmap(nullptr, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) std::abort();  // a test that moves nothing shows nothing
    return static_cast<const volatile int64_t*>(page);
  }();
  return numbers;
}

// 0: the clock goes.
int64_t StoodAt_ns() { return Numbers()[1]; }

// What the process reads is so far from the system's time.
int64_t Offset_ns() {
  static const auto real = Real(&clock_gettime, "clock_gettime");
  timespec now{};
  if (StoodAt_ns() == 0 || real(CLOCK_REALTIME, &now) != 0) return Numbers()[0];
  return StoodAt_ns() - (now.tv_sec * kSecond_ns + now.tv_nsec);
}

timespec Plus(const timespec& time, int64_t ns) {
  const int64_t sum = time.tv_nsec + ns % kSecond_ns;
  const int64_t carry = sum < 0 ? -1 : sum / kSecond_ns;
  return {static_cast<time_t>(time.tv_sec + ns / kSecond_ns + carry), static_cast<long>(sum - carry * kSecond_ns)};
}

// A deadline of the process's wall clock, as the system's.
timespec Back(const timespec& time) { return time.tv_sec < kEarliestWall_s ? time : Plus(time, -Offset_ns()); }

bool IsWall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = Real(&clock_gettime, "clock_gettime");
  const int result = real(clock, time);
  if (result != 0 || !IsWall(clock)) return result;
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
  static const auto real = Real(&pthread_cond_timedwait, "pthread_cond_timedwait");
  const timespec at = Back(*until);
  return real(cond, mutex, &at);
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static const auto real = Real(&pthread_cond_clockwait, "pthread_cond_clockwait");
  const timespec at = IsWall(clock) ? Back(*until) : *until;
  return real(cond, mutex, clock, &at);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static const auto real = Real(&sem_timedwait, "sem_timedwait");
  const timespec at = Back(*until);
  return real(semaphore, &at);
}

long syscall(long number, ...) noexcept {
  static const auto real = Real(&syscall, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const bool waits = number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0;
  if (!waits) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const timespec at = Back(*reinterpret_cast<const timespec*>(a[3]));
  return real(number, a[0], a[1], a[2], reinterpret_cast<long>(&at), a[4], a[5]);
}

}  // extern "C"
