// Debian's Darknet, which reads a network's .weights by fread into memory of its own: passes over
// fixed inputs, of which the first is not counted. The last line of stdout is a JSON object as
// bench/engines/measured.py prints it; `digest` is of all bytes of the last section's outputs.
//
//   darknet_passes CFG WEIGHTS PASSES
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "darknet.h"

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t folded(uint64_t digest, const float* values, size_t count) {
  const unsigned char* bytes = (const unsigned char*)values;
  for (size_t i = 0; i < count * sizeof *values; ++i) digest = (digest ^ bytes[i]) * 1099511628211u;
  return digest;
}

static long long status_bytes(const char* key) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long long kib = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) kib = atoll(line + strlen(key) + 1);
  }
  if (file != NULL) fclose(file);
  return kib * 1024;
}

static int compare(const void* left, const void* right) {
  const double difference = *(const double*)left - *(const double*)right;
  return (difference > 0) - (difference < 0);
}

int main(int count, char** arguments) {
  if (count != 4 || atoi(arguments[3]) < 2) {
    fprintf(stderr, "usage: see the head of darknet_passes.c\n");
    return 2;
  }
  const int passes = atoi(arguments[3]);
  // Darknet tells of each layer there. The descriptor stays, for others that have something to say.
  stderr = fopen("/dev/null", "w");
  double begin = now_s();
  network* net = load_network(arguments[1], arguments[2], 0);
  set_batch_network(net, 1);
  const double load_s = now_s() - begin;

  float* input = malloc((size_t)net->inputs * sizeof *input);
  double* pass_s = malloc((size_t)passes * sizeof *pass_s);
  uint64_t digest = 14695981039346656037u;
  for (int pass = 0; pass < passes; ++pass) {
    for (int i = 0; i < net->inputs; ++i) input[i] = (float)((i * 7 + pass * 13) % 256) / 256;
    begin = now_s();
    const float* output = network_predict(net, input);
    digest = folded(digest, output, (size_t)net->outputs);
    pass_s[pass] = now_s() - begin;
  }

  printf("{\"engine\": \"darknet\", \"digest\": \"%016" PRIx64
         "\", \"load_s\": %.6f, \"pass_s\": [",
         digest, load_s);
  for (int pass = 0; pass < passes; ++pass) printf("%s%.6f", pass == 0 ? "" : ", ", pass_s[pass]);
  qsort(pass_s + 1, (size_t)passes - 1, sizeof *pass_s, compare);
  struct stat weights;
  if (stat(arguments[2], &weights) != 0) return 1;
  printf(
      "], \"pass_s_median\": %.6f, \"model_bytes\": %lld, \"rss_max_bytes\": %lld, "
      "\"rss_anon_bytes\": %lld, \"model_mapped_bytes\": 0, \"model_written_bytes\": 0}\n",
      pass_s[1 + (passes - 1) / 2], (long long)weights.st_size, status_bytes("VmHWM"),
      status_bytes("RssAnon"));
  return 0;
}
