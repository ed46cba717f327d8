// SPDX-License-Identifier: Apache-2.0
// A complete plugin table over plain host memory that forms contributions, with mistakes on demand.
// "Device" memory is any memory of the test. An operation reads device memory when it begins, as
// after a copy within the device, and writes when its event is waited for. That exposes a caller
// that does not wait, or that writes meanwhile.
#ifndef ATOLL_TESTS_UNIT_WORKER_DEVICE_FORMING_GPU_H_
#define ATOLL_TESTS_UNIT_WORKER_DEVICE_FORMING_GPU_H_

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/gpu/form_on_host.h"
#include "worker/device/gpu_abi.h"

struct atoll_gpu_context {
  int32_t index;
};

struct atoll_gpu_event {
  std::function<int32_t()> work;  // null: done
};

namespace atl::forming_gpu {

enum class Mistake { kNone, kBegin, kWait, kEncoding, kLoss, kSentNorm, kLostNorm, kFinite, kMerge, kMergeBegin };

// Calls and state of a test program's one fake device. Reset at the beginning of a test.
struct State {
  Mistake mistake = Mistake::kNone;
  uint64_t most_bytes = UINT64_MAX;   // limit for one allocation of device memory
  uint64_t most_pinned = UINT64_MAX;  // limit for one allocation of pinned host memory
  uint32_t merged = 0, formed = 0, copied_to_host = 0;
  std::map<const void*, uint64_t> memory;  // not yet freed
  uint32_t events = 0;                     // not yet freed
  std::string error;
};
inline State& Gpu() {
  static State state;
  return state;
}

inline int32_t Fail(const char* why) {
  Gpu().error = why;
  return -1;
}

inline int32_t Allocate(uint64_t bytes, uint64_t most, void** out) {
  if (bytes > most) return Fail("the fake has no more memory");
  *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  Gpu().memory[*out] = bytes;
  return 0;
}
inline int32_t Free(atoll_gpu_context*, void* memory) {
  Gpu().memory.erase(memory);
  std::free(memory);
  return 0;
}

inline atoll_gpu_event* NewEvent(std::function<int32_t()> work) {
  ++Gpu().events;
  return std::make_unique<atoll_gpu_event>(atoll_gpu_event{std::move(work)}).release();
}

inline int32_t Copy(atoll_gpu_context*, void* to, const void* from, uint64_t bytes, void*, atoll_gpu_event** done) {
  const auto* const begin = static_cast<const std::byte*>(from);
  *done = NewEvent([to, copy = std::vector<std::byte>(begin, begin + bytes)] {
    std::memcpy(to, copy.data(), copy.size());
    return 0;
  });
  return 0;
}
inline int32_t CopyToHost(atoll_gpu_context* context, void* to, const void* from, uint64_t bytes, void* stream,
                          atoll_gpu_event** done) {
  ++Gpu().copied_to_host;
  return Copy(context, to, from, bytes, stream, done);
}

// Returns a distinct number for each size. The fake needs no scratch, but checks that it got this
// size.
inline int32_t FormScratch(atoll_gpu_codec codec, uint64_t elements, int32_t with_residual, uint64_t* bytes) {
  *bytes = elements * (with_residual != 0 ? 16 : 12) + static_cast<uint64_t>(codec);
  return 0;
}

inline int32_t Finish(const atoll_gpu_forming& f, const std::vector<float>& local) {
  const Mistake mistake = Gpu().mistake;
  if (mistake == Mistake::kWait) return Fail("the fake has lost its event");
  auto* const encoded = static_cast<uint8_t*>(f.encoded);
  form_on_host::Form(f.codec, {f.outer, local.data(), f.residual, f.lost, encoded, f.sums}, f.elements);
  const uint64_t last = (f.elements - 1) / ATOLL_GPU_SUM_BLOCK;
  if (mistake == Mistake::kEncoding) encoded[f.encoded_bytes - 1] ^= 1;
  if (mistake == Mistake::kLoss && f.lost != nullptr) f.lost[f.elements - 1] += 1;
  if (mistake == Mistake::kSentNorm) f.sums[last].sent_squares += 1;
  if (mistake == Mistake::kLostNorm) f.sums[last].lost_squares += 1;
  if (mistake == Mistake::kFinite) f.sums[last].largest = 0x7f800000u;
  ++Gpu().formed;
  return 0;
}

inline int32_t Form(atoll_gpu_context*, const atoll_gpu_forming* forming, void*, atoll_gpu_event** done) {
  uint64_t scratch = 0;
  FormScratch(forming->codec, forming->elements, forming->residual != nullptr ? 1 : 0, &scratch);
  if (forming->scratch_bytes < scratch || Gpu().memory[forming->scratch] < scratch) return Fail("too little scratch");
  if (Gpu().mistake == Mistake::kBegin) return Fail("the fake launches nothing");
  *done = NewEvent([f = *forming, local = std::vector<float>(forming->local, forming->local + forming->elements)] {
    return Finish(f, local);
  });
  return 0;
}

// Work of the compute stream: finished before the test continues.
inline int32_t Merge(atoll_gpu_context*, float own, float others, const float* outer, float* local, uint64_t elements,
                     void*, atoll_gpu_event** done) {
  if (Gpu().mistake == Mistake::kMergeBegin) return Fail("the fake launches nothing");
  for (uint64_t i = 0; i < elements; ++i) {
    local[i] = own == 0 && others == 1 ? outer[i] : form_math::Merged(own, others, local[i], outer[i]);
  }
  if (Gpu().mistake == Mistake::kMerge) local[elements - 1] += 1;
  ++Gpu().merged;
  *done = NewEvent([] { return 0; });
  return 0;
}

inline int32_t EventWait(atoll_gpu_event* event) {
  const auto work = std::exchange(event->work, nullptr);
  return work ? work() : 0;
}

inline void CopyText(const std::string& text, char* out, uint64_t out_bytes) {
  if (out_bytes == 0) return;
  std::strncpy(out, text.c_str(), out_bytes - 1);
  out[out_bytes - 1] = '\0';
}

// Without `forms` the newest entries are missing, as in an older plugin.
inline atoll_gpu_table MakeTable(bool forms = true) {
  atoll_gpu_table table{};
  table.revision = ATOLL_GPU_ABI_REVISION;
  table.table_bytes = forms ? sizeof table : offsetof(atoll_gpu_table, memory_allocate);
  table.device_count = [](int32_t* count) {
    *count = 1;
    return int32_t{0};
  };
  table.device_open = [](int32_t index, atoll_gpu_context** out) {
    *out = std::make_unique<atoll_gpu_context>(atoll_gpu_context{index}).release();
    return int32_t{0};
  };
  table.device_close = [](atoll_gpu_context* context) { const std::unique_ptr<atoll_gpu_context> owned(context); };
  table.device_name = [](atoll_gpu_context*, char* out, uint64_t out_bytes) {
    CopyText("forming fake", out, out_bytes);
    return int32_t{0};
  };
  table.device_memory = [](atoll_gpu_context*, uint64_t* free_bytes, uint64_t* total_bytes) {
    *free_bytes = *total_bytes = 1000;
    return int32_t{0};
  };
  table.pinned_allocate = [](atoll_gpu_context*, uint64_t bytes, void** out) {
    return Allocate(bytes, Gpu().most_pinned, out);
  };
  table.memory_allocate = [](atoll_gpu_context*, uint64_t bytes, void** out) {
    return Allocate(bytes, Gpu().most_bytes, out);
  };
  table.pinned_free = table.memory_free = Free;
  table.copy_to_host = CopyToHost;
  table.copy_to_device = Copy;
  table.event_wait = EventWait;
  table.event_query = [](atoll_gpu_event* event, int32_t* done) {
    *done = event->work ? 0 : 1;
    return int32_t{0};
  };
  table.event_release = [](atoll_gpu_event* event) {
    --Gpu().events;
    const std::unique_ptr<atoll_gpu_event> owned(event);
  };
  table.last_error = [](char* out, uint64_t out_bytes) { CopyText(Gpu().error, out, out_bytes); };
  table.form_scratch = FormScratch;
  table.form = Form;
  table.merge = Merge;
  return table;
}

}  // namespace atl::forming_gpu

#endif  // ATOLL_TESTS_UNIT_WORKER_DEVICE_FORMING_GPU_H_
