// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/allocations.h"

#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

namespace {

// Global, because `operator new` is global.

// Address range of an object's code. The table is filled before counting begins and only read
// afterwards.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
  bool standard = false;  // the C++ library, which allocates on behalf of its callers
};
constexpr size_t kRanges = 64, kFrames = 24;
std::array<CodeRange, kRanges> ranges;  // the first is the program's
size_t known = 0;

std::atomic<bool> counting{false};
std::atomic<uint64_t> own_calls{0}, own_bytes{0}, library_calls{0}, library_bytes{0};

int AddRanges(dl_phdr_info* info, size_t, void*) {
  for (const ElfW(Phdr) & part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || known == kRanges) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    const bool standard = std::strstr(info->dlpi_name, "libstdc++") != nullptr;
    ranges[known++] = {begin, begin + part.p_memsz, standard};
  }
  return 0;
}

bool IsIn(const CodeRange& range, const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= range.begin && at < range.end;
}

// True if the innermost caller outside the C++ library is the program.
bool AskedByProgram(const void* caller) {
  std::array<void*, kFrames> frames{};
  const auto count = static_cast<size_t>(backtrace(frames.data(), static_cast<int>(frames.size())));
  size_t at = 0;
  while (at < count && frames[at] != caller) ++at;
  for (; at < count; ++at) {
    const auto* range = std::find_if(ranges.begin(), ranges.begin() + known,
                                     [&](const CodeRange& each) { return IsIn(each, frames[at]); });
    if (range == ranges.begin() + known || !range->standard) return IsIn(ranges.front(), frames[at]);
  }
  return false;
}

void Count(size_t bytes, const void* caller) {
  const bool own = AskedByProgram(caller);
  (own ? own_calls : library_calls).fetch_add(1, std::memory_order_relaxed);
  (own ? own_bytes : library_bytes).fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) Count(bytes, __builtin_return_address(0));
  if (void* memory = std::malloc(std::max<size_t>(1, bytes))) return memory;
  std::abort();
}
// Needed under the address sanitizer: its own version of this form would not match the operator
// delete below, which gRPC calls.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  if (counting.load(std::memory_order_relaxed)) Count(bytes, __builtin_return_address(0));
  return std::malloc(std::max<size_t>(1, bytes));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace atl::bench {

Allocations CountAllocations(const std::function<void()>& run) {
  if (known == 0) {
    dl_iterate_phdr(AddRanges, nullptr);
    std::array<void*, 1> first{};
    backtrace(first.data(), 1);  // loads its libraries now, not while counting
  }
  for (std::atomic<uint64_t>* count : {&own_calls, &own_bytes, &library_calls, &library_bytes}) *count = 0;
  counting = true;
  run();
  counting = false;
  return {own_calls, own_bytes, library_calls, library_bytes};
}

}  // namespace atl::bench
