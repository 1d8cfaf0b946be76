#include "model.h"

#include <string.h>

/* Keys are numbers of lines or pages, below 2^58; this bit says that a way is
 * in use, so that memory full of zeros is empty. */
static const uint64_t VALID = (uint64_t)1 << 63;

unsigned model_page_bits(enum page_size size)
{
	return 12 + 9 * (unsigned)size;
}

unsigned model_walk_references(enum page_size size)
{
	return 4 - (unsigned)size;
}

/* Looks a key up among the ways of its set, most recently used first, and puts
 * it in front; the last one falls out when it was not there. */
static bool found(uint64_t *ways, unsigned sets, unsigned count, uint64_t key)
{
	uint64_t entry = key | VALID;
	uint64_t *set = ways + (key & (sets - 1)) * count;
	unsigned at = 0;

	while (at < count - 1 && set[at] != entry)
		at++;
	bool hit = set[at] == entry;
	memmove(set + 1, set, at * sizeof *set);
	set[0] = entry;
	return hit;
}

bool model_is_last_line(const struct model *model, uint64_t virtual_address)
{
	return model->last_line == (virtual_address >> LINE_BITS | VALID);
}

bool model_is_last_page(const struct model *model, uint64_t virtual_address)
{
	return model->last_page == (virtual_address >> model_page_bits(PAGE_4K) | VALID);
}

void model_line(struct model *model, uint64_t virtual_address, uint64_t physical_address,
		struct misses *misses)
{
	uint64_t line = physical_address >> LINE_BITS;

	model->last_line = virtual_address >> LINE_BITS | VALID;
	if (found(model->l1d, L1D_SETS, L1D_WAYS, line))
		return;
	misses->l1d++;
	misses->l2 += !found(model->l2, L2_SETS, L2_WAYS, line);
}

void model_page(struct model *model, uint64_t virtual_address, struct misses *misses)
{
	model->last_page = virtual_address >> model_page_bits(PAGE_4K) | VALID;
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		struct tlb *tlb = &model->tlb[size];
		uint64_t page = virtual_address >> model_page_bits(size);

		if (found(tlb->first, TLB1_SETS, TLB1_WAYS, page))
			continue;
		misses->tlb1[size]++;
		misses->tlb2[size] += !found(tlb->second, TLB2_SETS, TLB2_WAYS, page);
	}
}

/* Where the pages are of several sizes, an entry says which: page numbers are below 2^52. */
static uint64_t sized_page(uint64_t virtual_address, enum page_size size)
{
	return virtual_address >> model_page_bits(size) | (uint64_t)size << 56;
}

static bool has(const uint64_t *ways, unsigned sets, unsigned count, uint64_t key)
{
	const uint64_t *set = ways + (key & (sets - 1)) * count;

	for (unsigned at = 0; at < count; at++)
		if (set[at] == (key | VALID))
			return true;
	return false;
}

void model_put_in_use(struct model *model, uint64_t virtual_address, enum page_size size)
{
	uint64_t page = sized_page(virtual_address, size);

	found(model->in_use.first, TLB1_SETS, TLB1_WAYS, page);
	found(model->in_use.second, TLB2_SETS, TLB2_WAYS, page);
}

bool model_in_use(struct model *model, uint64_t virtual_address, bool *first_level)
{
	struct tlb *tlb = &model->in_use;

	*first_level = false;
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		uint64_t page = sized_page(virtual_address, size);

		if (has(tlb->first, TLB1_SETS, TLB1_WAYS, page)) {
			*first_level = true;
			return found(tlb->first, TLB1_SETS, TLB1_WAYS, page);
		}
		if (has(tlb->second, TLB2_SETS, TLB2_WAYS, page)) {
			model_put_in_use(model, virtual_address, size);
			return true;
		}
	}
	return false;
}

/* Page numbers of the upper half have the highest bit of their address. */
static void forget_lower_half(uint64_t *entries, size_t count, enum page_size size)
{
	uint64_t upper = (uint64_t)1 << (63 - model_page_bits(size));

	for (size_t i = 0; i < count; i++)
		if (!(entries[i] & upper))
			entries[i] = 0;
}

void model_new_address_space(struct model *model)
{
	model->last_line = model->last_page = 0;
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		struct tlb *tlb = &model->tlb[size];

		forget_lower_half(tlb->first, TLB1_SETS * TLB1_WAYS, size);
		forget_lower_half(tlb->second, TLB2_SETS * TLB2_WAYS, size);
	}
	/* Only programs are looked up there. */
	memset(&model->in_use, 0, sizeof model->in_use);
}
