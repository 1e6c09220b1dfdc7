// CUDA's error codes as errors for users.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>

#include "pager/base/result.h"

namespace weightpager::cuda {

/// `what` says what could not be done: "no memory for activations".
Status check(cudaError_t error, std::string_view what);

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using CudaEvent = std::unique_ptr<CUevent_st, DestroyEvent>;
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;

/// `flags`: those of cudaEventCreateWithFlags.
Result<CudaEvent> make_event(unsigned flags);
/// The stream waits for other streams only if it is told to.
Result<Stream> make_stream();

}  // namespace weightpager::cuda
