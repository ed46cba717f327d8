// SPDX-License-Identifier: Apache-2.0
// AdamW for one element in double, from the paper's algorithm 2 (Loshchilov and Hutter 2019): the
// reference for the optimizer.
#ifndef ATOLL_TESTS_UNIT_WORKER_TRAIN_SCALAR_ADAMW_H_
#define ATOLL_TESTS_UNIT_WORKER_TRAIN_SCALAR_ADAMW_H_

#include <cmath>

#include "common/plan/job_spec.h"

namespace atl {

struct ScalarAdamW {
  double m = 0, v = 0;
  int steps = 0;
  double Update(double p, double g, double lr, double decay, const InnerOptimizerSpec& o) {
    ++steps;
    p -= lr * decay * p;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, steps)), v_hat = v / (1 - std::pow(o.beta2, steps));
    return p - lr * m_hat / (std::sqrt(v_hat) + o.epsilon);
  }
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_TRAIN_SCALAR_ADAMW_H_
