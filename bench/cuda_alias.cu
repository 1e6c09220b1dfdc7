// A layer's place on the GPU: one address for ever, or another one each time?
//
// Problem. A window on the GPU is smaller than the model, so a layer's weights lie at another place
// of the window each pass, and kernels must be told where. Or the model gets an address range of
// its own, of which chunk c shows the window's chunk c mod W, mapped once at the start: then each
// layer has one address, and nobody has to be told.
//
// Idea. Do both, with the same layers, copies and kernels: "pointers" is a ring mapped twice in a
// row, as the runtime has it; "alias" the model's range over a window of 2 MiB pieces. Prints what
// setting up, copying, computing and whole passes (copies and kernels overlapping, as the executor
// has them) take, as one JSON object. Each kernel adds up its layer; a sum that is wrong ends it.
//
//   cuda_alias [MODEL_MIB [WINDOW_MIB [LAYER_MIB]]]     (246, 36, 4)
//
// Exit status 77 where there is no GPU.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr uint64_t MiB = 1u << 20;
constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr int passes = 20;

void require(bool is_fine, const char* what, int error) {
  if (is_fine) return;
  std::fprintf(stderr, "cuda_alias: %s failed (error %d)\n", what, error);
  std::exit(1);
}
void check(cudaError_t error, const char* what) { require(error == cudaSuccess, what, error); }
void check(CUresult error, const char* what) { require(error == CUDA_SUCCESS, what, error); }

template <typename Function>
void find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion(name, &address, 10020, cudaEnableDefault, &found), name);
  require(found == cudaDriverEntryPointSuccess, name, found);
  function = reinterpret_cast<Function>(address);
}

struct Calls {
  PFN_cuMemAddressReserve_v10020 reserve;
  PFN_cuMemCreate_v10020 create;
  PFN_cuMemMap_v10020 map;
  PFN_cuMemSetAccess_v10020 set_access;
  PFN_cuMemGetAllocationGranularity_v10020 granularity;
  Calls() {
    find("cuMemAddressReserve", reserve);
    find("cuMemCreate", create);
    find("cuMemMap", map);
    find("cuMemSetAccess", set_access);
    find("cuMemGetAllocationGranularity", granularity);
  }
};

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

__global__ void add_up(const uint32_t* values, uint64_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    mine += values[i];
  }
  atomicAdd(sum, mine);
}

/// Memory at addresses that are mapped once: W handles, mapped in turn over a range.
struct Mapped {
  CUdeviceptr address = 0;
  double create_us = 0;
  double map_us = 0;
  double access_us = 0;
};

Mapped map_range(const Calls& calls, uint64_t range_bytes, uint64_t window_bytes,
                 uint64_t handle_bytes) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = 0;
  Mapped it;
  double start_us = now_us();
  std::vector<CUmemGenericAllocationHandle> handles(window_bytes / handle_bytes);
  for (auto& handle : handles) check(calls.create(&handle, handle_bytes, &kind, 0), "cuMemCreate");
  it.create_us = now_us() - start_us;
  start_us = now_us();
  check(calls.reserve(&it.address, range_bytes, 0, 0, 0), "cuMemAddressReserve");
  for (uint64_t i = 0; i < range_bytes / handle_bytes; ++i) {
    check(calls.map(it.address + i * handle_bytes, handle_bytes, 0, handles[i % handles.size()], 0),
          "cuMemMap");
  }
  it.map_us = now_us() - start_us;
  start_us = now_us();
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(calls.set_access(it.address, range_bytes, &access, 1), "cuMemSetAccess");
  it.access_us = now_us() - start_us;
  return it;
}

struct Sizes {
  uint64_t model_bytes;
  uint64_t window_bytes;
  uint64_t layer_bytes;
  uint64_t layers() const { return model_bytes / layer_bytes; }
};

/// The same work for both: copies on a stream, kernels on another, layer by layer through the
/// window. `is_alias`: a layer lies at its place in the model, otherwise at its place in the ring.
class Pass {
 public:
  Pass(const Sizes& sizes, CUdeviceptr address, bool is_alias)
      : sizes_(sizes), address_(address), is_alias_(is_alias) {
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "a stream");
    check(cudaStreamCreateWithFlags(&kernels_, cudaStreamNonBlocking), "a stream");
    check(cudaMallocHost(&host_, sizes.layer_bytes), "pinned memory");
    check(cudaMalloc(&sum_, sizeof *sum_), "memory");
    for (uint64_t i = 0; i < sizes.layer_bytes / sizeof(uint32_t); ++i) host_[i] = i % 251 + 1;
    for (uint64_t i = 0; i < sizes.layer_bytes / sizeof(uint32_t); ++i) expected_ += host_[i];
    copied_.resize(sizes.layers());
    computed_.resize(sizes.layers());
    for (auto* events : {&copied_, &computed_}) {
      for (cudaEvent_t& event : *events) {
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
      }
    }
  }

  /// Microseconds of a whole pass.
  double run() {
    check(cudaMemset(sum_, 0, sizeof *sum_), "memset");
    check(cudaDeviceSynchronize(), "synchronize");
    const double start_us = now_us();
    const uint64_t ring_layers = sizes_.window_bytes / sizes_.layer_bytes;
    for (uint64_t layer = 0; layer < sizes_.layers(); ++layer) {
      if (layer >= ring_layers) {
        check(cudaStreamWaitEvent(copies_, computed_[layer - ring_layers]), "wait");
      }
      copy(layer);
      check(cudaEventRecord(copied_[layer], copies_), "record");
      check(cudaStreamWaitEvent(kernels_, copied_[layer]), "wait");
      compute(layer);
      check(cudaEventRecord(computed_[layer], kernels_), "record");
    }
    const double enqueued_us = now_us() - start_us;
    check(cudaStreamSynchronize(kernels_), "kernels");
    const double took_us = now_us() - start_us;
    enqueue_us_ = enqueued_us;
    unsigned long long sum = 0;
    check(cudaMemcpy(&sum, sum_, sizeof sum, cudaMemcpyDeviceToHost), "fetch");
    require(sum == expected_ * sizes_.layers(), "a layer's sum is another one's: the mapping", 0);
    return took_us;
  }

  /// The processor's share of the last run.
  double enqueue_us() const { return enqueue_us_; }

  double kernels_us() {
    check(cudaDeviceSynchronize(), "synchronize");
    const double start_us = now_us();
    for (uint64_t layer = 0; layer < sizes_.layers(); ++layer) compute(layer);
    check(cudaStreamSynchronize(kernels_), "kernels");
    return now_us() - start_us;
  }
  double copies_us() {
    check(cudaDeviceSynchronize(), "synchronize");
    const double start_us = now_us();
    for (uint64_t layer = 0; layer < sizes_.layers(); ++layer) copy(layer);
    check(cudaStreamSynchronize(copies_), "copies");
    return now_us() - start_us;
  }

 private:
  CUdeviceptr place(uint64_t layer) const {
    const uint64_t in_model_bytes = layer * sizes_.layer_bytes;
    return address_ + (is_alias_ ? in_model_bytes : in_model_bytes % sizes_.window_bytes);
  }
  void copy(uint64_t layer) {
    check(cudaMemcpyAsync(reinterpret_cast<void*>(place(layer)), host_, sizes_.layer_bytes,
                          cudaMemcpyHostToDevice, copies_),
          "copy");
  }
  void compute(uint64_t layer) {
    add_up<<<264, 256, 0, kernels_>>>(reinterpret_cast<const uint32_t*>(place(layer)),
                                      sizes_.layer_bytes / sizeof(uint32_t), sum_);
    check(cudaGetLastError(), "kernel");
  }

  const Sizes sizes_;
  const CUdeviceptr address_;
  const bool is_alias_;
  cudaStream_t copies_;
  cudaStream_t kernels_;
  uint32_t* host_ = nullptr;
  unsigned long long* sum_ = nullptr;
  unsigned long long expected_ = 0;
  double enqueue_us_ = 0;
  std::vector<cudaEvent_t> copied_;
  std::vector<cudaEvent_t> computed_;
};

void report(const char* name, const Mapped& mapped, Pass& pass, const Sizes& sizes, bool is_last) {
  std::vector<double> passes_us, kernels_us, copies_us, enqueue_us;
  for (int i = 0; i < passes; ++i) {
    passes_us.push_back(pass.run());
    enqueue_us.push_back(pass.enqueue_us());
    kernels_us.push_back(pass.kernels_us());
    copies_us.push_back(pass.copies_us());
  }
  const double bytes = static_cast<double>(sizes.layers() * sizes.layer_bytes);
  std::printf(
      " \"%s\": {\"create_us\": %.1f, \"map_us\": %.1f, \"set_access_us\": %.1f, "
      "\"pass_us\": %.1f, \"enqueue_us\": %.1f, \"kernel_gb_per_s\": %.1f, "
      "\"copy_gb_per_s\": %.2f}%s\n",
      name, mapped.create_us, mapped.map_us, mapped.access_us, median(passes_us),
      median(enqueue_us), bytes / median(kernels_us) / 1e3, bytes / median(copies_us) / 1e3,
      is_last ? "" : ",");
}

uint64_t mebibytes(int argc, char** argv, int at, uint64_t otherwise) {
  return (argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise) * MiB;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    std::fprintf(stderr, "SKIPPED: no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  Sizes sizes = {mebibytes(argc, argv, 1, 246), mebibytes(argc, argv, 2, 36),
                 mebibytes(argc, argv, 3, 4)};
  require(sizes.layer_bytes > 0 && sizes.layer_bytes % chunk_bytes == 0 &&
              sizes.window_bytes % sizes.layer_bytes == 0 && sizes.window_bytes > 0,
          "MODEL WINDOW LAYER: layers of whole 2 MiB, windows of whole layers; this", 0);
  sizes.model_bytes = sizes.model_bytes / sizes.layer_bytes * sizes.layer_bytes;
  check(cudaFree(nullptr), "starting CUDA");
  const Calls calls;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0;
  check(calls.granularity(&granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "granularity");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "properties");

  const Mapped ring =
      map_range(calls, 2 * sizes.window_bytes, sizes.window_bytes, sizes.window_bytes);
  const Mapped alias = map_range(calls, sizes.model_bytes, sizes.window_bytes, chunk_bytes);
  Pass pointers(sizes, ring.address, false);
  Pass aliases(sizes, alias.address, true);
  pointers.run();
  aliases.run();
  std::printf(
      "{\"benchmark\": \"cuda_alias\", \"gpu\": \"%s\", \"granularity_bytes\": %zu,\n"
      " \"model_bytes\": %llu, \"window_bytes\": %llu, \"layer_bytes\": %llu,\n",
      properties.name, granularity, static_cast<unsigned long long>(sizes.model_bytes),
      static_cast<unsigned long long>(sizes.window_bytes),
      static_cast<unsigned long long>(sizes.layer_bytes));
  report("pointers", ring, pointers, sizes, false);
  report("alias", alias, aliases, sizes, true);
  std::printf("}\n");
  return 0;
}
