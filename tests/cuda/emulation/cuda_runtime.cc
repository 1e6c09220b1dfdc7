// See emulation.h. Every call of CUDA's runtime that weightpager's sources make is here; one more
// fails to link.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "pager/telemetry/telemetry.h"
#include "tests/cuda/emulation/emulation.h"

namespace {

using weightpager::telemetry::monotonic_ns;

/// All there is to know about the one GPU.
struct Gpu {
  std::mutex mutex;
  uint64_t pieces_until_fault = UINT64_MAX;
  bool has_failed = false;
  bool maps_memory = true;
  uint64_t memory_bytes_max = UINT64_MAX;
  uint64_t taken_bytes = 0;
  std::map<const std::byte*, uint64_t> registered;  // by beginning: lengths
  std::map<void*, uint64_t> allocated;

  cudaError_t state() {
    const std::lock_guard lock(mutex);
    return has_failed ? cudaErrorIllegalAddress : cudaSuccess;
  }
  /// Whether the next piece of work is to be done.
  bool begin_piece() {
    const std::lock_guard lock(mutex);
    if (pieces_until_fault == 0) has_failed = true;
    if (pieces_until_fault != UINT64_MAX && pieces_until_fault > 0) --pieces_until_fault;
    return !has_failed;
  }
  bool is_registered(const void* address) {
    const auto* const byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex);
    auto after = registered.upper_bound(byte);
    return after != registered.begin() && byte < (--after)->first + after->second;
  }
};

Gpu& gpu() {
  static Gpu it;
  return it;
}

}  // namespace

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> line;
  bool is_busy = false;
  bool is_stopping = false;
  std::thread thread{[this] { work(); }};

  void put(std::function<void()> piece) {
    {
      const std::lock_guard lock(mutex);
      line.push_back(std::move(piece));
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return line.empty() && !is_busy; });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

 private:
  void work() {
    // Not as soon as it could be: who does not wait shall notice.
    std::minstd_rand random(static_cast<unsigned>(reinterpret_cast<uintptr_t>(this)));
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !line.empty() || is_stopping; });
      if (line.empty()) return;
      const std::function<void()> piece = std::move(line.front());
      line.pop_front();
      is_busy = true;
      lock.unlock();
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      piece();
      lock.lock();
      is_busy = false;
      changed.notify_all();
    }
  }
};

struct CUevent_st {
  std::mutex mutex;
  std::condition_variable came;
  uint64_t records = 0;
  uint64_t records_come = 0;
  uint64_t came_ns = 0;

  uint64_t record() {
    const std::lock_guard lock(mutex);
    return ++records;
  }
  uint64_t latest() {
    const std::lock_guard lock(mutex);
    return records;
  }
  void come(uint64_t record) {
    {
      const std::lock_guard lock(mutex);
      records_come = record;
      came_ns = monotonic_ns();
    }
    came.notify_all();
  }
  void wait_for(uint64_t record) {
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return records_come >= record; });
  }
};

namespace weightpager::emulation {

void enqueue(cudaStream_t stream, std::function<void()> work) {
  stream->put([work = std::move(work)] {
    if (gpu().begin_piece()) work();
  });
}

void fail_after(uint64_t pieces) {
  const std::lock_guard lock(gpu().mutex);
  gpu().pieces_until_fault = pieces;
}

void refuse_mappings() {
  const std::lock_guard lock(gpu().mutex);
  gpu().maps_memory = false;
}

void limit_memory(uint64_t bytes) {
  const std::lock_guard lock(gpu().mutex);
  gpu().memory_bytes_max = bytes;
}

void repair() {
  const std::lock_guard lock(gpu().mutex);
  gpu().pieces_until_fault = UINT64_MAX;
  gpu().has_failed = false;
  gpu().maps_memory = true;
  gpu().memory_bytes_max = UINT64_MAX;
}

uint64_t taken_bytes() {
  const std::lock_guard lock(gpu().mutex);
  return gpu().taken_bytes;
}

}  // namespace weightpager::emulation

using weightpager::emulation::enqueue;

namespace {

// ---- The driver's calls for mappings ----

CUresult reserve(CUdeviceptr* address, size_t length_bytes, size_t, CUdeviceptr,
                 unsigned long long) {
  void* const there = mmap(nullptr, length_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(there);
  return there == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult free_address(CUdeviceptr address, size_t length_bytes) {
  munmap(reinterpret_cast<void*>(address), length_bytes);
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, size_t length_bytes,
                const CUmemAllocationProp* kind, unsigned long long) {
  if (kind->type != CU_MEM_ALLOCATION_TYPE_PINNED || length_bytes % (2u << 20) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = memfd_create("the GPU's", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(length_bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  return CUDA_SUCCESS;
}

// The memory is given back with its last mapping: each counts for its share.
void count_mapping(int64_t length_bytes) {
  const std::lock_guard lock(gpu().mutex);
  gpu().taken_bytes += static_cast<uint64_t>(length_bytes / 2);
}

CUresult release(CUmemGenericAllocationHandle handle) {
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t length_bytes, size_t offset_bytes,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  if (offset_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const there = mmap(reinterpret_cast<void*>(address), length_bytes, PROT_NONE,
                           MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  if (there == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  count_mapping(static_cast<int64_t>(length_bytes));
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, size_t length_bytes) {
  count_mapping(-static_cast<int64_t>(length_bytes));
  mmap(reinterpret_cast<void*>(address), length_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, size_t length_bytes, const CUmemAccessDesc*, size_t) {
  const int refused =
      mprotect(reinterpret_cast<void*>(address), length_bytes, PROT_READ | PROT_WRITE);
  return refused == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

// ---- CUDA's runtime ----

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "error";
}

cudaError_t cudaGetLastError() { return gpu().state(); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const std::pair<const char*, void*> calls[] = {
      {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(free_address)},
      {"cuMemCreate", reinterpret_cast<void*>(create)},
      {"cuMemRelease", reinterpret_cast<void*>(release)},
      {"cuMemMap", reinterpret_cast<void*>(map)},
      {"cuMemUnmap", reinterpret_cast<void*>(unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(set_access)}};
  *found = cudaDriverEntryPointSymbolNotFound;
  const std::lock_guard lock(gpu().mutex);
  if (!gpu().maps_memory) return cudaSuccess;
  for (const auto& [known, address] : calls) {
    if (std::strcmp(known, name) != 0) continue;
    *function = address;
    *found = cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, size_t length_bytes) {
  if (gpu().state() != cudaSuccess) return gpu().state();
  const std::lock_guard lock(gpu().mutex);
  if (length_bytes > gpu().memory_bytes_max) return cudaErrorMemoryAllocation;
  *address = std::aligned_alloc(256, (length_bytes + 255) / 256 * 256);
  std::memset(*address, 0xff, length_bytes);
  gpu().allocated[*address] = length_bytes;
  gpu().taken_bytes += length_bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  const std::lock_guard lock(gpu().mutex);
  gpu().taken_bytes -= gpu().allocated.at(address);
  gpu().allocated.erase(address);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = size_t{80} << 30;
  *free_bytes = *total_bytes - weightpager::emulation::taken_bytes();
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, size_t length_bytes, unsigned) {
  const std::lock_guard lock(gpu().mutex);
  gpu().registered[static_cast<const std::byte*>(address)] = length_bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* address) {
  const std::lock_guard lock(gpu().mutex);
  gpu().registered.erase(static_cast<const std::byte*>(address));
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** mapped, void* address, unsigned) {
  if (!gpu().is_registered(address)) return cudaErrorInvalidValue;
  *mapped = address;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->stop();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->wait();
  return gpu().state();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (gpu().state() != cudaSuccess) return gpu().state();
  stream->put([event, record = event->record()] { event->come(record); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (gpu().state() != cudaSuccess) return gpu().state();
  stream->put([event, record = event->latest()] { event->wait_for(record); });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  event->wait_for(event->latest());
  return gpu().state();
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const auto came_ns = [](cudaEvent_t event) {
    const std::lock_guard lock(event->mutex);
    return static_cast<double>(event->came_ns);
  };
  *ms = static_cast<float>((came_ns(end) - came_ns(start)) / 1e6);
  return gpu().state();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t length_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (gpu().state() != cudaSuccess) return gpu().state();
  enqueue(stream, [=] { std::memcpy(to, from, length_bytes); });
  // Ordinary memory of the host's is copied before the call returns.
  const bool is_sent = kind == cudaMemcpyHostToDevice && !gpu().is_registered(from);
  const bool is_fetched = kind == cudaMemcpyDeviceToHost && !gpu().is_registered(to);
  if (is_sent || is_fetched) stream->wait();
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t length_bytes, cudaMemcpyKind) {
  std::memcpy(to, from, length_bytes);
  return gpu().state();
}

}  // extern "C"
