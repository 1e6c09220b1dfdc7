// A GPU as a device of the executor.
//
// Reads go into a ring of the host that is pinned and registered with CUDA once. Copies run on a
// stream of their own into a ring on the GPU; kernels on another, which waits for the copy's event
// by itself: nobody is asked between a copy and its kernel, and both are put in line ahead. In the
// two-stage pipeline kernels read the host's ring through its mapping on the GPU: no copy, but
// every pass of a kernel over the weights goes through the bus. That is for GPUs that share the
// host's memory; on others the asynchronous pipeline is the faster one.
//
// What orders what, where several threads and streams are at work:
//  - A piece of the host's ring is read into again only when its copy (two-stage: its kernel) was
//    reported, which is after its event has come.
//  - The same with a piece of the GPU's ring: the copy that overwrites it is put in line after the
//    kernel that used it was reported.
//  - A kernel's stream waits for the event behind its unit's copy. That event was recorded by the
//    driver's thread before the unit was handed to the thread that computes.
//  - Kernels of one inference begin after `run` was called, which is after the one before returned,
//    which is after all of its kernels were reported. Only reads and copies run ahead.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/pipeline/device.h"

namespace weightpager::cuda {

/// `compute_stream` is where UnitWork::compute puts its kernels; it outlives the device. The GPU is
/// the one that is current in a new thread: the first (CUDA_VISIBLE_DEVICES chooses).
std::unique_ptr<pipeline::Device> make_cuda_device(cudaStream_t compute_stream);

}  // namespace weightpager::cuda
