/* weightpager: model files in a small window of memory.
 *
 * A pager maps whole model files into reserved address ranges (regions) and keeps only a window of
 * them in memory. Reading a byte of a region gives the file's byte, as with mmap; a part that
 * cannot be read raises SIGBUS, never zeros. Tell the pager what comes next and what is done with,
 * and it reads ahead better than it can by watching.
 *
 *     weightpager_options options = { .struct_bytes = sizeof options, .window_bytes = 1u << 30 };
 *     weightpager_pager* pager;
 *     if (weightpager_open(&options, &pager) != 0) { puts(weightpager_error()); return 1; }
 *     uint64_t length_bytes;
 *     const void* weights = weightpager_map(pager, "model.gguf", &length_bytes);
 *
 * All functions may be called by any thread and may block for as long as a system call does.
 * Functions that fail return -1 or NULL, set errno, and leave a text for weightpager_error(). A
 * child process (fork) has no regions; it must not use the pager.
 */
#ifndef WEIGHTPAGER_H
#define WEIGHTPAGER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIGHTPAGER_API __attribute__((visibility("default")))

typedef struct weightpager_pager weightpager_pager;

typedef struct weightpager_options {
  /* sizeof(weightpager_options), so that the struct can grow. */
  uint32_t struct_bytes;
  /* The memory budget for weights; at least 32 MiB. */
  uint64_t window_bytes;
  /* "auto" (also NULL), "move" or "copy". */
  const char* mapper;
} weightpager_options;

/* Counters since the pager was opened. */
typedef struct weightpager_statistics {
  /* In: sizeof(weightpager_statistics) as the caller knows it; later fields are not written. */
  uint32_t struct_bytes;
  uint64_t window_bytes;
  uint64_t resident_bytes;
  uint64_t resident_bytes_max;
  uint64_t faults_demand;   /* touched while absent: waited for a whole read */
  uint64_t faults_late;     /* touched while being read: waited for the rest */
  uint64_t faults_tripwire; /* touched while ready: waited microseconds */
  uint64_t prefetch_hidden; /* chunks that were there before they were touched */
  uint64_t read_bytes;
  uint64_t read_errors;
  uint64_t stall_ns; /* time with at least one thread waiting */
} weightpager_statistics;

/* "0.1.0". */
WEIGHTPAGER_API const char* weightpager_version(void);

/* What went wrong in this thread's last failed call, with the cure if one is known. Never NULL. */
WEIGHTPAGER_API const char* weightpager_error(void);

/* Starts a pager with an empty window. 0, or -1. */
WEIGHTPAGER_API int weightpager_open(const weightpager_options* options, weightpager_pager** pager);

/* Unmaps every region and ends the pager. No thread may touch a region any more. NULL is allowed.
 */
WEIGHTPAGER_API void weightpager_close(weightpager_pager* pager);

/* Maps a model file, read-only, as a whole. The layers of GGUF and safetensors files give the order
 * to read ahead in; other files are read ahead in file order. Returns its first byte, or NULL. */
WEIGHTPAGER_API const void* weightpager_map(weightpager_pager* pager, const char* path,
                                            uint64_t* length_bytes);

/* Unmaps a region that weightpager_map returned. 0, or -1 (EINVAL: not a region's address). */
WEIGHTPAGER_API int weightpager_unmap(weightpager_pager* pager, const void* address);

/* Advice: the range is needed soon. Wider than half of the window it means, before the first touch,
 * that a pass will begin: reading begins with the first layer. */
WEIGHTPAGER_API void weightpager_will_need(weightpager_pager* pager, const void* address,
                                           uint64_t length_bytes);

/* Advice: the range is not needed again in this pass. */
WEIGHTPAGER_API void weightpager_consumed(weightpager_pager* pager, const void* address,
                                          uint64_t length_bytes);

/* Fills as much of *statistics as statistics->struct_bytes says. */
WEIGHTPAGER_API void weightpager_get_statistics(const weightpager_pager* pager,
                                                weightpager_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
