// A GPU as a device of the executor.
//
// Reads go into a ring on the host, which is pinned and registered with CUDA once. Copies run on a
// stream of their own, into a ring on the GPU. Kernels run on another stream, which itself waits
// for the copy's event. So copies and kernels are put in line ahead of time, and no thread acts
// between a copy and its kernel. In the two-stage pipeline there are no copies: kernels read the
// host's ring through its mapping on the GPU, and every pass of a kernel over the weights goes
// through the bus. That is for GPUs that share the host's memory; on others the asynchronous
// pipeline is faster.
//
// Several threads and streams are at work. These rules order them:
//  - A piece of the host's ring is read into again only after its copy (two-stage: its kernel) was
//    reported. The report comes after the copy's event.
//  - The copy that overwrites a piece of the GPU's ring is put in line only after the kernel that
//    used the piece was reported.
//  - The kernels' stream waits for the event behind the unit's copy. The driver's thread recorded
//    that event before it handed the unit to the thread that computes.
//  - Kernels of an inference begin after its `run` was called. The `run` before it returned only
//    after all of its own kernels were reported. So only reads and copies run ahead.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/pipeline/device.h"

namespace weightpager::cuda {

/// `compute_stream`: UnitWork::compute puts its kernels there; it outlives the device. The GPU is
/// the one that is current in a new thread: the first GPU (CUDA_VISIBLE_DEVICES chooses it).
std::unique_ptr<pipeline::Device> make_cuda_device(cudaStream_t compute_stream);

}  // namespace weightpager::cuda
