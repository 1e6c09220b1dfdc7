// Starts a kernel with a thread for each of `count` pieces of work, or a block for each.
//
// The tests have a header of this name of their own, which runs kernels on the processor:
// tests/cuda/emulation/.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weightpager::cuda {

/// Threads of a block: several waves of warps on every GPU, and few enough that small work spreads.
constexpr uint32_t block_threads = 256;

/// Kernels take the number of pieces as their first parameter, and find their piece by blockIdx and
/// threadIdx. Errors of the start itself are CUDA's last error.
template <typename... Parameters>
void launch_threads(void (*kernel)(uint32_t, Parameters...), cudaStream_t stream, uint32_t count,
                    std::type_identity_t<Parameters>... parameters) {
  if (count == 0) return;
  kernel<<<(count - 1) / block_threads + 1, block_threads, 0, stream>>>(count, parameters...);
}

/// The threads of a block work on one piece together; its number is blockIdx.x.
template <typename... Parameters>
void launch_blocks(void (*kernel)(Parameters...), cudaStream_t stream, uint32_t count,
                   std::type_identity_t<Parameters>... parameters) {
  if (count == 0) return;
  kernel<<<count, block_threads, 0, stream>>>(parameters...);
}

}  // namespace weightpager::cuda
