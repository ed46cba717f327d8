// SPDX-License-Identifier: Apache-2.0
// What a worker's memory holds of a job: bytes by item, where they lie and when they are there. Behind the worker's
// verdict on a job (worker/train/memory.h), `atoll plan` and the table of docs/capacity.md, and held against what a
// worker allocates by tests. Activations are not in it: worker/train estimates them. Pure arithmetic.
#ifndef ATOLL_COMMON_PLAN_WORKER_MEMORY_H_
#define ATOLL_COMMON_PLAN_WORKER_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"

namespace atl {

// Exact bytes of so many elements: EncodedSize of common/codec, which lies above this room.
using WireSize = uint64_t (*)(CodecKind codec, uint64_t elements);

enum class MemoryItem {
  kParameters,    // fp32, what is trained
  kGradients,     // fp32
  kMoments,       // two of AdamW, fp32; none with SGD
  kWorkingCopy,   // bf16 only: parameters rounded to it, held as fp32 by a CPU without instructions for bf16
  kOuterCopy,     // fp32, what the coordinator holds
  kWindows,       // GPU only: pinned copies of the parameters, of every fragment
  kSnapshot,      // CPU only: a copy of the fragment that a contribution is formed of; of the largest one. Counted, and
                  // not taken, where the next step waits for the update
  kResidual,      // what the upload codec lost, as the error memory keeps it
  kForming,       // GPU that forms contributions only: what it takes for one of the largest fragment
  kFormed,        // the same only: what it made of that fragment, pinned
  kKeptDownload,  // the buffer of a whole fragment, kept for the updates to come: the largest one
  kPendingResidual,  // the residual that takes the place of the other when the contribution counts
  kContribution,     // encoded, until its fate is known
  kUpdates,          // encoded, fetched and not yet applied; the largest one lies in kKeptDownload
  kChange,           // fp32, of the largest fragment: by what an update moved the outer copy
  kEvaluated,        // the parameters that an evaluation reads, where they are not read in place
};
const char* MemoryItemName(MemoryItem item);  // "parameters", "outer copy", ...

enum class MemoryPlace { kGpu, kHost };  // with a CPU all is the host's
enum class MemoryPhase {
  kAlways,
  kUnderWay,  // of each fragment between its send and its merge; of all of them while a coordinator is away
  kBetween,   // while no pass runs, so in the place of activations: the largest item alone counts
};

struct WorkerMemoryItem {
  MemoryItem item = MemoryItem::kParameters;
  MemoryPlace place = MemoryPlace::kHost;
  MemoryPhase phase = MemoryPhase::kAlways;
  uint64_t bytes = 0;
};

// What the bytes follow from.
struct WorkerMemoryJob {
  uint64_t parameters = 0;
  uint64_t largest_fragment = 0;  // elements; at most `parameters`
  bool bf16 = false;              // model.precision
  bool adamw = true;              // SGD else
  CodecKind upload_codec = CodecKind::kFp32, download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  bool evaluates = false;  // a worker may be asked to
};
// Of a resolved spec and its layout.
WorkerMemoryJob WorkerMemoryJobOf(const JobSpec& spec, const ModelLayout& layout);

struct WorkerMemoryDevice {
  bool gpu = false;
  bool bf16_products = true;  // it multiplies bf16: every GPU, and a CPU with instructions for it
  bool forms = false;         // contributions are formed by the GPU's kernels; loco is the host's all the same
};

// In the order of MemoryItem, without those of no bytes.
std::vector<WorkerMemoryItem> WorkerMemoryItems(const WorkerMemoryJob& job, const WorkerMemoryDevice& device,
                                                WireSize wire_size);

uint64_t BytesOf(const std::vector<WorkerMemoryItem>& items, MemoryItem item);  // 0: there is none
// kAlways and kUnderWay of all fragments.
uint64_t HeldBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place);
// The largest kBetween: a worker needs HeldBytes and this or its activations, whichever is more.
uint64_t BetweenBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place);

// Bytes a parameter of every item by codec, error memory, precision and device, in Markdown: docs/capacity.md.
std::string WorkerMemoryTable(WireSize wire_size);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_WORKER_MEMORY_H_
