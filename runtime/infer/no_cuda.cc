// For builds without CUDA's compiler: opening a GPU's backend is an error.
#include "runtime/infer/backend.h"

namespace weightpager::infer {

Result<std::unique_ptr<Backend>> open_cuda_backend(const network::Network&,
                                                   const network::WeightSource&,
                                                   const InferenceOptions&) {
  return fail("this build of weightpager has no CUDA",
              "install CUDA's compiler (nvcc) and build again: cmake --preset release says whether "
              "it was found");
}

}  // namespace weightpager::infer
