// SPDX-License-Identifier: Apache-2.0
// The threads of a CUDA block on a CPU, for tests. Under the thread sanitizer they are threads of
// this process, so that a missing barrier is reported as a race. In other builds they are contexts
// that take turns in one thread, which is many times faster, and a barrier that not all of them
// reach ends the test.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_BLOCK_THREADS_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_BLOCK_THREADS_H_

#include <cstddef>
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

struct dim3 {
  dim3(unsigned x_is = 1) : x(x_is) {}  // NOLINT(google-explicit-constructor): as CUDA has it
  unsigned x;
};
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

}  // namespace cuda_on_host

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_BLOCK_THREADS_H_
