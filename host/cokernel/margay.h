/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/margay: a node of a co-kernel per open file. RESERVE, MEMORY and BELL as often as needed, START, then read(2) for the
 * kernel log. Closing the last descriptor of the open file ends the node and gives its CPUs back; the memory goes back when nobody maps it and
 * no descriptor of MEMORY is open any more.
 */
#ifndef MARGAY_H
#define MARGAY_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MARGAY_VERSION 1
#define MARGAY_MOST_CPUS 256

struct margay_reserve {
	__u64 version;     /* MARGAY_VERSION; another: EPROTO */
	__u64 bytes;       /* of memory: a multiple of 2 MiB, at least 32 MiB */
	__u64 pool_bytes;  /* of them, the last: the node pool and its tail of 2 MiB; a multiple of 2 MiB; 0: none */
	__u64 comm_offset; /* the communication area, from the start of memory: whole pages in [1 MiB, 2 MiB) or from 16 MiB on */
	__u64 comm_bytes;
	__s32 numa_node;   /* -1: any */
	__u32 cpu_count;
	__u32 cpus[MARGAY_MOST_CPUS]; /* Linux's numbers; the first is the boot CPU. Never CPU 0 */
	__u64 start;       /* written: where the memory lies, physically */
};

struct margay_bell {
	__u32 to_host; /* 0: writing to the eventfd rings CPU `index` of the node; 1: bell `index` of the node signals the eventfd */
	__u32 index;
	__s32 eventfd;
	__u32 zero;
};

/*
 * Memory and CPUs, once per open file; the memory is zeroed.
 * EINVAL: numbers; EPERM: a CPU that the caller may not run on; EBUSY: a CPU of another node, or one that is not online;
 * ENOMEM: not so much contiguous memory; EALREADY.
 */
#define MARGAY_RESERVE _IOWR('M', 1, struct margay_reserve)
/*
 * Returns a descriptor that maps and reads memory, once: 0: all but the pool, offset 0 is its start; 1: the pool with its tail. Before
 * START that is only the communication area; EPERM for what no host process may map. EALREADY.
 */
#define MARGAY_MEMORY _IO('M', 2)
#define MARGAY_BELL _IOW('M', 3, struct margay_bell)
/*
 * Loads margay/margay.elf and margay/pct (request_firmware), takes the CPUs from Linux and starts the node.
 * ENOENT: no such file; ENOEXEC: no kernel; EBUSY: Linux keeps a CPU (all that were taken are back then).
 */
#define MARGAY_START _IO('M', 4)
/* 0: the node runs, or was not started; else the exit code it has ended with, and one. */
#define MARGAY_ENDED _IO('M', 5)

#endif
