/* weightpager: model files in a small window of memory. Either mapped, for code that touches what
 * it likes (a pager), or layer after layer, for code that knows what comes next (a stream, below).
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
  /* "auto" (also NULL), "move", "collapse", "copy" or "module". */
  const char* mapper;
  /* Not 0: listen at a control socket while files are mapped, so that `weightpager ps`, `top` and
   * their like see this pager, as this user and root only. One pager of a process can. Needs
   * libuv.so.1; where it cannot be had, one line on stderr says so. */
  int listens;
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
 * to read ahead in; other files are read ahead in file order. A file that was changed since it was
 * mapped before is read anew for this mapping. Returns its first byte, or NULL. */
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

/* ---- Streams: layer after layer, pass after pass ----
 *
 * For programs that compute layer by layer and can say so. A stream keeps nothing mapped: it reads
 * layers into its window with direct reads, ahead of the computation and on into the next pass, and
 * gives each one as a piece of memory for as long as it is held. Needs neither userfaultfd nor
 * rights.
 *
 *     weightpager_stream_options options = { .struct_bytes = sizeof options,
 *                                            .window_bytes = 256u << 20 };
 *     weightpager_stream* stream;
 *     if (weightpager_stream_open("model.gguf", &options, &stream) != 0) …
 *     for (uint32_t layer = 0; layer < weightpager_stream_layers(stream, NULL); ++layer) {
 *       uint64_t length_bytes;
 *       const void* weights = weightpager_stream_acquire(stream, layer, &length_bytes);
 *       if (weights == NULL) { puts(weightpager_error()); break; }
 *       … compute …
 *       weightpager_stream_release(stream, layer);
 *     }
 *
 * Layers may be held several at once, as many as fit, and released in any order. The window is
 * filled and freed in the order of the layers, so the earliest one that is held decides what fits
 * beside it: everything from there to the wanted layer takes space. A model that fits the window as
 * a whole is read once.
 *
 * While one thread waits in acquire, others that acquire or advise wait for it; release never
 * waits.
 */

typedef struct weightpager_stream weightpager_stream;

/* A layer's bytes in its file; they may begin and end anywhere. */
typedef struct weightpager_layer {
  /* For messages; may be NULL. */
  const char* name;
  uint64_t offset_bytes;
  /* 0: a layer without weights. Less than 4 GiB. */
  uint64_t length_bytes;
} weightpager_layer;

typedef struct weightpager_stream_options {
  /* sizeof(weightpager_stream_options), so that the struct can grow. */
  uint32_t struct_bytes;
  /* Of `layers`. */
  uint32_t layer_count;
  /* The memory budget for weights: at least the largest layer, rounded out to pages of 4 KiB of the
   * file; twice that, and the next layer is read while one is held. */
  uint64_t window_bytes;
  /* The layers in the order of a pass; copied. NULL: those of the model, from a GGUF or safetensors
   * file in which the tensors of each layer lie together. */
  const weightpager_layer* layers;
} weightpager_stream_options;

typedef enum weightpager_stream_advice {
  /* The layer is the next that will be acquired. Those before it in the order are let go, and not
   * read if it is not too late for that. */
  WEIGHTPAGER_STREAM_WILL_NEED = 1,
  /* No pass follows this one (or the first, if none has begun): nothing is read ahead for one. If
   * one follows all the same, it is as any other. The layer means nothing. */
  WEIGHTPAGER_STREAM_LAST_PASS = 2
} weightpager_stream_advice;

/* Measured since the stream was opened. */
typedef struct weightpager_stream_statistics {
  /* In: sizeof(weightpager_stream_statistics) as the caller knows it; later fields are not written.
   */
  uint32_t struct_bytes;
  uint64_t window_bytes; /* memory that was taken for weights */
  uint64_t read_bytes;
  uint64_t stall_ns; /* time in weightpager_stream_acquire, waiting for bytes */
  uint64_t passes;   /* that were begun */
} weightpager_stream_statistics;

/* Opens a file and begins to read its first layers. 0, or -1. */
WEIGHTPAGER_API int weightpager_stream_open(const char* path,
                                            const weightpager_stream_options* options,
                                            weightpager_stream** stream);

/* Ends the stream when the reads in flight are over. No layer may be used any more. NULL is
 * allowed. */
WEIGHTPAGER_API void weightpager_stream_close(weightpager_stream* stream);

/* How many layers there are; which, if `layers` is not NULL: valid until the stream is closed. */
WEIGHTPAGER_API uint32_t weightpager_stream_layers(const weightpager_stream* stream,
                                                   const weightpager_layer** layers);

/* Waits for a layer: the next time that it comes, in this pass or the one after it; layers before
 * it are let go. Returns its first byte, the others behind it as in the file, or NULL. Bytes stay
 * until release. Of a layer without weights the length is 0.
 *
 * Refused, without a change: what is held already (EBUSY), what cannot fit beside what is held
 * (ENOBUFS). After a read error the pass is over: what is held stays until it is released, and when
 * all is, the next call begins a new pass. A file that was changed since the stream was opened is
 * such an error, for good (ESTALE): no pass is a mixture. Open the stream anew. */
WEIGHTPAGER_API const void* weightpager_stream_acquire(weightpager_stream* stream, uint32_t layer,
                                                       uint64_t* length_bytes);

/* The layer's bytes are not used any more. 0, or -1 (EINVAL: it is not held). */
WEIGHTPAGER_API int weightpager_stream_release(weightpager_stream* stream, uint32_t layer);

/* 0, or -1. */
WEIGHTPAGER_API int weightpager_stream_advise(weightpager_stream* stream,
                                              weightpager_stream_advice advice, uint32_t layer);

/* Fills as much of *statistics as statistics->struct_bytes says. */
WEIGHTPAGER_API void weightpager_stream_get_statistics(const weightpager_stream* stream,
                                                       weightpager_stream_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
