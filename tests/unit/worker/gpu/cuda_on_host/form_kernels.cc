// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/form_kernels.cu"  // as plain C++
