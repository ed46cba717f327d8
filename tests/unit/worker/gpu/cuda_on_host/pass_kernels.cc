// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/pass_kernels.cu"  // as plain C++
