// SPDX-License-Identifier: Apache-2.0
// A worker's memory for a job: bytes by item, with place and phase. Used for the worker's decision
// on a job (worker/train/memory.h), `atoll plan` and the table of docs/worker-memory.md. Tests compare
// it with the worker's allocations. Activations are not included: worker/train estimates them. Pure
// arithmetic.
#ifndef ATOLL_COMMON_PLAN_WORKER_MEMORY_H_
#define ATOLL_COMMON_PLAN_WORKER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"

namespace atl {

// Encoded bytes of a number of elements: EncodedSize of common/codec, a room above this one.
using WireSize = uint64_t (*)(CodecKind codec, uint64_t elements);

enum class MemoryItem {
  kParameters,   // fp32, trained
  kGradients,    // fp32
  kMoments,      // two of AdamW, fp32; none with SGD
  kWorkingCopy,  // bf16 only: rounded parameters, stored as fp32 by a CPU without bf16 instructions
  kOuterCopy,    // fp32, the coordinator's parameters
  kWindows,      // GPU only: pinned copies of the parameters of every fragment
  kSnapshot,  // CPU only: copy of the largest fragment for a contribution; counted even if the next step waits for the
              // update
  kResidual,  // error of the upload codec, as stored by the error memory
  kForming,   // GPU that forms contributions only: working memory for the largest fragment
  kFormed,    // same case only: the result for that fragment, pinned
  kKeptDownload,     // buffer of a whole fragment, kept for later updates: the largest one
  kPendingResidual,  // replaces the residual when the contribution is accepted
  kContribution,     // encoded, until its fate is known
  kUpdates,          // encoded, fetched and not yet applied; the largest one uses kKeptDownload
  kChange,           // fp32, of the largest fragment: the change of the outer copy by an update
  kEvaluated,        // parameters for an evaluation, unless read in place
};

enum class MemoryPlace { kGpu, kHost };  // with a CPU everything is on the host
enum class MemoryPhase {
  kAlways,
  kUnderWay,  // for each fragment between send and merge; for all of them during a coordinator outage
  kBetween,   // while no pass runs, in place of activations: only the largest item counts
};

struct WorkerMemoryItem {
  MemoryItem item = MemoryItem::kParameters;
  MemoryPlace place = MemoryPlace::kHost;
  MemoryPhase phase = MemoryPhase::kAlways;
  uint64_t bytes = 0;
};

// Parameters of the estimate.
struct WorkerMemoryJob {
  uint64_t parameters = 0;
  uint64_t largest_fragment = 0;  // elements; at most `parameters`
  bool bf16 = false;              // model.precision
  bool adamw = true;              // otherwise SGD
  CodecKind upload_codec = CodecKind::kFp32, download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  bool evaluates = false;  // the worker may have to evaluate
};
// Derived from a resolved spec and its layout.
WorkerMemoryJob WorkerMemoryJobOf(const JobSpec& spec, const ModelLayout& layout);

struct WorkerMemoryDevice {
  bool gpu = false;
  bool bf16_products = true;  // has bf16 instructions: every GPU, some CPUs
  bool forms = false;         // the GPU's kernels form contributions; loco always runs on the host
};

// In the order of MemoryItem, without items of zero bytes.
std::vector<WorkerMemoryItem> WorkerMemoryItems(const WorkerMemoryJob& job, const WorkerMemoryDevice& device,
                                                WireSize wire_size);

uint64_t BytesOf(const std::vector<WorkerMemoryItem>& items, MemoryItem item);  // 0: no such item
// Sum of the kAlways and kUnderWay items at `place`, with every fragment between send and merge.
uint64_t HeldBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place);
// The largest kBetween item at `place`. A worker needs HeldBytes plus the larger of this and its activations.
uint64_t BetweenBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_WORKER_MEMORY_H_
