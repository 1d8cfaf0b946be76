/* Which pages the system really gave a program, read from the guest's own page
 * tables (AMD APM vol. 2, 5.3): so it is known of every guest alike.
 *
 * A plugin is not told where the tables are, but it can find what addresses
 * translate to. The page of the guest's memory from which a walk leads there is
 * the top of the tables. It is searched for once; each later walk has to lead
 * where QEMU went, or it is searched for again.
 *
 * The tables are taken to have four levels: of five, the one that leads to the
 * programs' half is found, and the one above it goes unseen. Memory is what QEMU
 * has from the memfd that yod calls margay-ram, or that QEMU makes for other
 * guests (memory-backend-memfd), below the hole for devices (2 GiB on a q35).
 * A walk to what a device has, as the pool of files, has to lead elsewhere.
 */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>

#include "model.h"

/* A CPU's. All zero is the beginning. */
struct pages {
	uint64_t top;
	unsigned searched_in_vain;
	/* A bit for each 4 KiB of the guest's physical addresses. */
	uint8_t *touched;
};

struct in_use {
	uint64_t l1_misses;
	uint64_t walks[PAGE_SIZES];
	/* Size of the pages that were walked to for the first time. */
	uint64_t touched_bytes[PAGE_SIZES];
	/* Walks that could not be followed. */
	uint64_t unknown;
};

/* An access of the program to another page than the one before. */
void pages_look(struct pages *pages, struct model *model, uint64_t virtual_address,
		uint64_t physical_address, struct in_use *counts);

/* CR3 was loaded: other tables are worth a search. */
void pages_new_address_space(struct pages *pages);

#endif
