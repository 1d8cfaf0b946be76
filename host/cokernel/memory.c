// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a node: one contiguous range that Linux gives up, what of it processes map, and the log. Its pages stay ordinary pages
 * with a reference, so that a pin that outlives the node (a pipe's, direct I/O's) only delays when Linux has them again.
 */
#include "node.h"

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define ANY_USE MIGRATE_MOVABLE
#else
#define ANY_USE ACR_FLAGS_NONE
#endif

/* The direct map of the node's first page tables ends below the kernel's. */
#define MOST_PHYSICAL (1UL << 46)

/* Inodes of parts, and how often each is open. */
static DEFINE_MUTEX(parts_lock);

static bool is_free_of_holes(unsigned long pfn, unsigned long end)
{
	struct zone *zone = NULL;

	for (; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || PageReserved(page) || (zone && page_zone(page) != zone))
			return false;
		zone = page_zone(page);
		if (!(pfn % (SZ_2M / PAGE_SIZE)))
			cond_resched();
	}
	return true;
}

/* From the top down: what Linux needs for devices lies below. */
static int take_of(int nid, unsigned long pages, unsigned long *found)
{
	unsigned long step = MARGAY_EARLY_BYTES >> PAGE_SHIFT;
	unsigned long first = node_start_pfn(nid), pfn = min(node_end_pfn(nid), MOST_PHYSICAL >> PAGE_SHIFT);

	if (pages > pfn - first)
		return -ENOMEM;
	for (pfn = ALIGN_DOWN(pfn - pages, step); pfn >= first && pfn; pfn -= step) {
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		if (!is_free_of_holes(pfn, pfn + pages))
			continue;
		if (!alloc_contig_range(pfn, pfn + pages, ANY_USE, GFP_KERNEL | __GFP_NOWARN)) {
			*found = pfn;
			return 0;
		}
	}
	return -ENOMEM;
}

static bool is_laid_out(const struct margay_reserve *want)
{
	u64 tail = max_t(u64, want->pool_bytes, MARGAY_TAIL_BYTES), comm_end;

	if (want->bytes % SZ_2M || want->pool_bytes % SZ_2M || want->bytes < SZ_32M || want->bytes > MOST_PHYSICAL)
		return false;
	if (tail > want->bytes - MARGAY_IMAGE_END)
		return false;
	if (!want->comm_bytes || want->comm_offset % PAGE_SIZE || want->comm_bytes % PAGE_SIZE)
		return false;
	if (check_add_overflow(want->comm_offset, want->comm_bytes, &comm_end))
		return false;
	if (want->comm_offset < MARGAY_IMAGE_END)
		return want->comm_offset >= MARGAY_RECORD_BYTES && comm_end <= MARGAY_IMAGE_START;
	return comm_end <= want->bytes - tail;
}

int margay_memory_take(struct margay_node *node, const struct margay_reserve *want)
{
	unsigned long pfn = 0;
	int nid, err = -ENOMEM;
	u64 at;

	if (!is_laid_out(want) || want->numa_node < NUMA_NO_NODE || want->numa_node >= MAX_NUMNODES)
		return -EINVAL;
	if (want->numa_node != NUMA_NO_NODE && !node_online(want->numa_node))
		return -EINVAL;
	for_each_online_node(nid) {
		if (want->numa_node != NUMA_NO_NODE && want->numa_node != nid)
			continue;
		err = take_of(nid, want->bytes >> PAGE_SHIFT, &pfn);
		if (err != -ENOMEM)
			break;
	}
	if (err)
		return err;
	node->start = (u64)pfn << PAGE_SHIFT;
	node->bytes = want->bytes;
	for (at = 0; at < node->bytes; at += SZ_2M) {
		memset(__va(node->start + at), 0, SZ_2M);
		cond_resched();
		if (fatal_signal_pending(current)) {
			margay_memory_free(node);
			return -EINTR;
		}
	}
	node->comm = (struct margay_range){ node->start + want->comm_offset, want->comm_bytes };
	node->parts[0] = (struct margay_part){ .node = node, .end = node->bytes - want->pool_bytes };
	node->parts[1] = (struct margay_part){ .node = node, .start = node->parts[0].end, .end = node->bytes };
	node->record = __va(node->start);
	return 0;
}

void margay_memory_free(struct margay_node *node)
{
	u64 at;

	/* As free_contig_range, which warns of a page that a user still pins. */
	for (at = 0; at < node->bytes; at += PAGE_SIZE) {
		struct page *page = pfn_to_page((node->start + at) >> PAGE_SHIFT);

		page->mapping = NULL;
		__free_page(page);
		if (!(at % SZ_2M))
			cond_resched();
	}
	node->record = NULL;
}

/* The end of the range that `at` lies in and processes may map, from the start of memory; `at` itself where they may not. */
static u64 shown_up_to(struct margay_node *node, u64 at)
{
	u64 i, count = min_t(u64, smp_load_acquire(&node->record->shown_count), MARGAY_MAX_RANGES);

	for (i = 0; i <= count; i++) {
		struct margay_range *range = i < count ? &node->record->shown[i] : &node->comm;
		u64 start = READ_ONCE(range->start) - node->start, bytes = READ_ONCE(range->bytes);

		if (at >= start && at - start < bytes)
			return start + min(bytes, node->bytes - start);
	}
	return at;
}

static bool is_shown(struct margay_part *part, u64 at, u64 end)
{
	struct margay_node *node = part->node;

	if (at < MARGAY_RECORD_BYTES || end > part->end || end > node->bytes - MARGAY_TAIL_BYTES)
		return false;
	while (at < end) {
		u64 next = shown_up_to(node, at);

		if (next == at)
			return false;
		at = next;
	}
	return true;
}

static vm_fault_t memory_fault(struct vm_fault *vmf)
{
	struct margay_part *part = vmf->vma->vm_private_data;
	u64 at = part->start + ((u64)vmf->pgoff << PAGE_SHIFT);

	if (!is_shown(part, at, at + PAGE_SIZE))
		return VM_FAULT_SIGBUS;
	vmf->page = pfn_to_page((part->node->start + at) >> PAGE_SHIFT);
	/* By these a futex that processes share has its key. */
	vmf->page->index = vmf->pgoff;
	vmf->page->mapping = vmf->vma->vm_file->f_mapping;
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct memory_vm_ops = { .fault = memory_fault };

static int memory_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct margay_part *part = file->private_data;
	u64 pages = (part->end - part->start) >> PAGE_SHIFT, at;

	if (vma->vm_pgoff > pages || vma_pages(vma) > pages - vma->vm_pgoff)
		return -EPERM;
	at = part->start + ((u64)vma->vm_pgoff << PAGE_SHIFT);
	if (!is_shown(part, at, at + (vma->vm_end - vma->vm_start)))
		return -EPERM;
	/* No flags: a proxy has thousands of mappings, of which Linux joins what is adjacent. */
	vma->vm_private_data = part;
	vma->vm_ops = &memory_vm_ops;
	return 0;
}

/* Where memory begins and ends, as of any file: all of it is there. */
static loff_t memory_seek(struct file *file, loff_t at, int whence)
{
	struct margay_part *part = file->private_data;
	u64 bytes = part->end - part->start;

	return generic_file_llseek_size(file, at, whence, bytes, bytes);
}

static ssize_t memory_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct margay_part *part = file->private_data;
	u64 from = part->start + *at;

	if (*at < 0 || *at >= part->end - part->start)
		return 0;
	bytes = min_t(u64, bytes, PAGE_SIZE - from % PAGE_SIZE);
	if (!is_shown(part, from, from + bytes))
		return -EPERM;
	if (copy_to_user(to, __va(part->node->start + from), bytes))
		return -EFAULT;
	*at += bytes;
	return bytes;
}

static int memory_release(struct inode *inode, struct file *file)
{
	struct margay_part *part = file->private_data;
	u64 at;

	mutex_lock(&parts_lock);
	if (!--part->opens) {
		/* Whoever still has the inode does not open it again; who has a page pinned does not look for it. */
		inode->i_private = NULL;
		if (part->when_closed)
			inode->i_fop = part->when_closed;
		for (at = part->start; at < part->end; at += PAGE_SIZE)
			pfn_to_page((part->node->start + at) >> PAGE_SHIFT)->mapping = NULL;
	}
	mutex_unlock(&parts_lock);
	kref_put(&part->node->kref, margay_node_free);
	return 0;
}

/* By a name in /proc. */
static int memory_open(struct inode *inode, struct file *file)
{
	struct margay_part *part;

	mutex_lock(&parts_lock);
	part = inode->i_private;
	if (part) {
		kref_get(&part->node->kref);
		part->opens++;
		file->private_data = part;
	}
	mutex_unlock(&parts_lock);
	return part ? 0 : -ENXIO;
}

static const struct file_operations memory_fops = {
	.owner = THIS_MODULE,
	.open = memory_open,
	.llseek = memory_seek,
	.read = memory_read,
	.mmap = memory_mmap,
	.fsync = noop_fsync, /* msync(2) */
	.release = memory_release,
};

/* A descriptor, and its file with a reference, if none has closed it by now. */
static struct file *new_file(struct margay_part *part, int *fd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	*fd = anon_inode_getfd_secure("[margay]", &memory_fops, part, O_RDWR | O_CLOEXEC, NULL);
	return *fd < 0 ? NULL : fget(*fd);
#else
	struct file *file;

	*fd = get_unused_fd_flags(O_CLOEXEC);
	if (*fd < 0)
		return NULL;
	file = anon_inode_create_getfile("[margay]", &memory_fops, part, O_RDWR, NULL);
	if (IS_ERR(file)) {
		put_unused_fd(*fd);
		*fd = PTR_ERR(file);
		return NULL;
	}
	fd_install(*fd, get_file(file));
	return file;
#endif
}

int margay_memory_file(struct margay_node *node, unsigned long which)
{
	struct margay_part *part;
	struct inode *inode;
	struct file *file;
	int fd;

	if (which >= ARRAY_SIZE(node->parts))
		return -EINVAL;
	part = &node->parts[which];
	if (part->made)
		return -EALREADY;
	kref_get(&node->kref);
	part->opens = 1;
	file = new_file(part, &fd);
	if (fd < 0) {
		kref_put(&node->kref, margay_node_free);
		return fd;
	}
	part->made = true;
	/* Another thread may have closed it by now. */
	if (file && file->private_data == part) {
		inode = file_inode(file);
		mutex_lock(&parts_lock);
		part->when_closed = inode->i_fop;
		inode->i_private = part;
		inode->i_fop = &memory_fops;
		i_size_write(inode, part->end - part->start);
		inode->i_blocks = i_size_read(inode) >> 9;
		file->f_mode |= FMODE_LSEEK | FMODE_PREAD;
		mutex_unlock(&parts_lock);
	}
	if (file)
		fput(file);
	return fd;
}

ssize_t margay_log_read(struct margay_node *node, char __user *to, size_t bytes)
{
	u64 end = smp_load_acquire(&node->record->log_end), at = node->read_at;
	size_t done = 0;

	if (end - at > MARGAY_LOG_BYTES)
		at = end - MARGAY_LOG_BYTES; /* the rest was overwritten */
	bytes = min_t(u64, bytes, end - at);
	while (done < bytes) {
		size_t from = (at + done) % MARGAY_LOG_BYTES, run = min(bytes - done, MARGAY_LOG_BYTES - from);

		if (copy_to_user(to + done, node->record->log + from, run))
			return -EFAULT;
		done += run;
	}
	node->read_at = at + done;
	return done;
}
