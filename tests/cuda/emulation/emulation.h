// A GPU that is none: the calls of CUDA's runtime that weightpager makes, done by the processor.
//
// Problem. Most machines that build and test weightpager have no GPU, and what goes wrong on one
// (a ring that is overwritten too early, a stream that does not wait) shows on some machines on
// some days.
//
// Idea. The sources that talk to CUDA are compiled a second time and linked with this instead of
// CUDA's runtime. Streams are threads that do what they are given in order, each thing a random
// moment later, so that whoever does not wait for them finds old bytes; events are as real as on a
// GPU, memory of the GPU's is full of NaNs until somebody writes to it, and mappings are mappings.
// Kernels run as they are written, thread after thread. What it cannot show is what the GPU's own
// memory does, cuBLAS, and speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace weightpager::emulation {

/// Puts work into a stream, as a kernel or a copy is.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// From the so-manieth piece of work on, which is not done, every call fails, as after a fault on a
/// real GPU.
void fail_after(uint64_t pieces);
/// The driver does not map memory.
void refuse_mappings();
/// Not more than this is taken by cudaMalloc at a time.
void limit_memory(uint64_t bytes);
/// A GPU that works again.
void repair();

/// Taken by cudaMalloc or mappings, and not given back.
uint64_t taken_bytes();

}  // namespace weightpager::emulation
