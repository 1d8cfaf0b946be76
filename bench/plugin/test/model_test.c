/* The model alone, on the host: what its geometry says must miss, misses. */
#undef NDEBUG
#include "../model.h"

#include <assert.h>
#include <string.h>

static struct model model;
static struct misses misses;

static void forget(void)
{
	memset(&model, 0, sizeof model);
	memset(&misses, 0, sizeof misses);
}

/* Loads from `count` addresses, `rounds` times over. */
static void walk(uint64_t from, uint64_t stride, int count, int rounds)
{
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < count; i++) {
			uint64_t at = from + (uint64_t)i * stride;
			model_page(&model, at, &misses);
			model_line(&model, at, at, &misses);
		}
}

static void caches(void)
{
	const uint64_t same_l1d_set = 64 * L1D_SETS, same_l2_set = 64 * L2_SETS;

	/* As many lines as a set has ways stay; one more, and the least recently used is always the next. */
	forget();
	walk(0, same_l1d_set, L1D_WAYS, 10);
	assert(misses.l1d == L1D_WAYS && misses.l2 == L1D_WAYS);
	forget();
	walk(0, same_l1d_set, L1D_WAYS + 1, 10);
	assert(misses.l1d == 10 * (L1D_WAYS + 1) && misses.l2 == L1D_WAYS + 1);
	forget();
	walk(0, same_l2_set, L2_WAYS + 1, 10);
	assert(misses.l2 == 10 * (L2_WAYS + 1));
	/* All of both, line by line. */
	forget();
	walk(0, 64, 32 << 10 >> LINE_BITS, 3);
	assert(misses.l1d == 512 && misses.l2 == 512);
	forget();
	walk(0, 64, 1 << 20 >> LINE_BITS, 3);
	assert(misses.l1d == 3 * 16384 && misses.l2 == 16384);
}

static void tlbs(void)
{
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		uint64_t page = (uint64_t)1 << model_page_bits(size);

		forget();
		walk(0, page, TLB1_SETS * TLB1_WAYS, 3);
		assert(misses.tlb1[size] == 64 && misses.tlb2[size] == 64);
		forget();
		walk(0, page, TLB2_SETS * TLB2_WAYS, 3);
		assert(misses.tlb1[size] == 3 * 1536 && misses.tlb2[size] == 1536);
		forget();
		walk(0, page * TLB2_SETS, TLB2_WAYS + 1, 3);
		assert(misses.tlb2[size] == 3 * (TLB2_WAYS + 1));
		assert(model_walk_references(size) == 4u - size);
	}
}

/* Another address space has other pages in the lower half, the same above. */
static void address_spaces(void)
{
	const uint64_t kernel = 0xffff800000000000;

	forget();
	walk(0, 4096, 4, 1);
	walk(kernel, 4096, 4, 1);
	model_new_address_space(&model);
	memset(&misses, 0, sizeof misses);
	walk(kernel, 4096, 4, 1);
	assert(misses.tlb1[PAGE_4K] == 0 && misses.tlb1[PAGE_1G] == 0);
	walk(0, 4096, 4, 1);
	assert(misses.tlb2[PAGE_4K] == 4 && misses.tlb2[PAGE_2M] == 1 && misses.tlb2[PAGE_1G] == 1);
	assert(misses.l1d == 0);
}

/* Pages of several sizes share one TLB. */
static void pages_in_use(void)
{
	const uint64_t large = 1 << 21;
	bool first;

	forget();
	assert(!model_in_use(&model, 0, &first) && !first);
	model_put_in_use(&model, 0, PAGE_4K);
	model_put_in_use(&model, large, PAGE_2M);
	assert(model_in_use(&model, 4095, &first) && first);
	assert(!model_in_use(&model, 4096, &first));
	assert(model_in_use(&model, 2 * large - 1, &first) && first);
	assert(!model_in_use(&model, 2 * large, &first));
	/* As many small pages of the same set as the first level has ways: the second still has the large one. */
	for (int i = 0; i < TLB1_WAYS; i++)
		model_put_in_use(&model, large * 8 + 4096 * (uint64_t)(1 + i * TLB1_SETS), PAGE_4K);
	assert(model_in_use(&model, large, &first) && !first);
	assert(model_in_use(&model, large, &first) && first);
	model_new_address_space(&model);
	assert(!model_in_use(&model, large, &first));
}

int main(void)
{
	caches();
	tlbs();
	address_spaces();
	pages_in_use();
	return 0;
}
