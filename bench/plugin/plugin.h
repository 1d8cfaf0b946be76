/* What the plugin counts: plugin.c fills it in, output.c writes it. */
#ifndef MARGAY_PLUGIN_H
#define MARGAY_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "irqs.h"
#include "model.h"
#include "pages.h"

/* By the address of the instruction: kernels live in the upper half. */
enum side { USER, KERNEL, SIDES };

struct side_counts {
	/* `waited`: of the instructions, those of loops that do nothing but wait. */
	uint64_t instructions, waited, loads, stores, unresolved;
	struct misses misses;
};

struct counts {
	uint64_t kernel_entries;
	struct side_counts side[SIDES];
	struct in_use in_use;
};

struct region {
	struct region *next;
	struct counts begin, end;
	struct section irqs_off;
};

/* What others may read while QEMU runs; of the whole run, a line of its own for each CPU. */
struct watched {
	uint64_t instructions[SIDES], kernel_entries, room[5];
};

struct vcpu {
	bool counting, marked;
	enum side last_side;
	/* The count of instructions of each side when it paused last. */
	uint64_t paused[SIDES];
	struct counts now, begin;
	/* Instructions before the first mark. */
	uint64_t before_regions;
	struct region *regions, **last_region;
	struct model model;
	struct pages pages;
	struct irqs irqs;
	/* NULL: nothing is watched. */
	struct watched *watched;
};

struct plugin {
	FILE *out;
	const char *watch;
	bool model, only_marks, irqs;
	int vcpus;
	struct vcpu *vcpu;
};
extern struct plugin plugin;

void write_output(void);

#endif
