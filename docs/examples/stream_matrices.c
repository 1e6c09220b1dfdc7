/* Multiplies (1, …, 1) by a chain of matrices, of which only a few are in memory at a time, and
 * again with all of them in memory. FILE has square matrices of floats, row after row, one after
 * another. cc stream_matrices.c $(pkg-config --cflags --libs weightpager) -o stream_matrices
 *     ./stream_matrices FILE ROWS MATRICES WINDOW_MIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weightpager/weightpager.h>

/* x becomes matrix · x; y is space for as much. */
static void multiply(const float* matrix, float* x, float* y, size_t rows) {
  memset(y, 0, rows * sizeof *y);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < rows; ++i) y[row] += matrix[row * rows + i] * x[i];
  memcpy(x, y, rows * sizeof *x);
}

static int complain(const char* path) {
  return fprintf(stderr, "%s: %s\n", path, weightpager_error()), 1;
}

int main(int argc, char** argv) {
  if (argc != 5) return fputs("which FILE, ROWS, MATRICES, WINDOW_MIB?\n", stderr), 2;
  const size_t rows = strtoul(argv[2], NULL, 10), count = strtoul(argv[3], NULL, 10);
  const size_t matrix_bytes = rows * rows * sizeof(float);
  float *streamed = calloc(rows, sizeof(float)), *in_memory = calloc(rows, sizeof(float));
  float *space = calloc(rows, sizeof(float)), *whole = malloc(count * matrix_bytes);
  for (size_t i = 0; i < rows; ++i) streamed[i] = in_memory[i] = 1;

  weightpager_layer* matrices = calloc(count, sizeof *matrices);
  for (size_t i = 0; i < count; ++i)
    matrices[i] = (weightpager_layer){NULL, i * matrix_bytes, matrix_bytes};
  const weightpager_stream_options options = {.struct_bytes = sizeof options,
                                              .layer_count = (uint32_t)count,
                                              .layers = matrices,
                                              .window_bytes = strtoull(argv[4], NULL, 10) << 20};
  weightpager_stream* stream;
  if (weightpager_stream_open(argv[1], &options, &stream) != 0) return complain(argv[1]);
  weightpager_stream_advise(stream, WEIGHTPAGER_STREAM_LAST_PASS,
                            0); /* one product, no second one */
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t length_bytes;
    const float* matrix = weightpager_stream_acquire(stream, i, &length_bytes);
    if (matrix == NULL) return complain(argv[1]);
    multiply(matrix, streamed, space, rows);
    weightpager_stream_release(stream, i);
  }
  weightpager_stream_statistics it = {.struct_bytes = sizeof it};
  weightpager_stream_get_statistics(stream, &it);
  weightpager_stream_close(stream);

  FILE* file = fopen(argv[1], "rb");
  if (!file || fread(whole, matrix_bytes, count, file) != count) return perror(argv[1]), 1;
  for (size_t i = 0; i < count; ++i) multiply(whole + i * rows * rows, in_memory, space, rows);
  const int differs = memcmp(streamed, in_memory, rows * sizeof(float)) != 0;
  printf("%s; window %.1f MiB, read %.1f MiB, waited %.3f s\n", differs ? "different" : "the same",
         it.window_bytes / 1048576.0, it.read_bytes / 1048576.0, it.stall_ns / 1e9);
  return differs;
}
