// How engines divide a matrix among their threads.
//
// A multiplication by a vector reads each row of the matrix once, and rows do not depend on each
// other. There are two ways:
// - strips: each thread gets rows that follow each other, as many as the others. So do PyTorch
//   (oneDNN's and its own kernels) and ONNX Runtime; a pass is then at as many places at once as
//   there are threads, each place a strip apart from the next.
// - pieces: each thread takes the next piece when it has done one. So does ggml with many rows: all
//   threads work near one place. Matrices with few pieces are divided into strips.
// A vector, or a matrix that is not worth it, is one thread's. Rows are much shorter than chunks,
// so what is divided here is bytes.
//
// Pure functions. bench/divided_matrices.py compares them with what PyTorch was seen to do.
#pragma once

#include <cstdint>
#include <vector>

namespace weightpager::simulate {

enum class Division : uint8_t { strips, pieces };

/// Bytes of a matrix, since its begin.
struct MatrixShare {
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;
  uint32_t thread = 0;  // any_thread: whichever is free
};

/// From the first byte to the last, without gaps; none is empty.
std::vector<MatrixShare> divide_matrix(uint64_t size_bytes, uint32_t threads, Division division);

}  // namespace weightpager::simulate
