// See matrix_product.h. cuBLAS stores matrices by columns: a row here is a column there. So output
// = weights · values becomes outputᵀ = valuesᵀ · weightsᵀ, and no matrix has to be transposed.
#include "runtime/ops/cuda/matrix_product.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <library_types.h>

#include <utility>

#include "pager/base/assert.h"

namespace weightpager::cuda {
namespace {

// Types and constants of cuBLASLt's documented binary interface.
using Handle = struct CublasLtContext*;
using Description = struct CublasLtMatmulDesc*;
using Layout = struct CublasLtMatrixLayout*;
using Preference = struct CublasLtMatmulPreference*;

constexpr int success = 0;
constexpr int compute_in_32_bit_floats = 68;  // CUBLAS_COMPUTE_32F
constexpr int layout_rows = 2;                // CUBLASLT_MATRIX_LAYOUT_ROWS, a uint64_t
constexpr int layout_columns = 3;             // …_COLS, a uint64_t
constexpr int layout_stride = 4;              // …_LD, an int64_t
constexpr int preferred_workspace_bytes = 1;  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, a size_t
constexpr int preferred_reductions = 3;       // …_REDUCTION_SCHEME_MASK, a uint32_t; 0: none
constexpr int preferred_alignment_a = 5;      // …_MIN_ALIGNMENT_A_BYTES, a uint32_t; then B, C, D

/// cublasLtMatmulHeuristicResult_t.
struct Candidate {
  MatrixProduct::Method method;
  size_t workspace_bytes = 0;
  int status = 0;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(Candidate) == 64 + 8 + 4 + 4 + 16);

struct Library {
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*description_create)(Description*, int compute_type, int scale_type) = nullptr;
  int (*description_destroy)(Description) = nullptr;
  int (*layout_create)(Layout*, int type, uint64_t rows, uint64_t columns,
                       int64_t stride) = nullptr;
  int (*layout_destroy)(Layout) = nullptr;
  int (*layout_set)(Layout, int attribute, const void* value, size_t value_bytes) = nullptr;
  int (*preference_create)(Preference*) = nullptr;
  int (*preference_destroy)(Preference) = nullptr;
  int (*preference_set)(Preference, int attribute, const void* value, size_t value_bytes) = nullptr;
  int (*choose)(Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                Candidate* candidates, int* found) = nullptr;
  int (*multiply)(Handle, Description, const void* alpha, const void* a, Layout, const void* b,
                  Layout, const void* beta, const void* c, Layout, void* d, Layout,
                  const MatrixProduct::Method*, void* workspace, size_t workspace_bytes,
                  cudaStream_t) = nullptr;

  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
  bool find_all(void* library) {
    return find(library, "cublasLtCreate", create) && find(library, "cublasLtDestroy", destroy) &&
           find(library, "cublasLtMatmulDescCreate", description_create) &&
           find(library, "cublasLtMatmulDescDestroy", description_destroy) &&
           find(library, "cublasLtMatrixLayoutCreate", layout_create) &&
           find(library, "cublasLtMatrixLayoutDestroy", layout_destroy) &&
           find(library, "cublasLtMatrixLayoutSetAttribute", layout_set) &&
           find(library, "cublasLtMatmulPreferenceCreate", preference_create) &&
           find(library, "cublasLtMatmulPreferenceDestroy", preference_destroy) &&
           find(library, "cublasLtMatmulPreferenceSetAttribute", preference_set) &&
           find(library, "cublasLtMatmulAlgoGetHeuristic", choose) &&
           find(library, "cublasLtMatmul", multiply);
  }
};

Result<Library> load() {
  // The library is never unloaded, because it starts threads.
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Library calls;
    if (calls.find_all(library)) return calls;
    return fail(fmt::format("{}: lacks calls of cuBLASLt that weightpager makes", name),
                "install cuBLAS of CUDA 12 or later");
  }
  return fail("cuBLAS, which computes on GPUs, was not found (libcublasLt.so.13 or .12)",
              "install it (`pip install nvidia-cublas`, or CUDA's package libcublas), and name its "
              "folder in LD_LIBRARY_PATH");
}

Status failed(const char* what, int status) {
  return fail(fmt::format("cuBLAS cannot {} (status {})", what, status),
              "status 1 or 3 is want of memory on the GPU, 8 or 15 a GPU or driver that this "
              "version of cuBLAS does not know");
}

}  // namespace

struct MatrixProduct::State {
  Library calls;
  Handle handle = nullptr;
  Description description = nullptr;
  Preference preference = nullptr;
  // Layouts of the call that is being made.
  Layout values = nullptr;
  Layout weights = nullptr;
  Layout output = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const Layout layout : {values, weights, output}) {
      if (layout != nullptr) calls.layout_destroy(layout);
    }
    if (preference != nullptr) calls.preference_destroy(preference);
    if (description != nullptr) calls.description_destroy(description);
    if (handle != nullptr) calls.destroy(handle);
  }

  int open() {
    int status = calls.create(&handle);
    if (status != success) return status;
    status = calls.description_create(&description, compute_in_32_bit_floats, CUDA_R_32F);
    if (status != success) return status;
    for (Layout* const layout : {&values, &weights, &output}) {
      status = calls.layout_create(layout, CUDA_R_32F, 1, 1, 1);
      if (status != success) return status;
    }
    status = calls.preference_create(&preference);
    if (status != success) return status;
    return set_preference();
  }

  int set_preference() {
    const size_t workspace_bytes = 0;
    int status = calls.preference_set(preference, preferred_workspace_bytes, &workspace_bytes,
                                      sizeof workspace_bytes);
    if (status != success) return status;
    const uint32_t none = 0;
    status = calls.preference_set(preference, preferred_reductions, &none, sizeof none);
    const uint32_t alignment_bytes = alignof(float);
    for (int matrix = 0; matrix < 4 && status == success; ++matrix) {
      status = calls.preference_set(preference, preferred_alignment_a + matrix, &alignment_bytes,
                                    sizeof alignment_bytes);
    }
    return status;
  }

  int set(Layout layout, uint64_t rows, uint64_t columns, uint64_t stride) const {
    const auto signed_stride = static_cast<int64_t>(stride);
    int status = calls.layout_set(layout, layout_rows, &rows, sizeof rows);
    if (status != success) return status;
    status = calls.layout_set(layout, layout_columns, &columns, sizeof columns);
    if (status != success) return status;
    return calls.layout_set(layout, layout_stride, &signed_stride, sizeof signed_stride);
  }

  int set(const Shape& shape) const {
    int status = set(values, shape.pixels, shape.terms, shape.values_stride);
    if (status != success) return status;
    status = set(weights, shape.terms, shape.channels, shape.terms);
    if (status != success) return status;
    return set(output, shape.pixels, shape.channels, shape.output_stride);
  }
};

MatrixProduct::MatrixProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
MatrixProduct::MatrixProduct(MatrixProduct&& other) noexcept = default;
MatrixProduct& MatrixProduct::operator=(MatrixProduct&& other) noexcept = default;
MatrixProduct::~MatrixProduct() = default;

Result<MatrixProduct> MatrixProduct::make() {
  auto calls = load();
  if (!calls) return forward_error(std::move(calls));
  auto state = std::make_unique<State>();
  state->calls = *calls;
  if (const int status = state->open(); status != success) {
    return forward_error(failed("be started", status));
  }
  return MatrixProduct(std::move(state));
}

Result<MatrixProduct::Method> MatrixProduct::choose(const Shape& shape) {
  int status = state_->set(shape);
  Candidate candidate;
  int found = 0;
  if (status == success) {
    status = state_->calls.choose(state_->handle, state_->description, state_->values,
                                  state_->weights, state_->output, state_->output,
                                  state_->preference, 1, &candidate, &found);
  }
  if (status == success && found == 0) status = candidate.status;
  if (status != success || found == 0) {
    return forward_error(failed("choose how to multiply matrices", status));
  }
  return candidate.method;
}

Status MatrixProduct::run(cudaStream_t stream, const Method& method, const Shape& shape,
                          const float* weights, const float* values, float* output) {
  int status = state_->set(shape);
  const float one = 1;
  const float zero = 0;
  if (status == success) {
    status = state_->calls.multiply(
        state_->handle, state_->description, &one, values, state_->values, weights, state_->weights,
        &zero, output, state_->output, output, state_->output, &method, nullptr, 0, stream);
  }
  if (status != success) return failed("multiply matrices", status);
  return {};
}

}  // namespace weightpager::cuda
