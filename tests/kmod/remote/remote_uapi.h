/* SPDX-License-Identifier: GPL-2.0 */
/* What tests ask of weightpager_remote.ko. */
#ifndef WEIGHTPAGER_REMOTE_UAPI_H
#define WEIGHTPAGER_REMOTE_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct remote_access {
  __u64 address; /* in the caller's memory, of a page */
  __u64 result;  /* out: the page's first eight bytes */
};

/* As a GPU's driver does: hmm_range_fault() from a thread of the kernel's. */
#define REMOTE_HMM _IOWR('R', 0, struct remote_access)
/* As cudaHostRegister does: pinned until it is unpinned or the descriptor is closed; one per
 * descriptor. */
#define REMOTE_PIN _IOWR('R', 1, struct remote_access)
#define REMOTE_READ_PINNED _IOWR('R', 2, struct remote_access)
#define REMOTE_UNPIN _IO('R', 3)

#endif
