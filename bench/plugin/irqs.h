/* How long a CPU keeps interrupts off at a stretch, by the flag itself: IF of
 * RFLAGS (AMD APM vol. 2, 3.1.6), whatever the guest's kernel says of it.
 *
 * The interface of plugins (version 1) has no registers. QEMU's own reader of
 * them for gdb is an exported function, and IF is kept where it reads it. A QEMU
 * that does not export it is refused.
 *
 * IF is read at the first instruction of each block of translated code and after
 * each CLI: everything else that changes IF ends a block (target/i386/tcg).
 *
 * An interrupt that waits comes before the first instruction that is returned to.
 * So a section ends with the instruction that returns to ring 3, too, and between
 * an IRETQ and the first instruction of an entry, which is a PUSH of a number in
 * this kernel and in Linux.
 */
#ifndef IRQS_H
#define IRQS_H

#include <stdbool.h>
#include <stdint.h>

/* Instructions in a row before none of which an interrupt could come. */
struct section {
	uint64_t instructions;
	/* Addresses: of its first instruction, and of the one that came after it. */
	uint64_t from, to;
};

/* A CPU's. All zero is the beginning. */
struct irqs {
	/* Sections count; what comes before is the start of the machine. */
	bool began;
	/* IF, once it is known. */
	bool known, enabled;
	/* Kind of the instruction before. */
	unsigned before;
	struct section now, longest_of_run, longest_of_region;
};

enum irqs_kind {
	/* IF may have changed since the instruction before. */
	IRQS_READ = 1,
	IRQS_IS_CLI = 2,
	IRQS_IS_STI = 4,
	IRQS_IS_IRETQ = 8,
	/* Returns to ring 3. */
	IRQS_LEAVES = 16,
	/* PUSH of a number. */
	IRQS_ENTERS = 32,
};

/* NULL when IF can be read, or the reason why not. */
const char *irqs_init(void);

/* What `irqs_look` is told of an instruction; an address has 48 bits. */
static inline uintptr_t irqs_pack(uint64_t address, unsigned kind)
{
	return (uintptr_t)(address << 16 >> 16 | (uint64_t)kind << 48);
}

/* An instruction is about to be executed. */
void irqs_look(struct irqs *irqs, unsigned cpu, uintptr_t packed);

#endif
