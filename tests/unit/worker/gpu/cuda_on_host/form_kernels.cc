#include "worker/gpu/form_kernels.cu"  // as plain C++
