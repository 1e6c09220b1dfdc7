/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What weightpager.ko and a pager say to each other, over /dev/weightpager.
 *
 * Opening the device makes a context: a window of slots, in which the pager (who opened it) has the
 * bytes of chunks, and regions, each of which stands for one file of weights. The pager maps the
 * window for writing, at offset 0 of the context's descriptor. A region is a descriptor of its own
 * for reading only; whoever has it maps it like the file, byte for byte. A touch of a chunk that no
 * slot shows waits, and puts an event into the ring; the pager reads the bytes into a slot and says
 * WP_IOC_SHOW. Chunks, slots and their alignment are of one size, chunk_bytes.
 */
#ifndef WEIGHTPAGER_UAPI_H
#define WEIGHTPAGER_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define WP_ABI_VERSION 1

#define WP_CHUNK_SHIFT_MIN 16 /* 64 KiB */
#define WP_CHUNK_SHIFT_MAX 21 /* 2 MiB: one huge page, where there is one */
#define WP_SLOTS_MAX (1u << 20)
#define WP_CHUNKS_MAX (1u << 24) /* of a region */
#define WP_REGIONS_MAX 4096
#define WP_EVENTS_MAX (1u << 16)
#define WP_WAITS 1024 /* records of waits that are over */
#define WP_RING_OFFSET (1ull << 46)

/* Once, first of all. */
struct wp_setup {
	__u32 version; /* WP_ABI_VERSION */
	__u32 chunk_shift;
	__u32 slots;
	__u32 events;	  /* a power of two */
	__u32 timeout_ms; /* 1 and up: when a chunk that nobody brings fails */
	__u32 reserved;	  /* 0 */
	__u64 ring_bytes; /* out: to be mapped at WP_RING_OFFSET */
};

struct wp_region_add {
	__u32 chunks;
	__u32 reserved; /* 0 */
	__s32 fd;	/* out: close-on-exec */
	__u32 id;	/* out */
};

/* Neighbours in a region, and neighbouring slots. */
struct wp_run {
	__u32 region;
	__u32 chunk;
	__u32 slot; /* WP_IOC_SHOW only */
	__u32 count;
};

struct wp_runs {
	__u64 runs; /* address of struct wp_run[count] */
	__u32 count;
	__u32 done; /* out: those before the one that failed */
};

struct wp_slots {
	__u32 slot;
	__u32 count;
};

#define WP_IOC_SETUP _IOWR('W', 0xc0, struct wp_setup)
#define WP_IOC_ADD_REGION _IOWR('W', 0xc1, struct wp_region_add)
/* Chunks appear, complete, in every mapping, and who waits for them goes on. */
#define WP_IOC_SHOW _IOWR('W', 0xc2, struct wp_runs)
/* Chunks disappear from every mapping; the next touch waits. Their slots keep the bytes, for them alone. */
#define WP_IOC_HIDE _IOWR('W', 0xc3, struct wp_runs)
/* The same, also for chunks that are hidden already; their slots may be written to again. */
#define WP_IOC_EVICT _IOWR('W', 0xc6, struct wp_runs)
/* Chunks disappear; who touches them, or waits for them, gets SIGBUS (EFAULT), until WP_IOC_SHOW. */
#define WP_IOC_POISON _IOWR('W', 0xc4, struct wp_runs)
/* Slots that have no chunk give their memory back; they get new memory when they are written to. */
#define WP_IOC_RELEASE _IOW('W', 0xc5, struct wp_slots)

#define WP_EVENT_REMOTE 1 /* somebody else's access: a GPU's, or get_user_pages on another process */
#define WP_EVENT_WRITE 2 /* to a private mapping, which gets a copy */
#define WP_EVENT_LOCKED 4 /* waits with the process's mmap lock held: it could not be dropped */
#define WP_EVENT_KERNEL 8 /* a thread of the kernel's */

/* A chunk is wanted. There is one event per chunk until it is shown, hidden or poisoned. */
struct wp_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 region;
	__u32 page; /* of the region, 4 KiB */
	__u32 thread;
	__u32 flags;
};

/* A wait is over. */
struct wp_wait {
	__u64 time_ns;
	__u64 waited_ns;
	__u32 region;
	__u32 page;
	__u32 thread;
	__u32 flags;
};

struct wp_counters {
	__u64 faults;	      /* touches of pages that were not mapped */
	__u64 waits;	      /* those that had to wait */
	__u64 waits_remote;   /* of them: WP_EVENT_REMOTE */
	__u64 waits_locked;   /* of them: WP_EVENT_LOCKED */
	__u64 waits_killed;   /* of them: ended by a signal */
	__u64 timeouts;	      /* chunks that failed because nobody brought them */
	__u64 bus_errors;     /* faults that were answered with SIGBUS */
	__u64 chunks_shown;
	__u64 chunks_hidden;
	__u64 unmaps;	      /* walks through all mappings that hiding took */
	__u64 slots_replaced; /* somebody had pinned what was hidden, and keeps it; the slot got new memory */
	__u64 huge_slots;     /* that are one huge page */
};

/* At WP_RING_OFFSET. events[] follow the header, waits[] follow these. Only tail is the pager's. */
struct wp_ring {
	__u32 head; /* events ever written, modulo 2^32; the descriptor polls readable when head != tail */
	__u32 tail; /* events taken */
	__u32 events;
	__u32 waits_written; /* modulo 2^32; the newest WP_WAITS of them are there */
	struct wp_counters counters;
	__u8 reserved[4096 - 16 - sizeof(struct wp_counters)];
};

#endif
