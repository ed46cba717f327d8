// SPDX-License-Identifier: Apache-2.0
// The one file that is compiled with OpenMP (worker/model/CMakeLists.txt); its run-time library is LibTorch's.
#include "worker/model/parallel.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <vector>

// From OpenMP's run-time library; only GCC has omp.h, which declares them.
extern "C" {
int omp_get_max_threads(void);
int omp_in_parallel(void);
}

namespace atl {

void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& work) {
  if (count <= 0) return;
  const int64_t most = (count + grain - 1) / grain;
  const int parts = omp_in_parallel() != 0 ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), most));
  if (parts <= 1) return work(0, count);
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(parts));  // none may leave a parallel section
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      thrown[static_cast<size_t>(part)] = std::current_exception();
    }
  }
  for (const std::exception_ptr& e : thrown) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace atl
