// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: accesses to a process's memory as a GPU's driver makes them, which no program can
 * make by itself. It stands in for the GPU; nobody should load it elsewhere.
 */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/hmm.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "remote_uapi.h"

struct remote_fault {
	struct mm_struct *mm;
	struct mmu_interval_notifier notifier;
	unsigned long address;
	u64 bytes;
	int error;
	struct completion done;
};

static bool remote_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			      unsigned long sequence)
{
	mmu_interval_set_seq(notifier, sequence);
	return true;
}

static const struct mmu_interval_notifier_ops remote_notifier_ops = { .invalidate = remote_invalidate };

static int remote_fault_thread(void *argument)
{
	struct remote_fault *fault = argument;
	unsigned long pfn = 0;
	struct hmm_range range = {
		.notifier = &fault->notifier,
		.start = fault->address,
		.end = fault->address + PAGE_SIZE,
		.hmm_pfns = &pfn,
		.default_flags = HMM_PFN_REQ_FAULT,
	};

	do {
		range.notifier_seq = mmu_interval_read_begin(range.notifier);
		mmap_read_lock(fault->mm);
		fault->error = hmm_range_fault(&range);
		mmap_read_unlock(fault->mm);
	} while (fault->error == -EBUSY || (!fault->error && mmu_interval_read_retry(range.notifier, range.notifier_seq)));
	if (!fault->error)
		memcpy_from_page((void *)&fault->bytes, hmm_pfn_to_page(pfn), 0, sizeof(fault->bytes));
	complete(&fault->done);
	return 0;
}

static int remote_hmm(struct remote_access *access)
{
	struct remote_fault *fault = kzalloc(sizeof(*fault), GFP_KERNEL);
	struct task_struct *thread;
	int error;

	if (!fault)
		return -ENOMEM;
	fault->mm = current->mm;
	fault->address = access->address & PAGE_MASK;
	init_completion(&fault->done);
	error = mmu_interval_notifier_insert(&fault->notifier, fault->mm, fault->address, PAGE_SIZE,
					     &remote_notifier_ops);
	if (error)
		goto free;
	thread = kthread_run(remote_fault_thread, fault, "weightpager_gpu");
	if (IS_ERR(thread)) {
		error = PTR_ERR(thread);
	} else {
		wait_for_completion(&fault->done);
		error = fault->error;
		access->result = fault->bytes;
	}
	mmu_interval_notifier_remove(&fault->notifier);
free:
	kfree(fault);
	return error;
}

static int remote_pin(struct page **pinned, unsigned long address)
{
	long count;

	if (*pinned)
		return -EBUSY;
	mmap_read_lock(current->mm);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	count = pin_user_pages(address & PAGE_MASK, 1, FOLL_LONGTERM, pinned, NULL);
#else
	count = pin_user_pages(address & PAGE_MASK, 1, FOLL_LONGTERM, pinned);
#endif
	mmap_read_unlock(current->mm);
	return count == 1 ? 0 : count < 0 ? count : -EFAULT;
}

static void remote_unpin(struct file *file)
{
	if (file->private_data)
		unpin_user_page(file->private_data);
	file->private_data = NULL;
}

static long remote_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct remote_access access;
	struct page *page = file->private_data;
	long error = 0;

	if (command == REMOTE_UNPIN) {
		remote_unpin(file);
		return 0;
	}
	if (copy_from_user(&access, (void __user *)argument, sizeof(access)))
		return -EFAULT;
	switch (command) {
	case REMOTE_HMM:
		error = remote_hmm(&access);
		break;
	case REMOTE_PIN:
		error = remote_pin(&page, access.address);
		file->private_data = page;
		break;
	case REMOTE_READ_PINNED:
		if (!page)
			return -EINVAL;
		break;
	default:
		return -ENOTTY;
	}
	if (!error && command != REMOTE_HMM)
		memcpy_from_page((void *)&access.result, page, 0, sizeof(access.result));
	if (!error && copy_to_user((void __user *)argument, &access, sizeof(access)))
		error = -EFAULT;
	return error;
}

static int remote_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL; /* misc_open() leaves the device there */
	return 0;
}

static int remote_release(struct inode *inode, struct file *file)
{
	remote_unpin(file);
	return 0;
}

static const struct file_operations remote_fops = {
	.owner = THIS_MODULE,
	.open = remote_open,
	.release = remote_release,
	.unlocked_ioctl = remote_ioctl,
};

static struct miscdevice remote_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "weightpager_remote",
	.mode = 0600,
	.fops = &remote_fops,
};

module_misc_device(remote_device);

MODULE_DESCRIPTION("Tests of weightpager.ko: accesses as a GPU makes them");
MODULE_LICENSE("GPL");
