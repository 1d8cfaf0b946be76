#define _GNU_SOURCE
#include "pages.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRESENT = 1 << 0, LARGE = 1 << 7, LEVELS = 4, TABLE_BYTES = 4096, ENTRIES = 512 };

static const uint64_t ADDRESS = 0x000ffffffffff000;
/* Of the guest's physical addresses, all that a q35 has. */
static const uint64_t ADDRESSES = (uint64_t)1 << 40;

/* A search reads all of memory. What has not been found so often is not there, as before paging is switched on. */
enum { MOST_SEARCHES_IN_VAIN = 4 };

/* The guest's; 0 bytes: there is none to read. */
static struct {
	int file;
	uint64_t bytes;
} memory;

/* Names of guest RAM: yod's, and QEMU's own for other guests (backends/hostmem-memfd.c). */
static const char *const memory_names[] = { "/memfd:margay-ram ", "/memfd:memory-backend-memfd " };

static bool is_memory(const char *target)
{
	for (size_t i = 0; i < sizeof memory_names / sizeof memory_names[0]; i++)
		if (strncmp(target, memory_names[i], strlen(memory_names[i])) == 0)
			return true;
	return false;
}

/* The memfd of that name, of this process, which is QEMU. There may be larger ones: a node's pool is. */
static void open_memory(void)
{
	DIR *files = opendir("/proc/self/fd");
	char path[64], target[64];
	struct stat stat;

	memory.file = -1;
	for (struct dirent *entry; memory.file < 0 && files && (entry = readdir(files));) {
		snprintf(path, sizeof path, "/proc/self/fd/%.20s", entry->d_name);
		ssize_t length = readlink(path, target, sizeof target - 1);
		target[length > 0 ? length : 0] = 0;
		if (is_memory(target))
			memory.file = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (files)
		closedir(files);
	if (memory.file >= 0 && fstat(memory.file, &stat) == 0)
		memory.bytes = (uint64_t)stat.st_size;
}

/* An entry of a table; 0 where there is no memory. */
static uint64_t entry_at(uint64_t physical_address)
{
	uint64_t entry;
	ssize_t got = pread(memory.file, &entry, sizeof entry, (off_t)physical_address);

	return got == sizeof entry ? entry : 0;
}

/* Goes through the tables to what an address translates to; PAGE_SIZES: to nothing. */
static enum page_size walk(uint64_t table, uint64_t virtual_address, uint64_t *found)
{
	for (int level = LEVELS; level > 0; level--) {
		enum page_size size = (enum page_size)(level - 1);
		unsigned bits = model_page_bits(size);
		uint64_t entry = entry_at(table + (virtual_address >> bits) % ENTRIES * sizeof entry);

		if (!(entry & PRESENT))
			break;
		if (level == 1 || (level < LEVELS && entry & LARGE)) {
			uint64_t offset = ((uint64_t)1 << bits) - 1;
			*found = (entry & ADDRESS & ~offset) | (virtual_address & offset);
			return size;
		}
		table = entry & ADDRESS;
	}
	return PAGE_SIZES;
}

/* The same, if it leads to where QEMU went. Of a device's memory, such as the pool of files that ranks share, QEMU says where it
 * keeps it, not where the guest sees it: then that it does not lead to RAM has to do. */
static enum page_size leads(uint64_t top, uint64_t virtual_address, uint64_t physical_address,
			    uint64_t *found)
{
	enum page_size size = walk(top, virtual_address, found);
	bool in_memory = physical_address < memory.bytes;

	if (size == PAGE_SIZES)
		return size;
	if (in_memory ? *found != physical_address : *found < memory.bytes || *found >= ADDRESSES)
		return PAGE_SIZES;
	return size;
}

/* The size of the page that translates an address so, and where the guest sees that; PAGE_SIZES: unknown. */
static enum page_size size_of(struct pages *pages, uint64_t virtual_address,
			      uint64_t physical_address, uint64_t *found)
{
	enum page_size size = leads(pages->top, virtual_address, physical_address, found);

	if (size != PAGE_SIZES || physical_address >= memory.bytes ||
	    pages->searched_in_vain == MOST_SEARCHES_IN_VAIN)
		return size;
	for (uint64_t top = 0; top < memory.bytes; top += TABLE_BYTES) {
		size = leads(top, virtual_address, physical_address, found);
		if (size != PAGE_SIZES) {
			pages->top = top;
			return size;
		}
	}
	pages->searched_in_vain++;
	return PAGE_SIZES;
}

void pages_new_address_space(struct pages *pages)
{
	pages->searched_in_vain = 0;
}

/* Whether it is for the first time. */
static bool touch(struct pages *pages, uint64_t page_address)
{
	uint64_t frame = page_address >> model_page_bits(PAGE_4K);
	uint8_t bit = (uint8_t)(1 << frame % 8), *byte = &pages->touched[frame / 8];
	bool first = !(*byte & bit);

	*byte |= bit;
	return first;
}

void pages_look(struct pages *pages, struct model *model, uint64_t virtual_address,
		uint64_t physical_address, struct in_use *counts)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	enum page_size size = PAGE_SIZES;
	bool first_level, there = model_in_use(model, virtual_address, &first_level);
	uint64_t found;

	counts->l1_misses += !first_level;
	if (there)
		return;
	pthread_once(&once, open_memory);
	if (!pages->touched)
		pages->touched = calloc(1, ADDRESSES >> model_page_bits(PAGE_4K) >> 3);
	if (pages->touched && memory.bytes > 0)
		size = size_of(pages, virtual_address, physical_address, &found);
	if (size == PAGE_SIZES) {
		counts->unknown++;
		return;
	}
	uint64_t bytes = (uint64_t)1 << model_page_bits(size);
	counts->walks[size]++;
	counts->touched_bytes[size] += touch(pages, found & -bytes) ? bytes : 0;
	model_put_in_use(model, virtual_address, size);
}
