// In place of runtime/ops/cuda/launch.cuh: kernels on the processor (see ../../../emulation.h).
#pragma once

#include <barrier>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/cuda/emulation/emulation.h"

// A block's threads share what a function keeps.
#undef __shared__
#define __shared__ static

namespace weightpager::cuda {

constexpr uint32_t block_threads = 256;

inline thread_local uint3 threadIdx;
inline thread_local uint3 blockIdx;
inline thread_local dim3 blockDim;
inline std::barrier<>* block_barrier = nullptr;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

// One kernel at a time: what is shared in a block is there once.
inline std::mutex& kernel_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <typename... Parameters>
void launch_threads(void (*kernel)(uint32_t, Parameters...), cudaStream_t stream, uint32_t count,
                    std::type_identity_t<Parameters>... parameters) {
  emulation::enqueue(stream, [=] {
    blockDim = dim3(block_threads);
    // Whole blocks, as on a GPU: the last ones have nothing to do.
    for (uint64_t place = 0;
         place < (uint64_t{count} + block_threads - 1) / block_threads * block_threads; ++place) {
      blockIdx.x = static_cast<uint32_t>(place / block_threads);
      threadIdx.x = static_cast<uint32_t>(place % block_threads);
      kernel(count, parameters...);
    }
  });
}

template <typename... Parameters>
void launch_blocks(void (*kernel)(Parameters...), cudaStream_t stream, uint32_t count,
                   std::type_identity_t<Parameters>... parameters) {
  emulation::enqueue(stream, [=] {
    const std::lock_guard lock(kernel_mutex());
    std::barrier<> barrier(block_threads);
    block_barrier = &barrier;
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < block_threads; ++thread) {
      threads.emplace_back([&, thread] {
        blockDim = dim3(block_threads);
        threadIdx.x = thread;
        for (uint32_t block = 0; block < count; ++block) {
          blockIdx.x = block;
          kernel(parameters...);
          barrier.arrive_and_wait();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace weightpager::cuda
