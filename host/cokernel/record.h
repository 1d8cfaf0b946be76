/* SPDX-License-Identifier: GPL-2.0 */
/* The record at the start of a node's memory, as crate wire defines it (wire/src/cokernel.rs). */
#ifndef MARGAY_RECORD_H
#define MARGAY_RECORD_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define MARGAY_MAGIC 0x004b59414752414dULL
#define MARGAY_RECORD_VERSION 1
#define MARGAY_RECORD_BYTES (1UL << 20)
#define MARGAY_EARLY_BYTES (64UL << 20)
#define MARGAY_LOG_BYTES (64UL << 10)
#define MARGAY_BELL_WORDS 5
#define MARGAY_MAX_RANGES 64
#define MARGAY_MAX_CPUS 256

struct margay_range {
	u64 start, bytes;
};

struct margay_record {
	/* The module's. */
	u64 magic, version;
	struct margay_range memory, comm, pct;
	u64 tsc_hz, bell_apic_id, bell_vector, cpu_count;
	/* The kernel's; the module takes the bells. */
	u64 bells[MARGAY_BELL_WORDS];
	u64 ended, shown_count;
	struct margay_range shown[MARGAY_MAX_RANGES];
	u64 log_end;
	/* The module's: APIC id | NUMA node << 32. */
	u64 cpus[MARGAY_MAX_CPUS];
	/* Where each CPU goes on; of the first the module's, of the others the kernel's. */
	u64 mailbox[MARGAY_MAX_CPUS];
	/* The kernel's. */
	u8 log[MARGAY_LOG_BYTES];
};

static_assert(offsetof(struct margay_record, bells) == 96);
static_assert(offsetof(struct margay_record, ended) == 136);
static_assert(offsetof(struct margay_record, shown) == 152);
static_assert(offsetof(struct margay_record, log_end) == 1176);
static_assert(offsetof(struct margay_record, cpus) == 1184);
static_assert(offsetof(struct margay_record, mailbox) == 3232);
static_assert(offsetof(struct margay_record, log) == 5280);

#endif
