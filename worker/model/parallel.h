// SPDX-License-Identifier: Apache-2.0
// Work shared out to the threads that LibTorch's own operators run on, as many as at::set_num_threads() allows once the
// calling thread has used LibTorch. at::parallel_for is not for us: in code that is not compiled with OpenMP its header
// is a plain loop.
#ifndef ATOLL_WORKER_MODEL_PARALLEL_H_
#define ATOLL_WORKER_MODEL_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace atl {

// work(begin, end) for equal parts that cover [0, count) once, no more of them than threads or than grains begun, each
// on one thread; returns when all are done. Inside another parallel part: on the calling thread. Rethrows what `work`
// throws, of several parts the first's.
void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PARALLEL_H_
