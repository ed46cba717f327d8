#include "worker/gpu/pass_kernels.cu"  // as plain C++
