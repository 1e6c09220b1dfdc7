// The kernels themselves, compiled for the processor.
#include "runtime/ops/cuda/kernels.cu"  // NOLINT(bugprone-suspicious-include)
