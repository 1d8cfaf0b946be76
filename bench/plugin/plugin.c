/* A plugin of QEMU's TCG that counts, for each virtual CPU by itself, what the
 * guest executes and what its memory accesses would miss (model.h). README.md
 * has arguments and output.
 *
 * Each virtual CPU is executed by one thread at a time and touches only its own
 * counters, so nothing is shared and nothing is locked. Counters only grow; a
 * region is the difference between its two ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <qemu-plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mark.h"
#include "plugin.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* Instructions of a turn of a loop that waits. */
enum { MOST_OF_A_TURN = 64 };

struct plugin plugin = { .model = true };

/* ---- what the guest does ---- */

static void on_instruction(unsigned int index, void *side_of)
{
	struct vcpu *vcpu = &plugin.vcpu[index];
	enum side side = (enum side)(uintptr_t)side_of;

	if (!vcpu->counting)
		return;
	vcpu->now.side[side].instructions++;
	vcpu->now.kernel_entries += side > vcpu->last_side;
	vcpu->last_side = side;
	if (vcpu->watched) {
		vcpu->watched->instructions[side] = vcpu->now.side[side].instructions;
		vcpu->watched->kernel_entries = vcpu->now.kernel_entries;
	}
}

/* A pause soon after another is a turn of a loop that waits. */
static void on_pause(unsigned int index, void *side_of)
{
	struct vcpu *vcpu = &plugin.vcpu[index];
	enum side side = (enum side)(uintptr_t)side_of;
	struct side_counts *counts = &vcpu->now.side[side];
	uint64_t turn = counts->instructions - vcpu->paused[side];

	if (!vcpu->counting)
		return;
	if (turn <= MOST_OF_A_TURN)
		counts->waited += turn;
	vcpu->paused[side] = counts->instructions;
}

/* The part of an access that lies within one line. */
static void look(struct vcpu *vcpu, struct side_counts *counts, uint64_t address,
		 uint64_t physical)
{
	if (!model_is_last_page(&vcpu->model, address))
		model_page(&vcpu->model, address, &counts->misses);
	if (!model_is_last_line(&vcpu->model, address))
		model_line(&vcpu->model, address, physical, &counts->misses);
}

static void model_access(struct vcpu *vcpu, struct side_counts *counts, qemu_plugin_meminfo_t info,
			 uint64_t address)
{
	const uint64_t line_bytes = 1 << LINE_BITS;
	uint64_t last = address + (1ull << qemu_plugin_mem_size_shift(info)) - 1;
	uint64_t physical = address;

	if (address >> LINE_BITS == last >> LINE_BITS && model_is_last_line(&vcpu->model, address))
		return;
	struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
	if (where && qemu_plugin_hwaddr_is_io(where))
		return;
	if (where)
		physical = qemu_plugin_hwaddr_phys_addr(where);
	else
		counts->unresolved++;
	/* What the CPU reads and writes on its way into the kernel lies in the upper half. */
	if (counts == &vcpu->now.side[USER] && !(address >> 63) &&
	    !model_is_last_page(&vcpu->model, address))
		pages_look(&vcpu->pages, &vcpu->model, address, physical, &vcpu->now.in_use);
	look(vcpu, counts, address, physical);
	/* The second page of an access is taken to follow the first in memory, so it is not looked for among the pages in use. */
	if (address >> LINE_BITS != last >> LINE_BITS)
		look(vcpu, counts, last & -line_bytes, (physical | (line_bytes - 1)) + 1);
}

static void on_access(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address,
		      void *side_of)
{
	struct vcpu *vcpu = &plugin.vcpu[index];
	struct side_counts *counts = &vcpu->now.side[(uintptr_t)side_of];

	if (!vcpu->counting)
		return;
	if (qemu_plugin_mem_is_store(info))
		counts->stores++;
	else
		counts->loads++;
	if (plugin.model)
		model_access(vcpu, counts, info, address);
}

static void on_cr3(unsigned int index, void *unused)
{
	(void)unused;
	model_new_address_space(&plugin.vcpu[index].model);
	pages_new_address_space(&plugin.vcpu[index].pages);
}

/* Sections count from the first instruction with interrupts on that follows one of the kernel. */
static void on_flag(unsigned int index, void *packed)
{
	struct vcpu *vcpu = &plugin.vcpu[index];

	if (!vcpu->counting)
		return;
	irqs_look(&vcpu->irqs, index, (uintptr_t)packed);
	vcpu->irqs.began |= vcpu->irqs.enabled && vcpu->now.side[KERNEL].instructions;
}

static void on_begin(unsigned int index, void *unused)
{
	struct vcpu *vcpu = &plugin.vcpu[index];

	(void)unused;
	vcpu->counting = vcpu->marked = vcpu->irqs.began = true;
	vcpu->irqs.longest_of_region = (struct section){ 0 };
	vcpu->last_side = USER;
	vcpu->begin = vcpu->now;
	if (!vcpu->regions)
		vcpu->before_regions =
			vcpu->now.side[USER].instructions + vcpu->now.side[KERNEL].instructions;
}

static void on_end(unsigned int index, void *unused)
{
	struct vcpu *vcpu = &plugin.vcpu[index];
	struct region *region = vcpu->marked ? malloc(sizeof *region) : NULL;

	(void)unused;
	if (!region)
		return;
	*region = (struct region){ .begin = vcpu->begin,
				   .end = vcpu->now,
				   .irqs_off = vcpu->irqs.longest_of_region };
	*vcpu->last_region = region;
	vcpu->last_region = &region->next;
	vcpu->marked = false;
}

/* ---- what is translated ---- */

static bool is_mark(const uint8_t *code, size_t size, uint32_t displacement)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0x00 };

	return size == 8 && memcmp(code, nop, 4) == 0 && memcmp(code + 4, &displacement, 4) == 0;
}

/* MOV to CR3 (Intel SDM vol. 2B), perhaps with a REX prefix. */
static bool loads_cr3(const uint8_t *code, size_t size)
{
	if (size == 4 && (code[0] & 0xf4) == 0x40)
		code++, size--;
	return size == 3 && code[0] == 0x0f && code[1] == 0x22 && (code[2] & 0x38) == 0x18;
}

/* What sections with interrupts off depend on (AMD APM vol. 3). Kernels return to ring 3 by SYSRETQ, or by IRETQ after SWAPGS. */
static unsigned irqs_kind(const uint8_t *code, size_t size, bool after_swapgs)
{
	if (size == 1 && code[0] == 0xfa)
		return IRQS_IS_CLI;
	if (size == 1 && code[0] == 0xfb)
		return IRQS_IS_STI;
	if (size == 2 && code[0] == 0x48 && code[1] == 0xcf)
		return after_swapgs ? IRQS_LEAVES : IRQS_IS_IRETQ;
	if (size == 3 && code[0] == 0x48 && code[1] == 0x0f && code[2] == 0x07)
		return IRQS_LEAVES;
	return size == 2 && code[0] == 0x6a ? IRQS_ENTERS : 0;
}

static bool is_pause(const uint8_t *code, size_t size)
{
	return size == 2 && code[0] == 0xf3 && code[1] == 0x90;
}

static bool is_swapgs(const uint8_t *code, size_t size)
{
	return size == 3 && code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf8;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	bool after_cli = false, after_swapgs = false;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		void *side = (void *)(uintptr_t)(qemu_plugin_insn_vaddr(insn) >> 63 ? KERNEL : USER);
		qemu_plugin_vcpu_udata_cb_t on_exec = on_instruction;

		if (plugin.irqs) {
			unsigned kind = irqs_kind(code, size, after_swapgs);
			unsigned read = i == 0 || after_cli ? IRQS_READ : 0;
			void *packed = (void *)irqs_pack(qemu_plugin_insn_vaddr(insn), kind | read);
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_flag, QEMU_PLUGIN_CB_NO_REGS,
							       packed);
			after_cli = kind == IRQS_IS_CLI;
			after_swapgs = is_swapgs(code, size);
		}
		if (is_mark(code, size, MARK_BEGIN))
			on_exec = on_begin;
		else if (is_mark(code, size, MARK_END))
			on_exec = on_end;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_exec, QEMU_PLUGIN_CB_NO_REGS, side);
		if (is_pause(code, size))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pause,
							       QEMU_PLUGIN_CB_NO_REGS, side);
		if (plugin.model && side && loads_cr3(code, size))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_cr3, QEMU_PLUGIN_CB_NO_REGS,
							       NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, side);
	}
}

/* ---- how it begins ---- */

/* Ends QEMU: if it were told that this failed, it would say so in its own words,
 * after ours and without the reason. */
static void refuse(const char *what, const char *why)
{
	fprintf(stderr, "margay plugin: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void take_argument(const char *argument)
{
	if (strncmp(argument, "out=", 4) == 0) {
		plugin.out = fopen(argument + 4, "w");
		if (!plugin.out)
			refuse(argument, strerror(errno));
	} else if (strncmp(argument, "watch=", 6) == 0) {
		plugin.watch = argument + 6;
	} else if (strcmp(argument, "model=off") == 0) {
		plugin.model = false;
	} else if (strcmp(argument, "irqs=on") == 0) {
		plugin.irqs = true;
	} else if (strcmp(argument, "scope=marks") == 0) {
		plugin.only_marks = true;
	} else if (strcmp(argument, "model=on") != 0 && strcmp(argument, "irqs=off") != 0 &&
		   strcmp(argument, "scope=run") != 0) {
		refuse(argument,
		       "arguments are out=FILE, watch=FILE, model=on|off, irqs=on|off, scope=run|marks");
	}
}

/* A file of a `struct watched` for each CPU. */
static void let_watch(const char *path)
{
	size_t bytes = (size_t)plugin.vcpus * sizeof(struct watched);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
		refuse(path, strerror(errno));
	struct watched *watched = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (watched == MAP_FAILED)
		refuse(path, strerror(errno));
	close(file);
	for (int i = 0; i < plugin.vcpus; i++)
		plugin.vcpu[i].watched = &watched[i];
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
	(void)id, (void)unused;
	write_output();
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	for (int i = 0; i < argc; i++)
		take_argument(argv[i]);
	if (!plugin.out)
		refuse("out", "say where to write: out=FILE");
	if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
		refuse(info->target_name, "only for qemu-system-x86_64");
	plugin.vcpus = info->system.max_vcpus;
	plugin.vcpu = calloc((size_t)plugin.vcpus, sizeof *plugin.vcpu);
	if (!plugin.vcpu)
		refuse("no memory", "for the model of each CPU");
	for (int i = 0; i < plugin.vcpus; i++) {
		plugin.vcpu[i].counting = !plugin.only_marks;
		plugin.vcpu[i].last_region = &plugin.vcpu[i].regions;
	}
	const char *no_irqs = plugin.irqs ? irqs_init() : NULL;
	if (no_irqs)
		refuse("irqs=on", no_irqs);
	if (plugin.watch)
		let_watch(plugin.watch);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
