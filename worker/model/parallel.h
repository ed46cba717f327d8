// SPDX-License-Identifier: Apache-2.0
// Runs work on the threads of LibTorch's operators, as many as at::set_num_threads() allows, once
// the calling thread has used LibTorch. at::parallel_for is not usable here: without OpenMP, its
// header compiles to a plain loop.
#ifndef ATOLL_WORKER_MODEL_PARALLEL_H_
#define ATOLL_WORKER_MODEL_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace atl {

// work(begin, end) for equal parts that cover [0, count) once. There are at most as many parts as threads, and
// as grains (rounded up). Each part runs on one thread; returns when all are done. Inside another parallel
// section: on the calling thread. Rethrows what `work` throws; the first part's exception if there are several.
void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PARALLEL_H_
