// See status.h.
#include "runtime/pipeline/cuda/status.h"

#include <fmt/format.h>

namespace weightpager::cuda {
namespace {

const char* hint_for(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "choose a smaller --window, or end what else is on the GPU (`nvidia-smi` lists it)";
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return "`weightpager doctor` says what there is of GPUs and their driver; without, leave out "
             "--device cuda";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return "this build has no code for this GPU: build with -DCMAKE_CUDA_ARCHITECTURES=native "
             "there";
    default:
      return "`nvidia-smi` and `dmesg` may say more; a GPU that has failed needs the process to be "
             "started again";
  }
}

}  // namespace

Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return fail(fmt::format("{}: {} (CUDA error {})", what, cudaGetErrorString(error),
                          static_cast<int>(error)),
              hint_for(error));
}

Result<CudaEvent> make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  Status made = check(cudaEventCreateWithFlags(&event, flags), "no event on the GPU");
  if (!made) return forward_error(std::move(made));
  return CudaEvent(event);
}

Result<Stream> make_stream() {
  cudaStream_t stream = nullptr;
  Status made =
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "no stream on the GPU");
  if (!made) return forward_error(std::move(made));
  return Stream(stream);
}

}  // namespace weightpager::cuda
