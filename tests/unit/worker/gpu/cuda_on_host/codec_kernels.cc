#include "worker/gpu/codec_kernels.cu"  // as plain C++
