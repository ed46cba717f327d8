// SPDX-License-Identifier: Apache-2.0
// CUDA's kernel language on a CPU, for tests. The compiler finds this header instead of the
// toolkit's, so that kernels (worker/gpu/*.cu) compile as plain C++ and run without a GPU. A launch
// is complete when it returns; its blocks run one after the other. Under the thread sanitizer, the
// threads of a block are threads of this process, so that a missing barrier is reported as a race.
// In other builds they are contexts that take turns in one thread, which is many times faster. Only
// the features that this project's kernels use exist; others do not compile.
//
// A launch has at most two blocks, so that small tests reach the later rounds of a block.
//
// Differences from a device: memory is the host's; there is one stream; shared memory keeps the
// values of the previous block, so that only one kernel is launched at a time; exponentials are the
// host library's.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define ATOLL_CUDA_THREADS
#elif __has_feature(address_sanitizer)
#define ATOLL_CUDA_TELLS_ASAN
#endif
#endif

#ifdef ATOLL_CUDA_THREADS
#include <barrier>
#include <thread>
#else
#include <ucontext.h>

#include <memory>

#include "common/base/check.h"
#endif
#ifdef ATOLL_CUDA_TELLS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice = 3 };
using cudaStream_t = struct CUstream_st*;

struct dim3 {
  dim3(unsigned x_is = 1) : x(x_is) {}  // NOLINT(google-explicit-constructor): as CUDA has it
  unsigned x;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) ushort4 {
  uint16_t x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ushort4 make_ushort4(uint16_t x, uint16_t y, uint16_t z, uint16_t w) { return {x, y, z, w}; }

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_host {

#ifdef ATOLL_CUDA_THREADS

using Barrier = std::barrier<>;

// Runs `body` once for each thread of a block, with threadIdx set.
template <typename Body>
void RunThreads(unsigned threads, const Body& body) {
  std::vector<std::thread> running;
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&body, thread] {
      threadIdx.x = thread;
      body();
    });
  }
  for (std::thread& thread : running) thread.join();
}

#else

class Turns;
inline thread_local Turns* turns = nullptr;

class Barrier {
 public:
  explicit Barrier(unsigned threads) : threads_(threads) {}
  inline void arrive_and_wait();
  unsigned times_passed() const { return times_passed_; }

 private:
  unsigned threads_, waiting_ = 0, times_passed_ = 0;
};

// The contexts of a block's threads. Each runs until it waits at a barrier or ends.
class Turns {
 public:
  static constexpr size_t kStackBytes = 64 << 10;

  Turns(unsigned threads, void (*run)(void*), void* body) : run_(run), body_(body), contexts_(threads) {
    static thread_local std::vector<std::unique_ptr<std::byte[]> > stacks;  // kept for the next launch
    while (stacks.size() < threads) stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(kStackBytes));
    for (unsigned thread = 0; thread < threads; ++thread) {
      Context& context = contexts_[thread];
      context.stack = stacks[thread].get();
      getcontext(&context.place);
      context.place.uc_stack.ss_sp = context.stack;
      context.place.uc_stack.ss_size = kStackBytes;
      makecontext(&context.place, Begin, 0);
    }
  }

  void Run() {
    turns = this;
    for (size_t left = contexts_.size(); left > 0;) {
      bool any_ran = false;
      for (unsigned thread = 0; thread < contexts_.size(); ++thread) {
        Context& context = contexts_[thread];
        if (context.ended || (context.at != nullptr && context.at->times_passed() == context.seen)) continue;
        any_ran = true;
        threadIdx.x = thread;
        current_ = &context;
        Leave(&own_fake_stack_, context.stack, kStackBytes);
        swapcontext(&own_place_, &context.place);
        Arrive(own_fake_stack_, nullptr, nullptr);
        if (context.ended) --left;
      }
      ATOLL_CHECK(any_ran, "every thread of a block reaches the barrier at which others wait");
    }
    turns = nullptr;
  }

  void WaitAt(const Barrier& barrier) {
    Context& context = *current_;
    context.at = &barrier;
    context.seen = barrier.times_passed();
    Leave(&context.fake_stack, own_stack_, own_stack_bytes_);
    swapcontext(&context.place, &own_place_);
    Arrive(context.fake_stack, &own_stack_, &own_stack_bytes_);
    context.at = nullptr;
  }

 private:
  struct Context {
    ucontext_t place{};
    std::byte* stack = nullptr;
    const Barrier* at = nullptr;  // where it waits
    unsigned seen = 0;            // that barrier's times_passed() then
    bool ended = false;
    void* fake_stack = nullptr;
  };

  static void Begin() {
    Turns& all = *turns;
    Arrive(nullptr, &all.own_stack_, &all.own_stack_bytes_);
    all.run_(all.body_);
    all.current_->ended = true;
    Leave(nullptr, all.own_stack_, all.own_stack_bytes_);
    setcontext(&all.own_place_);
  }

  // The address sanitizer must know which stack is in use.
#ifdef ATOLL_CUDA_TELLS_ASAN
  static void Leave(void** fake_stack, const void* to, size_t bytes) {
    __sanitizer_start_switch_fiber(fake_stack, to, bytes);
  }
  static void Arrive(void* fake_stack, const void** from, size_t* bytes) {
    __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
  }
#else
  static void Leave(void**, const void*, size_t) {}
  static void Arrive(void*, const void**, size_t*) {}
#endif

  void (*run_)(void*);
  void* body_;
  std::vector<Context> contexts_;
  Context* current_ = nullptr;
  ucontext_t own_place_{};
  void* own_fake_stack_ = nullptr;
  const void* own_stack_ = nullptr;
  size_t own_stack_bytes_ = 0;
};

void Barrier::arrive_and_wait() {
  if (++waiting_ < threads_) return turns->WaitAt(*this);
  waiting_ = 0;
  ++times_passed_;
}

// Runs `body` once for each thread of a block, with threadIdx set.
template <typename Body>
void RunThreads(unsigned threads, const Body& body) {
  Turns(
      threads, [](void* given) { (*static_cast<const Body*>(given))(); }, const_cast<Body*>(&body))
      .Run();
}

#endif

constexpr unsigned kWarp = 32;
constexpr unsigned kMostBlocks = 2;

// Exchange of values between the lanes of a warp.
struct Warp {
  Barrier barrier{kWarp};
  std::array<uint64_t, kWarp> words{};
};

// A running block. The number of threads is a multiple of a warp.
struct Team {
  explicit Team(unsigned threads) : barrier(threads), warps(threads / kWarp) {}
  Barrier barrier;
  std::vector<Warp> warps;
};

inline thread_local Team* team = nullptr;

inline unsigned Lane() { return threadIdx.x % kWarp; }

// Collects one word of every lane of the warp for all lanes. All lanes must call it.
template <typename T, typename Look>
auto Among(T mine, const Look& look) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  Warp& warp = team->warps[threadIdx.x / kWarp];
  std::memcpy(&warp.words[Lane()], &mine, sizeof mine);
  warp.barrier.arrive_and_wait();
  const auto of = [&warp](unsigned lane) {
    T out;
    std::memcpy(&out, &warp.words[lane], sizeof out);
    return out;
  };
  const auto result = look(of);
  warp.barrier.arrive_and_wait();
  return result;
}

template <typename Kernel>
void Run(dim3 grid, dim3 threads, const Kernel& kernel) {
  Team all(threads.x);
  RunThreads(threads.x, [&] {
    blockDim = threads, gridDim = grid, team = &all;
    for (unsigned block = 0; block < grid.x; ++block) {
      blockIdx.x = block;
      kernel();
      all.barrier.arrive_and_wait();
    }
  });
}

}  // namespace cuda_on_host

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> given(std::forward<Arguments>(arguments)...);
  cuda_on_host::Run(std::min(config->gridDim.x, cuda_on_host::kMostBlocks), config->blockDim,
                    [&] { std::apply(kernel, given); });
  return cudaSuccess;
}

inline void __syncthreads() { cuda_on_host::team->barrier.arrive_and_wait(); }
inline uint32_t __reduce_max_sync(uint32_t, uint32_t mine) {
  return cuda_on_host::Among(mine, [](const auto& of) {
    uint32_t largest = 0;
    for (unsigned lane = 0; lane < cuda_on_host::kWarp; ++lane) largest = std::max(largest, of(lane));
    return largest;
  });
}
template <typename T>
T __shfl_sync(uint32_t, T mine, unsigned from) {
  return cuda_on_host::Among(mine, [from](const auto& of) { return of(from % cuda_on_host::kWarp); });
}
// Lanes form segments of `width`; a lane with a source beyond its segment keeps its own value.
template <typename T>
T __shfl_down_sync(uint32_t, T mine, unsigned by, unsigned width = cuda_on_host::kWarp) {
  return cuda_on_host::Among(mine, [by, width](const auto& of) {
    const unsigned lane = cuda_on_host::Lane();
    return of(lane % width + by < width ? lane + by : lane);
  });
}
inline uint32_t atomicMax(uint32_t* at, uint32_t value) {
  std::atomic_ref<uint32_t> word(*at);
  uint32_t before = word.load();
  while (before < value && !word.compare_exchange_weak(before, value)) {
  }
  return before;
}

using std::max;
using std::min;

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_
