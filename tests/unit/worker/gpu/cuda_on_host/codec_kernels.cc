// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/codec_kernels.cu"  // as plain C++
