// See device_memory.h. The driver's mapping calls are looked up by name at run time: if weightpager
// were linked against the driver, it would not start on machines without one.
#include "runtime/pipeline/cuda/device_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/units.h"
#include "runtime/pipeline/cuda/status.h"
#include "runtime/pipeline/device.h"

namespace weightpager::cuda {
namespace {

/// These calls came with CUDA 10.2.
constexpr unsigned calls_version = 10020;

template <typename Function>
CUresult find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &address, calls_version, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return CUDA_ERROR_NOT_FOUND;
  function = reinterpret_cast<Function>(address);
  return CUDA_SUCCESS;
}

struct MappingCalls {
  PFN_cuMemAddressReserve_v10020 reserve = nullptr;
  PFN_cuMemAddressFree_v10020 free_address = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;

  CUresult find_all() {
    CUresult result = find("cuMemAddressReserve", reserve);
    if (result == CUDA_SUCCESS) result = find("cuMemAddressFree", free_address);
    if (result == CUDA_SUCCESS) result = find("cuMemCreate", create);
    if (result == CUDA_SUCCESS) result = find("cuMemRelease", release);
    if (result == CUDA_SUCCESS) result = find("cuMemMap", map);
    if (result == CUDA_SUCCESS) result = find("cuMemUnmap", unmap);
    if (result == CUDA_SUCCESS) result = find("cuMemSetAccess", set_access);
    return result;
  }
};

/// Maps the same memory twice in a row at `address`. After a failure no memory and no mapping is
/// left.
CUresult map_twice(const MappingCalls& calls, uint64_t capacity_bytes, CUdeviceptr& address) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUDA_ERROR_INVALID_DEVICE;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = device;
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = calls.create(&memory, capacity_bytes, &kind, 0);
  if (result != CUDA_SUCCESS) return result;
  result = calls.reserve(&address, 2 * capacity_bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access{};
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    uint64_t mapped_bytes = 0;
    while (result == CUDA_SUCCESS && mapped_bytes < 2 * capacity_bytes) {
      result = calls.map(address + mapped_bytes, capacity_bytes, 0, memory, 0);
      if (result == CUDA_SUCCESS) mapped_bytes += capacity_bytes;
    }
    if (result == CUDA_SUCCESS) {
      result = calls.set_access(address, 2 * capacity_bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
      while (mapped_bytes > 0) {
        mapped_bytes -= capacity_bytes;
        calls.unmap(address + mapped_bytes, capacity_bytes);
      }
      calls.free_address(address, 2 * capacity_bytes);
    }
  }
  // The mappings keep the memory.
  calls.release(memory);
  return result;
}

}  // namespace

Result<DeviceMemory> DeviceMemory::make(uint64_t length_bytes, const char* what) {
  DeviceMemory memory;
  if (length_bytes == 0) return memory;
  void* address = nullptr;
  Status taken =
      check(cudaMalloc(&address, length_bytes),
            fmt::format("no memory on the GPU for {} of {}", format_size(length_bytes), what));
  if (!taken) return forward_error(std::move(taken));
  memory.address_ = static_cast<std::byte*>(address);
  memory.length_bytes_ = length_bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (address_ != nullptr) cudaFree(address_);
}

Result<DeviceRing> DeviceRing::make(uint64_t capacity_bytes, uint64_t piece_bytes_max) {
  WP_ASSERT(piece_bytes_max <= capacity_bytes || capacity_bytes == 0);
  DeviceRing ring;
  if (capacity_bytes == 0) return ring;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (capacity_bytes % pipeline::gpu_ring_step_bytes == 0) {
    MappingCalls calls;
    CUdeviceptr address = 0;
    result = calls.find_all();
    if (result == CUDA_SUCCESS) result = map_twice(calls, capacity_bytes, address);
    if (result == CUDA_SUCCESS) {
      ring.mapped_ = reinterpret_cast<std::byte*>(address);
      ring.mapped_bytes_ = 2 * capacity_bytes;
      return ring;
    }
    notice(
        fmt::format("the GPU's driver does not map memory twice (error {}): the ring there "
                    "takes {} more",
                    static_cast<int>(result), format_size(piece_bytes_max)));
  }
  auto plain = DeviceMemory::make(capacity_bytes + piece_bytes_max, "weights");
  if (!plain) return forward_error(std::move(plain));
  ring.plain_ = std::move(*plain);
  return ring;
}

DeviceRing::~DeviceRing() {
  if (mapped_ == nullptr) return;
  MappingCalls calls;
  const CUresult found = calls.find_all();
  WP_ASSERT(found == CUDA_SUCCESS);
  const auto address = reinterpret_cast<CUdeviceptr>(mapped_);
  calls.unmap(address, mapped_bytes_ / 2);
  calls.unmap(address + mapped_bytes_ / 2, mapped_bytes_ / 2);
  calls.free_address(address, mapped_bytes_);
}

}  // namespace weightpager::cuda
