/* SPDX-License-Identifier: GPL-2.0 */
/* A node: what the files of margay.ko share. */
#ifndef MARGAY_NODE_H
#define MARGAY_NODE_H

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/eventfd.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sizes.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "margay.h"
#include "record.h"

/* Where the kernel is linked, and how far it reaches; abi/src/map.rs. */
#define MARGAY_DIRECT_MAP 0xffff800000000000UL
#define MARGAY_KERNEL_BASE 0xffffffff80000000UL
#define MARGAY_IMAGE_START SZ_2M
#define MARGAY_IMAGE_END SZ_16M
/* boot::TAIL_BYTES */
#define MARGAY_TAIL_BYTES SZ_2M
/* Bells to Linux: of ranks and keeper, and LOG_BELL. */
#define MARGAY_HOST_BELLS 257

/* A CPU of the node, and the eventfd that rings it. */
struct margay_cpu {
	unsigned int cpu;
	u32 apic_id;
	struct margay_node *node;
	struct eventfd_ctx *eventfd;
	wait_queue_entry_t wait;
	wait_queue_head_t *head;
	poll_table table;
};

/* What a descriptor of MARGAY_MEMORY maps, from the start of memory. It has an inode of its own, by which locks and futexes go. */
struct margay_part {
	struct margay_node *node;
	u64 start, end;
	bool made;
	unsigned int opens;
	const struct file_operations *when_closed;
};

enum margay_state { MARGAY_NEW, MARGAY_RESERVED, MARGAY_RUNNING, MARGAY_OVER };

struct margay_node {
	struct kref kref; /* the open file and the files of memory */
	struct list_head link; /* in margay_nodes */
	struct mutex lock; /* what follows, but for `running`, `to_host` and what RESERVE fixes */
	enum margay_state state;
	bool running; /* bells reach it */
	bool keep; /* a CPU could not be had back: it may still use memory */
	struct work_struct over;
	u64 read_at; /* of the log */

	/* Fixed by RESERVE. */
	u64 start, bytes;
	struct margay_range comm;
	struct margay_part parts[2];
	struct margay_record *record;
	unsigned int cpu_count;
	struct margay_cpu *cpus;

	int irq;
	struct eventfd_ctx *to_host[MARGAY_HOST_BELLS];
	struct page *trampoline; /* and page tables; trampoline.c */
};

/* memory.c */
int margay_memory_take(struct margay_node *node, const struct margay_reserve *want);
void margay_memory_free(struct margay_node *node);
int margay_memory_file(struct margay_node *node, unsigned long which);
ssize_t margay_log_read(struct margay_node *node, char __user *to, size_t bytes);
void margay_node_free(struct kref *kref);

/* image.c: the entry of the kernel, or an error. */
int margay_image_load(struct margay_node *node, struct device *device, u64 *entry);

/* cpus.c */
int margay_cpus_init(void);
void margay_cpus_exit(void);
int margay_cpus_claim(struct margay_node *node, const struct margay_reserve *want);
void margay_cpus_unclaim(struct margay_node *node);
int margay_cpus_take(struct margay_node *node);
void margay_cpus_give_back(struct margay_node *node);

/* trampoline.c */
int margay_trampoline_build(struct margay_node *node);
bool margay_trampoline_wait(struct margay_node *node, u32 arrived);
void margay_trampoline_free(struct margay_node *node);
void margay_trampoline_leave(struct margay_node *node, u32 index);

/* bells.c */
int margay_bells_init(struct margay_node *node);
void margay_bells_silence(struct margay_node *node);
void margay_bells_free(struct margay_node *node);
int margay_bell(struct margay_node *node, const struct margay_bell *bell);

#endif
