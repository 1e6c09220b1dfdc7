/* weightpager: model files in a small window of memory. A pager maps them, for code that touches
 * weights in any order. A stream (below) gives one layer after another, for code that knows which
 * layer comes next.
 *
 * A pager maps whole model files into reserved address ranges (regions) and keeps only a window of
 * them in memory. Reading a byte of a region gives the file's byte, as with mmap; a part that
 * cannot be read raises SIGBUS, never zeros. A program may tell the pager which range it needs next
 * and which one it has consumed; the pager then reads ahead better than it can by watching.
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
  /* Not 0: listen at a control socket while files are mapped. `weightpager ps`, `top` and the like
   * then see this pager, if this user or root runs them. One pager of a process can listen. It
   * needs libuv.so.1; where that cannot be had, one line on stderr says so. */
  int listens;
  /* Directories on other drives, at most 3, ended by NULL; NULL: none. Each has a copy of every
   * file that is mapped, under the file's name, and files are read from all drives. The first time
   * that weightpager_map meets a file, it reads the file and its copies as a whole, to compare
   * them; the outcome is kept in ~/.cache/weightpager. It fails if a copy is missing or not the
   * same. */
  const char* const* mirrors;
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

/* Says what went wrong in this thread's last failed call, and the cure if one is known. Never NULL.
 */
WEIGHTPAGER_API const char* weightpager_error(void);

/* Starts a pager with an empty window. 0, or -1. */
WEIGHTPAGER_API int weightpager_open(const weightpager_options* options, weightpager_pager** pager);

/* Unmaps every region and ends the pager. No thread may touch a region any more. NULL is allowed.
 */
WEIGHTPAGER_API void weightpager_close(weightpager_pager* pager);

/* Maps a model file, read-only, as a whole. A file of a format whose layers are known
 * (docs/reference/models.md) is read ahead in the order of its layers, any other in the order of
 * its bytes. If the file was changed since an earlier mapping, it is read anew for this one.
 * Returns its first byte, or NULL. */
WEIGHTPAGER_API const void* weightpager_map(weightpager_pager* pager, const char* path,
                                            uint64_t* length_bytes);

/* Unmaps a region that weightpager_map returned. 0, or -1 (EINVAL: not a region's address). */
WEIGHTPAGER_API int weightpager_unmap(weightpager_pager* pager, const void* address);

/* Advice: the range is needed soon. A range wider than half of the window, given before the first
 * touch, means that a pass will begin: reading begins with the first layer. */
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
 * Streams are for programs that compute layer by layer and know which layer comes next. A stream
 * maps nothing. It reads layers into its window with direct reads, ahead of the computation and on
 * into the next pass, and gives each layer as a piece of memory for as long as it is held. It needs
 * neither userfaultfd nor rights.
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
 * Several layers may be held at once, as many as fit, and released in any order. The window is
 * filled and freed in the order of the layers, so the earliest held layer decides which others fit:
 * all layers from there to the wanted one take space. A model that fits the window as a whole is
 * read once.
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
  /* The number of `layers`. */
  uint32_t layer_count;
  /* The memory budget for weights: at least the largest layer, rounded out to pages of 4 KiB of the
   * file. With twice that, the next layer is read while one is held. */
  uint64_t window_bytes;
  /* The layers in the order of a pass; the array is copied. NULL: the layers of the model, from a
   * file of a format whose layers are known (docs/reference/models.md), and in which the tensors of
   * each layer lie together. */
  const weightpager_layer* layers;
} weightpager_stream_options;

typedef enum weightpager_stream_advice {
  /* The layer is the next one that will be acquired. Layers before it in the order are let go, and
   * they are not read if their reads have not begun. */
  WEIGHTPAGER_STREAM_WILL_NEED = 1,
  /* No pass follows this one (or the first one, if none has begun), so nothing is read ahead for
   * it. A pass may follow all the same, and is like any other. `layer` is ignored. */
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
  uint64_t passes;   /* passes that have begun */
} weightpager_stream_statistics;

/* Opens a file and begins to read its first layers. 0, or -1. */
WEIGHTPAGER_API int weightpager_stream_open(const char* path,
                                            const weightpager_stream_options* options,
                                            weightpager_stream** stream);

/* Ends the stream when the reads in flight are over. No layer may be used any more. NULL is
 * allowed. */
WEIGHTPAGER_API void weightpager_stream_close(weightpager_stream* stream);

/* Returns how many layers there are. If `layers` is not NULL, it is pointed at them; they are valid
 * until the stream is closed. */
WEIGHTPAGER_API uint32_t weightpager_stream_layers(const weightpager_stream* stream,
                                                   const weightpager_layer** layers);

/* Waits for the next time that a layer comes, in this pass or the one after it. Layers before it
 * are let go. Returns the layer's first byte, or NULL; its other bytes follow as in the file, and
 * stay until release. The length of a layer without weights is 0.
 *
 * A layer that is held already is refused (EBUSY), and so is one that cannot fit beside the held
 * ones (ENOBUFS); nothing changes then. After a read error the pass is over. Held layers stay until
 * they are released; when all of them are, the next call begins a new pass. If the file was changed
 * since the stream was opened, this and every later acquire fail (ESTALE), so that no pass mixes
 * two versions: open the stream anew. */
WEIGHTPAGER_API const void* weightpager_stream_acquire(weightpager_stream* stream, uint32_t layer,
                                                       uint64_t* length_bytes);

/* Says that the layer's bytes are not used any more. 0, or -1 (EINVAL: it is not held). */
WEIGHTPAGER_API int weightpager_stream_release(weightpager_stream* stream, uint32_t layer);

/* Gives advice about a layer. 0, or -1. */
WEIGHTPAGER_API int weightpager_stream_advise(weightpager_stream* stream,
                                              weightpager_stream_advice advice, uint32_t layer);

/* Fills as much of *statistics as statistics->struct_bytes says. */
WEIGHTPAGER_API void weightpager_stream_get_statistics(const weightpager_stream* stream,
                                                       weightpager_stream_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
