// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/step_kernels.cu"  // as plain C++
