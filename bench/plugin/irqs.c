#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "irqs.h"

/* GByteArray of GLib. */
struct bytes {
	uint8_t *data;
	unsigned length;
};

/* Number of RFLAGS in QEMU's description of the CPU for gdb (gdb-xml/i386-64bit.xml), and bits of it. Bit 1 is always set. */
enum { RFLAGS = 17, ALWAYS_SET = 1 << 1, IF = 1 << 9 };

static struct {
	void *(*cpu)(int index);
	int (*read_register)(void *cpu, struct bytes *to, int number);
	struct bytes *(*new_bytes)(void);
	struct bytes *(*set_size)(struct bytes *bytes, unsigned length);
} qemu;

/* Two CPUs may read at once, each by its own thread. */
static _Thread_local struct bytes *bytes;

const char *irqs_init(void)
{
	qemu.cpu = (void *(*)(int))dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	qemu.read_register = (int (*)(void *, struct bytes *, int))dlsym(RTLD_DEFAULT,
									 "x86_cpu_gdb_read_register");
	qemu.new_bytes = (struct bytes * (*)(void)) dlsym(RTLD_DEFAULT, "g_byte_array_new");
	qemu.set_size = (struct bytes * (*)(struct bytes *, unsigned))
		dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
	if (!qemu.cpu || !qemu.read_register || !qemu.new_bytes || !qemu.set_size)
		return "this QEMU does not export its reader of registers";
	return NULL;
}

static bool interrupts_are_on(unsigned cpu)
{
	if (!bytes)
		bytes = qemu.new_bytes();
	qemu.set_size(bytes, 0);
	qemu.read_register(qemu.cpu((int)cpu), bytes, RFLAGS);
	if (bytes->length < 2 || !(bytes->data[0] & ALWAYS_SET)) {
		fprintf(stderr, "margay plugin: register %d of this QEMU is not RFLAGS\n", RFLAGS);
		exit(EXIT_FAILURE);
	}
	return (bytes->data[0] | bytes->data[1] << 8) & IF;
}

static void keep(struct section *longest, const struct section *section)
{
	if (section->instructions > longest->instructions)
		*longest = *section;
}

static void end_section(struct irqs *irqs, uint64_t address)
{
	struct section *now = &irqs->now;

	if (now->instructions) {
		now->to = address;
		keep(&irqs->longest_of_run, now);
		keep(&irqs->longest_of_region, now);
		now->instructions = 0;
	}
}

void irqs_look(struct irqs *irqs, unsigned cpu, uintptr_t packed)
{
	uint64_t address = (uint64_t)((int64_t)((uint64_t)packed << 16) >> 16);
	unsigned kind = (unsigned)(packed >> 48);
	struct section *now = &irqs->now;

	if (kind & IRQS_READ || !irqs->known)
		irqs->enabled = interrupts_are_on(cpu);
	irqs->known = true;
	/* Interrupts come in after the instruction that follows STI. When that is a CLI, none does. */
	bool closed = !irqs->enabled || (kind & IRQS_IS_CLI && irqs->before & IRQS_IS_STI && now->instructions);
	if (!closed || irqs->before & IRQS_LEAVES ||
	    (irqs->before & IRQS_IS_IRETQ && kind & IRQS_ENTERS))
		end_section(irqs, address);
	irqs->before = kind;
	if (closed && irqs->began && now->instructions++ == 0)
		now->from = address;
}
