// Starts a kernel with one thread, or one block, for each of `count` pieces of work.
//
// The tests have another header of this name, which runs kernels on the processor:
// tests/cuda/emulation/.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weightpager::cuda {

/// Threads of a block. They are several warps on every GPU, and few enough that small work spreads
/// over several blocks.
constexpr uint32_t block_threads = 256;

/// The kernel takes the number of pieces as its first parameter, and finds its piece by blockIdx
/// and threadIdx. If the kernel cannot be started, CUDA's last error says so.
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
