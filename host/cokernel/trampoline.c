// SPDX-License-Identifier: GPL-2.0
/* How a CPU leaves Linux: the trampoline's page, and the page tables that it goes through and enters the kernel with. */
#include "node.h"
#include "enter.h"

#include <linux/delay.h>
#include <linux/mm.h>
#include <asm/io.h>
#include <asm/nospec-branch.h>
#include <asm/special_insns.h>

#define ENTRY_TABLE (_PAGE_PRESENT | _PAGE_RW)
#define ENTRY_2M (_PAGE_PRESENT | _PAGE_RW | _PAGE_PSE)
/* How long a CPU may take from its last word to Linux to its mailbox. */
#define ARRIVAL_MS 5000

/* Pages, one behind the other, all below 4 GiB. `LOW` shows the trampoline where it lies. */
enum { CODE, LEAVING, LEAVING_4, LOW_3, LOW_2, LOW_1, ROOT, DIRECT_3, DIRECT_2, KERNEL_3, KERNEL_2, PAGES };
#define ORDER order_base_2(PAGES)

extern const char margay_enter[], margay_enter_32[], margay_enter_64[], margay_enter_end[];

static u64 *page(struct margay_node *node, int which)
{
	return page_address(node->trampoline + which);
}

static u64 address(struct margay_node *node, int which)
{
	return page_to_phys(node->trampoline + which);
}

/* The entry for `at` in a table of this level. */
static u64 *entry(struct margay_node *node, int table, int level, u64 at)
{
	return page(node, table) + ((at >> (PAGE_SHIFT + 9 * (level - 1))) & 511);
}

static void link(struct margay_node *node, int table, int level, u64 at, int to)
{
	*entry(node, table, level, at) = address(node, to) | ENTRY_TABLE;
}

static void build_tables(struct margay_node *node)
{
	u64 code = address(node, CODE), at, direct = MARGAY_DIRECT_MAP + node->start;
	bool five = __read_cr4() & X86_CR4_LA57;

	link(node, LOW_3, 3, code, LOW_2);
	link(node, LOW_2, 2, code, LOW_1);
	*entry(node, LOW_1, 1, code) = code | ENTRY_TABLE;

	/* Linux's half stays, for its stack and text are used until the jump. */
	memcpy(page(node, LEAVING) + 256, (u64 *)__va(read_cr3_pa()) + 256, PAGE_SIZE / 2);
	if (five)
		link(node, LEAVING, 5, 0, LEAVING_4);
	link(node, five ? LEAVING_4 : LEAVING, 4, 0, LOW_3);

	link(node, ROOT, 4, 0, LOW_3);
	link(node, ROOT, 4, direct, DIRECT_3);
	link(node, DIRECT_3, 3, direct, DIRECT_2);
	link(node, ROOT, 4, MARGAY_KERNEL_BASE, KERNEL_3);
	link(node, KERNEL_3, 3, MARGAY_KERNEL_BASE, KERNEL_2);
	for (at = 0; at < min_t(u64, MARGAY_EARLY_BYTES, node->bytes); at += SZ_2M) {
		*entry(node, DIRECT_2, 2, direct + at) = (node->start + at) | ENTRY_2M;
		*entry(node, KERNEL_2, 2, MARGAY_KERNEL_BASE + at) = (node->start + at) | ENTRY_2M;
	}
}

int margay_trampoline_build(struct margay_node *node)
{
	static const u64 gdt[] = { 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff };
	void *code;
	u64 at;

	if (!node->trampoline)
		node->trampoline = alloc_pages(GFP_KERNEL | GFP_DMA32 | __GFP_ZERO, ORDER);
	if (!node->trampoline)
		return -ENOMEM;
	build_tables(node);
	code = page(node, CODE);
	at = address(node, CODE);
	memcpy(code, margay_enter, margay_enter_end - margay_enter);
	memcpy(code + ENTER_GDT, gdt, sizeof(gdt));
	*(u16 *)(code + ENTER_GDTR) = sizeof(gdt) - 1;
	*(u64 *)(code + ENTER_GDTR + 2) = at + ENTER_GDT;
	*(u32 *)(code + ENTER_FAR32) = at + (margay_enter_32 - margay_enter);
	*(u16 *)(code + ENTER_FAR32 + 4) = 0x18;
	*(u32 *)(code + ENTER_FAR64) = at + (margay_enter_64 - margay_enter);
	*(u16 *)(code + ENTER_FAR64 + 4) = 0x08;
	*(u64 *)(code + ENTER_START) = node->start;
	*(u64 *)(code + ENTER_MAILBOX) = MARGAY_DIRECT_MAP + node->start + offsetof(struct margay_record, mailbox);
	*(u32 *)(code + ENTER_ROOT) = address(node, ROOT);
	*(u32 *)(code + ENTER_ARRIVED) = 0;
	return 0;
}

/* Waits until so many CPUs are at their mailbox. */
bool margay_trampoline_wait(struct margay_node *node, u32 arrived)
{
	u32 *now = (void *)page(node, CODE) + ENTER_ARRIVED;
	int ms;

	for (ms = 0; READ_ONCE(*now) < arrived && ms < ARRIVAL_MS; ms++)
		usleep_range(1000, 2000);
	return READ_ONCE(*now) >= arrived;
}

void margay_trampoline_leave(struct margay_node *node, u32 index)
{
	u64 drop = ~(u64)(X86_CR4_PCIDE | X86_CR4_CET);

	asm volatile("mov %%cr4, %%rax\n\t"
		     "and %[drop], %%rax\n\t"
		     "mov %%rax, %%cr4\n\t"
		     "xor %%eax, %%eax\n\t"
		     "mov %%rax, %%dr7\n\t"
		     "mov %[root], %%cr3\n\t"
		     ANNOTATE_RETPOLINE_SAFE
		     "jmp *%[code]"
		     : : [drop] "r"(drop), [root] "r"(address(node, LEAVING)), [code] "r"(address(node, CODE)), "D"(index)
		     : "rax", "memory");
	unreachable();
}

void margay_trampoline_free(struct margay_node *node)
{
	if (node->trampoline)
		__free_pages(node->trampoline, ORDER);
}
