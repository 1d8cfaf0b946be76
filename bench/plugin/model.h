/* A core's data caches and TLBs, as a model: what an access would miss.
 *
 * It is a yardstick, not a copy of some CPU: geometry of the usual size, true
 * LRU, no prefetcher, no coherence, no write-backs, data accesses only. The
 * same accesses in the same order give the same misses, for ever.
 *
 *   L1D   32 KiB, 8 ways, lines of 64 bytes; by physical address
 *   L2    1 MiB, 16 ways, lines of 64 bytes; sees what misses L1D
 *   TLB   64 entries, 4 ways; by virtual address; behind it 1536 entries,
 *         12 ways, which see what misses the first
 *
 * There is a TLB of this geometry for each page size, and each sees every
 * access, as if all memory were mapped with pages of its size; and one more,
 * whose entries have the size of the page that the system really used. A miss of
 * the second level walks the page table: a reference per level, 4 for a page of
 * 4 KiB, 3 for 2 MiB, 2 for 1 GiB (AMD APM vol. 2, 5.3). There is no page-walk
 * cache.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LINE_BITS = 6,
	L1D_SETS = 64,
	L1D_WAYS = 8,
	L2_SETS = 1024,
	L2_WAYS = 16,
	TLB1_SETS = 16,
	TLB1_WAYS = 4,
	TLB2_SETS = 128,
	TLB2_WAYS = 12,
};

enum page_size { PAGE_4K, PAGE_2M, PAGE_1G, PAGE_SIZES };

/* What accesses missed. */
struct misses {
	uint64_t l1d, l2;
	uint64_t tlb1[PAGE_SIZES], tlb2[PAGE_SIZES];
};

struct tlb {
	uint64_t first[TLB1_SETS * TLB1_WAYS];
	uint64_t second[TLB2_SETS * TLB2_WAYS];
};

/* All zero is cold. */
struct model {
	uint64_t last_line, last_page;
	uint64_t l1d[L1D_SETS * L1D_WAYS];
	uint64_t l2[L2_SETS * L2_WAYS];
	struct tlb tlb[PAGE_SIZES];
	struct tlb in_use;
};

unsigned model_page_bits(enum page_size size);
unsigned model_walk_references(enum page_size size);

/* Whether a line or page is the one looked at last: then it misses nothing and
 * changes nothing. */
bool model_is_last_line(const struct model *model, uint64_t virtual_address);
bool model_is_last_page(const struct model *model, uint64_t virtual_address);

/* An access within a line, and one within a page of 4 KiB. */
void model_line(struct model *model, uint64_t virtual_address, uint64_t physical_address,
		struct misses *misses);
void model_page(struct model *model, uint64_t virtual_address, struct misses *misses);

/* Whether the TLB of the pages in use has the one of an address, of whatever size; `first_level` says so of its first level.
 * If not, that page is put into it. */
bool model_in_use(struct model *model, uint64_t virtual_address, bool *first_level);
void model_put_in_use(struct model *model, uint64_t virtual_address, enum page_size size);

/* CR3 was loaded: what translates the lower half of the address space is gone,
 * the kernel's half stays (global pages). */
void model_new_address_space(struct model *model);

#endif
