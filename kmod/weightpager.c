// SPDX-License-Identifier: GPL-2.0
/*
 * weightpager.ko: weights that are not in memory yet, and a touch of them that waits in the kernel.
 *
 * The problem: whoever touches memory that userfaultfd watches without being able to let go of the
 * mmap lock (a GPU's driver, pinning, O_DIRECT on old kernels) fails. The idea: a mapping whose
 * ->fault waits until a pager in user space has brought the bytes, and then returns an ordinary
 * page. The pager reads straight into these pages through a mapping of its own, so nothing is
 * copied. README.md has the ABI, the locking rules and the threat model.
 *
 * Locks, outer first:
 *   mmap lock       of whoever faults
 *   op_lock         (mutex) one ioctl that changes what is shown at a time
 *   invalidate_lock (of a region's inode) shared while a fault inserts pages itself
 *   page lock       from a fault's last look at the chunk until the kernel has mapped the page
 *   lock            (spin) states of chunks, memory of slots, the ring
 * No ioctl but those that copy their arguments needs anybody's mmap lock, and those do it first.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/poll.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "weightpager_uapi.h"

#define WP_WAIT_QUEUES_SHIFT 6
#define WP_INSERT_AT_ONCE 64
/* How often a touch that found the ring full looks again. */
#define WP_RING_FULL_RETRY msecs_to_jiffies(10)

enum wp_state { WP_ABSENT, WP_SHOWN, WP_POISONED };

struct wp_chunk {
	u32 slot; /* while it is WP_SHOWN, held or leaving */
	u8 state;
	bool is_held; /* WP_ABSENT, but its slot has its bytes */
	bool is_leaving; /* no longer WP_SHOWN, but still in mappings */
	bool is_requested; /* the ring has, or had, an event for it */
};

/* Either one huge page, or one page after the other, or no memory. */
struct wp_slot {
	struct page *huge;
	struct page **small;
	bool is_taken; /* by a chunk that it shows, or that is held */
};

struct wp_context {
	struct kref refs; /* the context's file, and each region */
	struct inode *inode; /* of the window; it has its own mappings */
	struct pid *owner;
	struct mutex op_lock;
	struct xarray regions; /* by id; changed under op_lock */

	/* Written once, by WP_IOC_SETUP. */
	bool is_set_up;
	u32 chunk_shift;
	u32 slots_count;
	u32 events;
	unsigned long timeout;

	spinlock_t lock;
	bool is_dead; /* the pager is gone */
	struct wp_slot *slots;
	struct wp_ring *ring;
	u32 head; /* the ring's own copies are the pager's to spoil, as its counters are */
	u32 waits_written;

	wait_queue_head_t poll_queue;
	wait_queue_head_t queues[1 << WP_WAIT_QUEUES_SHIFT]; /* by chunk */
};

struct wp_region {
	struct wp_context *ctx;
	struct inode *inode;
	u32 id;
	u32 chunks_count;
	pgoff_t pages;
	atomic_t closes; /* mappings, or parts, that were unmapped so far */
	struct wp_chunk *chunks;
};

/* ---- Kernels ---- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
static void release_fault_lock(struct vm_fault *vmf)
{
	mmap_read_unlock(vmf->vma->vm_mm);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}
#endif

/* ---- Inodes: mappings are found, and unmapped, through them ---- */

static struct vfsmount *wp_mount;
static int wp_mount_users;

static int wp_init_fs_context(struct fs_context *fc)
{
	return init_pseudo(fc, 0x77706772) ? 0 : -ENOMEM;
}

/* A mounted filesystem holds its module: it is mounted while there is an inode. */
static struct file_system_type wp_fs = {
	.name = KBUILD_MODNAME,
	.owner = THIS_MODULE,
	.init_fs_context = wp_init_fs_context,
	.kill_sb = kill_anon_super,
};

static struct inode *wp_new_inode(loff_t size)
{
	struct inode *inode;
	int error = simple_pin_fs(&wp_fs, &wp_mount, &wp_mount_users);

	if (error)
		return ERR_PTR(error);
	inode = alloc_anon_inode(wp_mount->mnt_sb);
	if (IS_ERR(inode))
		simple_release_fs(&wp_mount, &wp_mount_users);
	else
		i_size_write(inode, size); /* huge pages are mapped up to here only */
	return inode;
}

static void wp_put_inode(struct inode *inode)
{
	iput(inode);
	simple_release_fs(&wp_mount, &wp_mount_users);
}

/* ---- Slots ---- */

static pgoff_t wp_chunk_pages(const struct wp_context *ctx)
{
	return 1ul << (ctx->chunk_shift - PAGE_SHIFT);
}

static bool wp_has_memory(const struct wp_slot *slot)
{
	return slot->huge || slot->small;
}

static struct page *wp_slot_page(const struct wp_slot *slot, pgoff_t index)
{
	if (slot->huge)
		return slot->huge + index;
	return slot->small ? slot->small[index] : NULL;
}

static void wp_put_memory(const struct wp_context *ctx, struct wp_slot *slot)
{
	pgoff_t i;

	if (slot->huge)
		put_page(slot->huge);
	for (i = 0; slot->small && i < wp_chunk_pages(ctx) && slot->small[i]; i++)
		put_page(slot->small[i]);
	kvfree(slot->small);
	slot->huge = NULL;
	slot->small = NULL;
}

/* Zeroed: the pager maps it before it has read into it. */
static int wp_get_memory(const struct wp_context *ctx, struct wp_slot *slot)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO;
	const pgoff_t pages = wp_chunk_pages(ctx);
	pgoff_t i;

	memset(slot, 0, sizeof(*slot));
	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) && pages == HPAGE_PMD_NR)
		slot->huge = alloc_pages(gfp | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, HPAGE_PMD_ORDER);
	if (slot->huge)
		return 0;
	slot->small = kvcalloc(pages, sizeof(*slot->small), GFP_KERNEL_ACCOUNT);
	if (!slot->small)
		return -ENOMEM;
	for (i = 0; i < pages; i++) {
		slot->small[i] = alloc_page(gfp);
		if (!slot->small[i]) {
			wp_put_memory(ctx, slot);
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

/* Who looked at the slot before has mapped its page when this returns. */
static void wp_await_faults(const struct wp_context *ctx, const struct wp_slot *slot)
{
	pgoff_t i;

	if (slot->huge) {
		lock_page(slot->huge);
		unlock_page(slot->huge);
	}
	for (i = 0; slot->small && i < wp_chunk_pages(ctx); i++) {
		lock_page(slot->small[i]);
		unlock_page(slot->small[i]);
	}
}

/*
 * Whether a page has no references but ours and those that entries in page tables hold. May say no
 * where that is so: of a huge page that is mapped piece by piece.
 */
static bool wp_page_is_ours(struct page *page, bool is_huge)
{
	int mapped = is_huge ? folio_entire_mapcount(page_folio(page)) : atomic_read(&page->_mapcount) + 1;

	return page_ref_count(page) == 1 + mapped;
}

static bool wp_memory_is_ours(const struct wp_context *ctx, const struct wp_slot *slot)
{
	pgoff_t i;

	if (slot->huge)
		return wp_page_is_ours(slot->huge, true);
	for (i = 0; i < wp_chunk_pages(ctx); i++)
		if (!wp_page_is_ours(slot->small[i], false))
			return false;
	return true;
}

static void wp_unmap_window(struct wp_context *ctx, u32 slot, u32 count)
{
	unmap_mapping_range(ctx->inode->i_mapping, (loff_t)slot << ctx->chunk_shift,
			    (loff_t)count << ctx->chunk_shift, 1);
}

/* Takes the memory away from the slot, for the caller to put, and from the pager's mapping. */
static struct wp_slot wp_detach_memory(struct wp_context *ctx, struct wp_slot *slot)
{
	struct wp_slot memory;

	spin_lock(&ctx->lock);
	memory = *slot;
	slot->huge = NULL;
	slot->small = NULL;
	if (memory.huge)
		ctx->ring->counters.huge_slots--;
	spin_unlock(&ctx->lock);
	wp_await_faults(ctx, &memory);
	return memory;
}

/*
 * The slot's chunk is in no mapping any more. Whoever has pinned pages of it (a GPU, a direct write)
 * keeps them, with the bytes that they have; the slot gets other memory.
 */
static void wp_recycle_slot(struct wp_context *ctx, u32 index)
{
	struct wp_slot *slot = &ctx->slots[index];
	struct wp_slot memory;
	bool is_replaced = false;

	if (!wp_memory_is_ours(ctx, slot)) {
		wp_unmap_window(ctx, index, 1);
		if (!wp_memory_is_ours(ctx, slot)) {
			memory = wp_detach_memory(ctx, slot);
			wp_unmap_window(ctx, index, 1);
			wp_put_memory(ctx, &memory);
			is_replaced = true;
		}
	}
	spin_lock(&ctx->lock);
	slot->is_taken = false;
	ctx->ring->counters.slots_replaced += is_replaced;
	spin_unlock(&ctx->lock);
}

/* ---- The ring, under ctx->lock ---- */

static u32 wp_fault_flags(const struct vm_fault *vmf)
{
	u32 flags = 0;

	if (vmf->flags & FAULT_FLAG_REMOTE)
		flags |= WP_EVENT_REMOTE;
	if (vmf->flags & FAULT_FLAG_WRITE)
		flags |= WP_EVENT_WRITE;
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY))
		flags |= WP_EVENT_LOCKED;
	if (current->flags & PF_KTHREAD)
		flags |= WP_EVENT_KERNEL;
	return flags;
}

static bool wp_ring_is_full(const struct wp_context *ctx)
{
	return ctx->head - READ_ONCE(ctx->ring->tail) >= ctx->events;
}

/* False: no room. */
static bool wp_request(struct wp_region *region, struct wp_chunk *chunk, pgoff_t page, u32 flags)
{
	struct wp_context *ctx = region->ctx;
	struct wp_event *events = (void *)(ctx->ring + 1);

	if (chunk->is_requested)
		return true;
	if (wp_ring_is_full(ctx))
		return false;
	events[ctx->head & (ctx->events - 1)] = (struct wp_event){
		.time_ns = ktime_get_ns(),
		.region = region->id,
		.page = page,
		.thread = task_pid_nr(current),
		.flags = flags,
	};
	chunk->is_requested = true;
	smp_store_release(&ctx->ring->head, ++ctx->head);
	return true;
}

static void wp_record_wait(struct wp_region *region, pgoff_t page, u32 flags, u64 since_ns)
{
	struct wp_context *ctx = region->ctx;
	struct wp_event *events = (void *)(ctx->ring + 1);
	struct wp_wait *waits = (void *)(events + ctx->events);
	const u64 now_ns = ktime_get_ns();

	waits[ctx->waits_written % WP_WAITS] = (struct wp_wait){
		.time_ns = now_ns,
		.waited_ns = now_ns - since_ns,
		.region = region->id,
		.page = page,
		.thread = task_pid_nr(current),
		.flags = flags,
	};
	smp_store_release(&ctx->ring->waits_written, ++ctx->waits_written);
	ctx->ring->counters.waits++;
	ctx->ring->counters.waits_remote += !!(flags & WP_EVENT_REMOTE);
	ctx->ring->counters.waits_locked += !!(flags & WP_EVENT_LOCKED);
}

/* ---- Waiting ---- */

static wait_queue_head_t *wp_queue(const struct wp_region *region, u32 chunk)
{
	return &region->ctx->queues[hash_32(chunk ^ (region->id << 24), WP_WAIT_QUEUES_SHIFT)];
}

static bool wp_is_settled(const struct wp_region *region, u32 chunk)
{
	return READ_ONCE(region->chunks[chunk].state) != WP_ABSENT || READ_ONCE(region->ctx->is_dead);
}

/* A wait that began after so many `closes`. */
static bool wp_is_over(const struct wp_region *region, u32 chunk, int closes)
{
	return wp_is_settled(region, chunk) || atomic_read(&region->closes) != closes;
}

/* For good: who waits, and whoever comes, gets SIGBUS. */
static void wp_fail_everybody(struct wp_context *ctx)
{
	int i;

	spin_lock(&ctx->lock);
	ctx->is_dead = true;
	spin_unlock(&ctx->lock);
	for (i = 0; i < ARRAY_SIZE(ctx->queues); i++)
		wake_up_all(&ctx->queues[i]);
}

static void wp_time_out(struct wp_region *region, u32 chunk)
{
	struct wp_context *ctx = region->ctx;

	spin_lock(&ctx->lock);
	if (region->chunks[chunk].state == WP_ABSENT) {
		region->chunks[chunk].state = WP_POISONED;
		region->chunks[chunk].is_requested = false;
		ctx->ring->counters.timeouts++;
		pr_warn_ratelimited("chunk %u of region %u: nobody brought it (events: %u sent, %u taken)\n", chunk,
				    region->id, ctx->head, READ_ONCE(ctx->ring->tail));
	}
	spin_unlock(&ctx->lock);
	wake_up_all(wp_queue(region, chunk));
}

/*
 * Returns when the chunk is there, failed, or the waiter is killed (true); also when something was
 * unmapped, which may be what it waits at: it looks again. A chunk can be shown and hidden again
 * before its waiter gets to run: then nobody knows of the waiter any more, and it asks once more.
 */
static bool wp_wait_for_chunk(struct wp_region *region, u32 chunk, pgoff_t page, u32 flags)
{
	struct wp_context *ctx = region->ctx;
	const bool *is_requested = &region->chunks[chunk].is_requested;
	const unsigned long deadline = jiffies + ctx->timeout;
	const u64 since_ns = ktime_get_ns();
	const int closes = atomic_read(&region->closes);
	bool is_posted, is_killed = false;
	long left;

	while (!is_killed && !wp_is_over(region, chunk, closes)) {
		left = deadline - jiffies;
		if (left <= 0) {
			wp_time_out(region, chunk);
			break;
		}
		spin_lock(&ctx->lock);
		is_posted = wp_is_settled(region, chunk) ||
			    wp_request(region, &region->chunks[chunk], page, flags);
		spin_unlock(&ctx->lock);
		wake_up_poll(&ctx->poll_queue, EPOLLIN);
		if (!is_posted)
			left = min_t(long, left, WP_RING_FULL_RETRY);
		is_killed = wait_event_killable_timeout(*wp_queue(region, chunk),
							wp_is_over(region, chunk, closes) ||
								(is_posted && !READ_ONCE(*is_requested)),
							left) < 0;
	}
	spin_lock(&ctx->lock);
	ctx->ring->counters.waits_killed += is_killed;
	wp_record_wait(region, page, flags, since_ns);
	spin_unlock(&ctx->lock);
	return is_killed;
}

/* ---- Faults in a region ---- */

static vm_fault_t wp_bus_error(struct wp_context *ctx)
{
	spin_lock(&ctx->lock);
	ctx->ring->counters.bus_errors++;
	spin_unlock(&ctx->lock);
	return VM_FAULT_SIGBUS;
}

/* Under ctx->lock: the page that stands for `pgoff` now, with a reference; NULL: none. */
static struct page *wp_shown_page(struct wp_region *region, pgoff_t pgoff)
{
	const struct wp_context *ctx = region->ctx;
	const struct wp_chunk *chunk = &region->chunks[pgoff / wp_chunk_pages(ctx)];
	struct page *page;

	if (chunk->state != WP_SHOWN || ctx->is_dead)
		return NULL;
	page = wp_slot_page(&ctx->slots[chunk->slot], pgoff % wp_chunk_pages(ctx));
	get_page(page);
	return page;
}

/*
 * Of small chunks: maps pages from the touched one to the chunk's end, where the kernel would come
 * back for each of them.
 */
static bool wp_insert_pages(struct wp_region *region, struct vm_fault *vmf)
{
	struct address_space *mapping = region->inode->i_mapping;
	struct wp_context *ctx = region->ctx;
	struct page *pages[WP_INSERT_AT_ONCE];
	struct vm_area_struct *vma = vmf->vma;
	unsigned long address = vmf->address & PAGE_MASK;
	pgoff_t pgoff = vmf->pgoff;
	const pgoff_t end = min3(round_down(pgoff, wp_chunk_pages(ctx)) + wp_chunk_pages(ctx), region->pages,
				 pgoff + ((vma->vm_end - address) >> PAGE_SHIFT));
	bool is_touched_mapped = false;

	if ((vmf->flags & FAULT_FLAG_WRITE) || !(vma->vm_flags & VM_MIXEDMAP))
		return false;
	filemap_invalidate_lock_shared(mapping);
	while (pgoff < end) {
		unsigned long i, count = 0, left;
		int error;

		spin_lock(&ctx->lock);
		for (; count < WP_INSERT_AT_ONCE && pgoff + count < end; count++) {
			pages[count] = wp_shown_page(region, pgoff + count);
			if (!pages[count])
				break;
		}
		spin_unlock(&ctx->lock);
		if (!count)
			break;
		left = count;
		error = vm_insert_pages(vma, address, pages, &left);
		/* Inserting took references of its own. */
		for (i = 0; i < count; i++)
			put_page(pages[i]);
		if (error == -EBUSY || left < count)
			is_touched_mapped = true;
		if (error)
			break;
		pgoff += count;
		address += count << PAGE_SHIFT;
	}
	filemap_invalidate_unlock_shared(mapping);
	return is_touched_mapped;
}

static vm_fault_t wp_region_fault(struct vm_fault *vmf)
{
	struct wp_region *region = vmf->vma->vm_file->private_data;
	struct wp_context *ctx = region->ctx;
	const u32 chunk = vmf->pgoff / wp_chunk_pages(ctx);
	struct page *page, *again;
	struct file *file;
	bool is_settled;

	spin_lock(&ctx->lock);
	ctx->ring->counters.faults++;
	spin_unlock(&ctx->lock);
	if (vmf->pgoff >= region->pages)
		return wp_bus_error(ctx);
	if (wp_insert_pages(region, vmf))
		return VM_FAULT_NOPAGE;
	for (;;) {
		spin_lock(&ctx->lock);
		page = wp_shown_page(region, vmf->pgoff);
		is_settled = wp_is_settled(region, chunk);
		spin_unlock(&ctx->lock);
		if (page) {
			/* Whoever hides the chunk waits for this lock between saying so and unmapping. */
			lock_page(page);
			spin_lock(&ctx->lock);
			again = wp_shown_page(region, vmf->pgoff);
			spin_unlock(&ctx->lock);
			if (again)
				put_page(again);
			if (again == page) {
				vmf->page = page;
				return VM_FAULT_LOCKED;
			}
			unlock_page(page);
			put_page(page);
			continue;
		}
		if (is_settled)
			return wp_bus_error(ctx);
		if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY)) {
			/* A GPU, or somebody who pins: nobody can map or unmap in this process meanwhile. */
			if (wp_wait_for_chunk(region, chunk, vmf->pgoff, wp_fault_flags(vmf)))
				return VM_FAULT_SIGBUS;
			continue;
		}
		if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT) {
			spin_lock(&ctx->lock);
			wp_request(region, &region->chunks[chunk], vmf->pgoff, wp_fault_flags(vmf));
			spin_unlock(&ctx->lock);
			wake_up_poll(&ctx->poll_queue, EPOLLIN);
			return VM_FAULT_RETRY;
		}
		/* Without the lock the mapping may go; the file, and with it the region, stays. */
		file = get_file(vmf->vma->vm_file);
		{
			const pgoff_t pgoff = vmf->pgoff;
			const u32 flags = wp_fault_flags(vmf);

			release_fault_lock(vmf);
			wp_wait_for_chunk(region, chunk, pgoff, flags);
		}
		fput(file);
		return VM_FAULT_RETRY;
	}
}

static void wp_wake(struct wp_region *region, u32 first, u32 count);

static void wp_region_close(struct vm_area_struct *vma)
{
	struct wp_region *region = vma->vm_file->private_data;

	atomic_inc(&region->closes);
	wp_wake(region, 0, region->chunks_count);
}

static const struct vm_operations_struct wp_region_vm_ops = {
	.close = wp_region_close,
	.fault = wp_region_fault,
};

static int wp_region_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct wp_region *region = file->private_data;

	/* A core dump shall not read the model. */
	vm_flags_set(vma, VM_DONTDUMP);
	/*
	 * Small pages may be inserted while faults are served. Never where a huge one can be: unmapping
	 * it, the kernel would think that it has no counts (vma_is_special_huge), and leak it.
	 */
	if (wp_chunk_pages(region->ctx) < HPAGE_PMD_NR)
		vm_flags_set(vma, VM_MIXEDMAP);
	vma->vm_ops = &wp_region_vm_ops;
	return 0;
}

/* ---- Contexts and regions ---- */

static void wp_free_context(struct kref *refs)
{
	struct wp_context *ctx = container_of(refs, struct wp_context, refs);

	xa_destroy(&ctx->regions);
	kvfree(ctx->slots);
	vfree(ctx->ring);
	put_pid(ctx->owner);
	wp_put_inode(ctx->inode);
	kfree(ctx);
}

static void wp_free_region(struct wp_region *region)
{
	wp_put_inode(region->inode);
	kvfree(region->chunks);
	kref_put(&region->ctx->refs, wp_free_context);
	kfree(region);
}

static int wp_hide(struct wp_region *region, const struct wp_run *run, enum wp_state state, bool keeps_slots);

/* The last mapping and the last descriptor are gone. */
static int wp_region_release(struct inode *inode, struct file *file)
{
	struct wp_region *region = file->private_data;
	struct wp_context *ctx = region->ctx;
	const struct wp_run all = { .count = region->chunks_count };

	mutex_lock(&ctx->op_lock);
	if (!ctx->is_dead)
		wp_hide(region, &all, WP_ABSENT, false);
	xa_erase(&ctx->regions, region->id);
	mutex_unlock(&ctx->op_lock);
	wp_free_region(region);
	return 0;
}

static const struct file_operations wp_region_fops = {
	.owner = THIS_MODULE,
	.mmap = wp_region_mmap,
	.get_unmapped_area = thp_get_unmapped_area,
	.release = wp_region_release,
	.llseek = noop_llseek,
};

static int wp_make_region(struct wp_context *ctx, u32 chunks, struct file **file)
{
	struct wp_region *region;
	int error = -ENOMEM;

	if (!chunks || chunks > WP_CHUNKS_MAX)
		return -EINVAL;
	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return -ENOMEM;
	region->ctx = ctx;
	region->chunks_count = chunks;
	region->pages = chunks * wp_chunk_pages(ctx);
	region->chunks = kvcalloc(chunks, sizeof(*region->chunks), GFP_KERNEL_ACCOUNT);
	if (!region->chunks)
		goto free;
	region->inode = wp_new_inode((loff_t)chunks << ctx->chunk_shift);
	if (IS_ERR(region->inode)) {
		error = PTR_ERR(region->inode);
		goto free;
	}
	error = xa_alloc(&ctx->regions, &region->id, region, XA_LIMIT(0, WP_REGIONS_MAX - 1), GFP_KERNEL_ACCOUNT);
	if (error)
		goto put_inode;
	ihold(region->inode); /* the file's */
	*file = alloc_file_pseudo(region->inode, wp_mount, KBUILD_MODNAME, O_RDONLY, &wp_region_fops);
	if (IS_ERR(*file)) {
		error = PTR_ERR(*file);
		iput(region->inode);
		xa_erase(&ctx->regions, region->id);
		goto put_inode;
	}
	(*file)->private_data = region;
	__module_get(THIS_MODULE); /* which closing the file gives back */
	kref_get(&ctx->refs);
	return region->id;
put_inode:
	wp_put_inode(region->inode);
free:
	kvfree(region->chunks);
	kfree(region);
	return error;
}

static int wp_add_region(struct wp_context *ctx, struct wp_region_add __user *argument)
{
	struct wp_region_add add;
	struct file *file;
	int id, fd;

	if (copy_from_user(&add, argument, sizeof(add)))
		return -EFAULT;
	if (add.reserved)
		return -EINVAL;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	mutex_lock(&ctx->op_lock);
	id = wp_make_region(ctx, add.chunks, &file);
	mutex_unlock(&ctx->op_lock);
	if (id < 0) {
		put_unused_fd(fd);
		return id;
	}
	add.fd = fd;
	add.id = id;
	if (copy_to_user(argument, &add, sizeof(add))) {
		put_unused_fd(fd);
		fput(file);
		return -EFAULT;
	}
	fd_install(fd, file);
	return 0;
}

static int wp_set_up(struct wp_context *ctx, struct wp_setup __user *argument)
{
	struct wp_setup setup;
	struct wp_slot *slots;
	struct wp_ring *ring;
	int error = -EBUSY;

	if (copy_from_user(&setup, argument, sizeof(setup)))
		return -EFAULT;
	if (setup.version != WP_ABI_VERSION)
		return -EPROTO;
	if (setup.chunk_shift < WP_CHUNK_SHIFT_MIN || setup.chunk_shift > WP_CHUNK_SHIFT_MAX || !setup.slots ||
	    setup.slots > WP_SLOTS_MAX || !is_power_of_2(setup.events) || setup.events > WP_EVENTS_MAX ||
	    !setup.timeout_ms || setup.reserved)
		return -EINVAL;
	setup.ring_bytes = PAGE_ALIGN(sizeof(*ring) + setup.events * sizeof(struct wp_event) +
				      WP_WAITS * sizeof(struct wp_wait));
	if (copy_to_user(argument, &setup, sizeof(setup)))
		return -EFAULT;
	slots = kvcalloc(setup.slots, sizeof(*slots), GFP_KERNEL_ACCOUNT);
	ring = vmalloc_user(setup.ring_bytes);
	if (!slots || !ring) {
		kvfree(slots);
		vfree(ring);
		return -ENOMEM;
	}
	mutex_lock(&ctx->op_lock);
	if (!ctx->is_set_up) {
		error = 0;
		ctx->chunk_shift = setup.chunk_shift;
		ctx->slots_count = setup.slots;
		ctx->events = setup.events;
		ctx->timeout = max(msecs_to_jiffies(setup.timeout_ms), 1ul);
		ctx->owner = get_pid(task_tgid(current));
		swap(ctx->slots, slots);
		swap(ctx->ring, ring);
		ctx->ring->events = setup.events;
		i_size_write(ctx->inode, (loff_t)setup.slots << setup.chunk_shift);
		smp_store_release(&ctx->is_set_up, true);
	}
	mutex_unlock(&ctx->op_lock);
	kvfree(slots);
	vfree(ring);
	return error;
}

/* ---- Show, hide, poison; under op_lock ---- */

static void wp_wake(struct wp_region *region, u32 first, u32 count)
{
	u32 i;

	/* More chunks than queues: each queue once. */
	if (count >= ARRAY_SIZE(region->ctx->queues)) {
		for (i = 0; i < ARRAY_SIZE(region->ctx->queues); i++)
			wake_up_all(&region->ctx->queues[i]);
		return;
	}
	for (i = 0; i < count; i++)
		wake_up_all(wp_queue(region, first + i));
}

static int wp_check_show(const struct wp_region *region, const struct wp_run *run)
{
	const struct wp_context *ctx = region->ctx;
	u32 i;

	for (i = 0; i < run->count; i++) {
		const struct wp_chunk *chunk = &region->chunks[run->chunk + i];

		if (chunk->state == WP_SHOWN)
			return -EEXIST;
		if (chunk->is_held ? chunk->slot != run->slot + i : ctx->slots[run->slot + i].is_taken)
			return -EBUSY;
		if (!wp_has_memory(&ctx->slots[run->slot + i]))
			return -ENODATA;
	}
	return 0;
}

static int wp_show(struct wp_region *region, const struct wp_run *run)
{
	struct wp_context *ctx = region->ctx;
	int error;
	u32 i;

	if (run->slot >= ctx->slots_count || run->count > ctx->slots_count - run->slot)
		return -EINVAL;
	spin_lock(&ctx->lock);
	error = wp_check_show(region, run);
	for (i = 0; !error && i < run->count; i++) {
		ctx->slots[run->slot + i].is_taken = true;
		region->chunks[run->chunk + i] = (struct wp_chunk){ .slot = run->slot + i, .state = WP_SHOWN };
	}
	if (!error)
		ctx->ring->counters.chunks_shown += run->count;
	spin_unlock(&ctx->lock);
	if (!error)
		wp_wake(region, run->chunk, run->count);
	return error;
}

/*
 * First say so, then wait for faults that looked before, then unmap; only then do slots lose their
 * bytes, unless `keeps_slots`. `state` is what the chunks become.
 */
static int wp_hide(struct wp_region *region, const struct wp_run *run, enum wp_state state, bool keeps_slots)
{
	struct address_space *mapping = region->inode->i_mapping;
	struct wp_context *ctx = region->ctx;
	struct wp_chunk *chunks = region->chunks + run->chunk;
	u32 i, hidden = 0;

	for (i = 0; i < run->count; i++) {
		spin_lock(&ctx->lock);
		hidden += chunks[i].state == WP_SHOWN;
		chunks[i].is_leaving = chunks[i].state == WP_SHOWN || (chunks[i].is_held && !keeps_slots);
		if (chunks[i].state != state) {
			chunks[i].is_requested = false;
			chunks[i].state = state;
		}
		spin_unlock(&ctx->lock);
	}
	if (hidden) {
		filemap_invalidate_lock(mapping);
		filemap_invalidate_unlock(mapping);
		for (i = 0; i < run->count; i++)
			if (chunks[i].is_leaving)
				wp_await_faults(ctx, &ctx->slots[chunks[i].slot]);
		/* What was written to private mappings stays theirs. */
		unmap_mapping_range(mapping, (loff_t)run->chunk << ctx->chunk_shift,
				    (loff_t)run->count << ctx->chunk_shift, 0);
	}
	for (i = 0; i < run->count; i++) {
		if (!chunks[i].is_leaving)
			continue;
		if (!keeps_slots)
			wp_recycle_slot(ctx, chunks[i].slot);
		chunks[i].is_held = keeps_slots;
		chunks[i].is_leaving = false;
		cond_resched();
	}
	spin_lock(&ctx->lock);
	ctx->ring->counters.chunks_hidden += hidden;
	ctx->ring->counters.unmaps += !!hidden;
	spin_unlock(&ctx->lock);
	wp_wake(region, run->chunk, run->count);
	return 0;
}

static int wp_carry_out(struct wp_context *ctx, unsigned int command, const struct wp_run *run)
{
	struct wp_region *region = xa_load(&ctx->regions, run->region);

	if (!region)
		return -ENOENT;
	if (!run->count || run->chunk >= region->chunks_count || run->count > region->chunks_count - run->chunk)
		return -EINVAL;
	if (command == WP_IOC_SHOW)
		return wp_show(region, run);
	return wp_hide(region, run, command == WP_IOC_POISON ? WP_POISONED : WP_ABSENT, command == WP_IOC_HIDE);
}

static int wp_change(struct wp_context *ctx, unsigned int command, struct wp_runs __user *argument)
{
	const struct wp_run __user *from;
	struct wp_runs runs;
	struct wp_run run;
	int error = 0;

	if (copy_from_user(&runs, argument, sizeof(runs)))
		return -EFAULT;
	from = u64_to_user_ptr(runs.runs);
	for (runs.done = 0; !error && runs.done < runs.count; runs.done += !error) {
		if (copy_from_user(&run, from + runs.done, sizeof(run))) {
			error = -EFAULT;
			break;
		}
		mutex_lock(&ctx->op_lock);
		error = ctx->is_dead ? -ESHUTDOWN : wp_carry_out(ctx, command, &run);
		mutex_unlock(&ctx->op_lock);
		if (signal_pending(current) && fatal_signal_pending(current))
			error = -EINTR;
	}
	if (put_user(runs.done, &argument->done))
		return -EFAULT;
	return error;
}

static int wp_release_slots(struct wp_context *ctx, const struct wp_slots __user *argument)
{
	struct wp_slots which;
	struct wp_slot memory;
	int error = 0;
	u32 i;

	if (copy_from_user(&which, argument, sizeof(which)))
		return -EFAULT;
	if (which.slot >= ctx->slots_count || which.count > ctx->slots_count - which.slot)
		return -EINVAL;
	mutex_lock(&ctx->op_lock);
	for (i = 0; !error && i < which.count; i++)
		if (ctx->slots[which.slot + i].is_taken)
			error = -EBUSY;
	for (i = 0; !error && i < which.count; i++) {
		memory = wp_detach_memory(ctx, &ctx->slots[which.slot + i]);
		if (wp_has_memory(&memory))
			wp_unmap_window(ctx, which.slot + i, 1);
		wp_put_memory(ctx, &memory);
		cond_resched();
	}
	mutex_unlock(&ctx->op_lock);
	return error;
}

/* ---- The pager's side ---- */

static int wp_fill_slot(struct wp_context *ctx, struct wp_slot *slot)
{
	struct wp_slot memory;
	int error = wp_get_memory(ctx, &memory);

	if (error)
		return error;
	spin_lock(&ctx->lock);
	if (!wp_has_memory(slot) && !ctx->is_dead) {
		swap(slot->huge, memory.huge);
		swap(slot->small, memory.small);
		ctx->ring->counters.huge_slots += !!slot->huge;
	}
	spin_unlock(&ctx->lock);
	wp_put_memory(ctx, &memory);
	return 0;
}

static struct page *wp_window_page(struct wp_context *ctx, pgoff_t pgoff)
{
	struct page *page;

	spin_lock(&ctx->lock);
	page = wp_slot_page(&ctx->slots[pgoff / wp_chunk_pages(ctx)], pgoff % wp_chunk_pages(ctx));
	if (page)
		get_page(page);
	spin_unlock(&ctx->lock);
	return page;
}

static vm_fault_t wp_window_fault(struct vm_fault *vmf)
{
	struct wp_context *ctx = vmf->vma->vm_file->private_data;
	struct page *page, *again;

	if (vmf->pgoff / wp_chunk_pages(ctx) >= ctx->slots_count)
		return VM_FAULT_SIGBUS;
	for (;;) {
		page = wp_window_page(ctx, vmf->pgoff);
		if (!page) {
			/* A read into the window fails with EFAULT then, and the pager says so. */
			if (ctx->is_dead || wp_fill_slot(ctx, &ctx->slots[vmf->pgoff / wp_chunk_pages(ctx)]))
				return VM_FAULT_SIGBUS;
			continue;
		}
		lock_page(page);
		again = wp_window_page(ctx, vmf->pgoff);
		if (again)
			put_page(again);
		if (again == page) {
			vmf->page = page;
			return VM_FAULT_LOCKED;
		}
		unlock_page(page);
		put_page(page);
	}
}

static const struct vm_operations_struct wp_window_vm_ops = {
	.fault = wp_window_fault,
};

static int wp_context_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct wp_context *ctx = file->private_data;
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!smp_load_acquire(&ctx->is_set_up))
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* A child that inherited it would keep the context alive when the pager is gone. */
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	if (offset >= WP_RING_OFFSET)
		return remap_vmalloc_range(vma, ctx->ring, (offset - WP_RING_OFFSET) >> PAGE_SHIFT);
	vma->vm_ops = &wp_window_vm_ops;
	return 0;
}

static __poll_t wp_context_poll(struct file *file, poll_table *wait)
{
	struct wp_context *ctx = file->private_data;

	poll_wait(file, &ctx->poll_queue, wait);
	if (!smp_load_acquire(&ctx->is_set_up))
		return EPOLLERR;
	return READ_ONCE(ctx->head) != READ_ONCE(ctx->ring->tail) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long wp_context_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct wp_context *ctx = file->private_data;
	void __user *at = (void __user *)argument;

	if (command == WP_IOC_SETUP)
		return wp_set_up(ctx, at);
	if (!smp_load_acquire(&ctx->is_set_up))
		return -EINVAL;
	switch (command) {
	case WP_IOC_ADD_REGION:
		return wp_add_region(ctx, at);
	case WP_IOC_SHOW:
	case WP_IOC_HIDE:
	case WP_IOC_EVICT:
	case WP_IOC_POISON:
		return wp_change(ctx, command, at);
	case WP_IOC_RELEASE:
		return wp_release_slots(ctx, at);
	default:
		return -ENOTTY;
	}
}

static int wp_context_open(struct inode *inode, struct file *file)
{
	struct wp_context *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	int i;

	if (!ctx)
		return -ENOMEM;
	ctx->inode = wp_new_inode(0);
	if (IS_ERR(ctx->inode)) {
		const int error = PTR_ERR(ctx->inode);

		kfree(ctx);
		return error;
	}
	kref_init(&ctx->refs);
	mutex_init(&ctx->op_lock);
	spin_lock_init(&ctx->lock);
	xa_init_flags(&ctx->regions, XA_FLAGS_ALLOC);
	init_waitqueue_head(&ctx->poll_queue);
	for (i = 0; i < ARRAY_SIZE(ctx->queues); i++)
		init_waitqueue_head(&ctx->queues[i]);
	file->private_data = ctx;
	/* The device's own would unmap other contexts' windows with this one's. */
	file->f_mapping = ctx->inode->i_mapping;
	return 0;
}

/*
 * The pager's process ends. Its descriptor may live on for a while, in a mapping that somebody
 * waiting in this very process keeps; who waits must not.
 */
static int wp_context_flush(struct file *file, fl_owner_t id)
{
	struct wp_context *ctx = file->private_data;

	if ((current->flags & PF_EXITING) && smp_load_acquire(&ctx->is_set_up) && task_tgid(current) == ctx->owner)
		wp_fail_everybody(ctx);
	return 0;
}

/* No region shows anything any more; the window's mappings are gone with their file. */
static int wp_context_release(struct inode *inode, struct file *file)
{
	struct wp_context *ctx = file->private_data;
	struct wp_region *region;
	struct wp_run all = {};
	unsigned long id;
	u32 i;

	wp_fail_everybody(ctx);
	mutex_lock(&ctx->op_lock);
	xa_for_each(&ctx->regions, id, region) {
		all.count = region->chunks_count;
		wp_hide(region, &all, WP_POISONED, false);
	}
	for (i = 0; i < ctx->slots_count; i++)
		wp_put_memory(ctx, &ctx->slots[i]);
	mutex_unlock(&ctx->op_lock);
	kref_put(&ctx->refs, wp_free_context);
	return 0;
}

static const struct file_operations wp_context_fops = {
	.owner = THIS_MODULE,
	.open = wp_context_open,
	.flush = wp_context_flush,
	.release = wp_context_release,
	.mmap = wp_context_mmap,
	.get_unmapped_area = thp_get_unmapped_area,
	.poll = wp_context_poll,
	.unlocked_ioctl = wp_context_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

/* Root's alone, until the administrator says otherwise: who opens it takes memory. */
static struct miscdevice wp_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "weightpager",
	.mode = 0600,
	.fops = &wp_context_fops,
};

module_misc_device(wp_device);

MODULE_DESCRIPTION("Weights larger than memory: faults that wait for a pager in user space");
MODULE_LICENSE("GPL");
MODULE_VERSION("1");
