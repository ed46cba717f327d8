#include "worker/gpu/step_kernels.cu"  // as plain C++
