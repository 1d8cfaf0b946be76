// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs of nodes. remove_cpu has Linux do all of its own offlining; in the end the dying CPU calls smp_ops.play_dead, where those of a
 * node leave for its kernel. add_cpu gives one back: Linux's INIT and SIPI reset it whatever it does.
 */
#include "node.h"

#include <linux/cpu.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/msr.h>
#include <asm/smp.h>

/* Who has a CPU, and whether it has left Linux. */
static struct {
	struct margay_node *node;
	u32 index;
	bool wanted; /* it leaves when Linux is done with it */
	bool left;
} slots[NR_CPUS];
static DEFINE_MUTEX(slots_lock); /* `node`, `index` */

static void (*linux_play_dead)(void);
/* play_dead_common: the last that a CPU has to say to Linux. Nothing of what it does is exported. */
static void (*last_of_linux)(void);
static enum cpuhp_state online_state;

static void margay_play_dead(void)
{
	unsigned int cpu = smp_processor_id();

	if (!READ_ONCE(slots[cpu].wanted)) {
		linux_play_dead();
		return;
	}
	WRITE_ONCE(slots[cpu].left, true);
	/* Where Linux has the CPU check indirect branches, it seals functions of which none is known. */
	if (cpu_feature_enabled(X86_FEATURE_IBT))
		native_wrmsr(MSR_IA32_S_CET, 0, 0);
	last_of_linux();
	local_irq_disable();
	margay_trampoline_leave(slots[cpu].node, slots[cpu].index);
}

/* Under the lock of hotplug: an administrator's attempt to have a CPU back, or our own, for which `left` is no more. */
static int refuse_online(unsigned int cpu)
{
	return READ_ONCE(slots[cpu].left) ? -EBUSY : 0;
}

int margay_cpus_claim(struct margay_node *node, const struct margay_reserve *want)
{
	unsigned int i, cpu;
	int err = 0;

	if (!want->cpu_count || want->cpu_count > MARGAY_MOST_CPUS)
		return -EINVAL;
	node->cpus = kcalloc(want->cpu_count, sizeof(*node->cpus), GFP_KERNEL);
	if (!node->cpus)
		return -ENOMEM;
	mutex_lock(&slots_lock);
	for (i = 0; i < want->cpu_count; i++) {
		cpu = want->cpus[i];
		if (!cpu || cpu >= nr_cpu_ids || slots[cpu].node == node)
			err = -EINVAL;
		else if (!cpumask_test_cpu(cpu, current->cpus_ptr))
			err = -EPERM;
		else if (slots[cpu].node || !cpu_online(cpu))
			err = -EBUSY;
		if (err)
			break;
		slots[cpu].node = node;
		slots[cpu].index = i;
		node->cpus[i].cpu = cpu;
		node->cpus[i].node = node;
		node->cpus[i].apic_id = per_cpu(x86_cpu_to_apicid, cpu);
		node->cpu_count = i + 1;
	}
	mutex_unlock(&slots_lock);
	if (err)
		margay_cpus_unclaim(node);
	return err;
}

void margay_cpus_unclaim(struct margay_node *node)
{
	unsigned int i;

	mutex_lock(&slots_lock);
	for (i = 0; i < node->cpu_count; i++)
		slots[node->cpus[i].cpu].node = NULL;
	mutex_unlock(&slots_lock);
	node->cpu_count = 0;
	kfree(node->cpus);
	node->cpus = NULL;
}

void margay_cpus_give_back(struct margay_node *node)
{
	unsigned int i;

	for (i = 0; i < node->cpu_count; i++)
		WRITE_ONCE(slots[node->cpus[i].cpu].wanted, false);
	/* None is on its way: one that an administrator takes from Linux at this moment has left, or stays Linux's. */
	cpus_read_lock();
	cpus_read_unlock();
	for (i = 0; i < node->cpu_count; i++) {
		unsigned int cpu = node->cpus[i].cpu;
		int err;

		if (!READ_ONCE(slots[cpu].left))
			continue;
		WRITE_ONCE(slots[cpu].left, false);
		err = add_cpu(cpu);
		if (err < 0 && !cpu_online(cpu)) {
			pr_err("CPU %u does not come back (%d): the memory of its node is lost until the next boot\n", cpu, err);
			node->keep = true;
		}
	}
}

/* All of them, or none. */
int margay_cpus_take(struct margay_node *node)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < node->cpu_count && !err; i++) {
		unsigned int cpu = node->cpus[i].cpu;

		WRITE_ONCE(slots[cpu].wanted, true);
		err = remove_cpu(cpu);
		/* An administrator may have been faster, with the same end. */
		if (READ_ONCE(slots[cpu].left))
			err = margay_trampoline_wait(node, i + 1) ? 0 : -EIO;
		else
			err = err < 0 ? err : -EBUSY;
		if (err)
			pr_err("CPU %u cannot be had from Linux: %d\n", cpu, err);
	}
	if (err)
		margay_cpus_give_back(node);
	return err;
}

static void *address_of(const char *name)
{
	struct kprobe probe = { .symbol_name = name };
	void *address;

	if (register_kprobe(&probe))
		return NULL;
	address = probe.addr;
	unregister_kprobe(&probe);
	return address;
}

int margay_cpus_init(void)
{
	int state;

	last_of_linux = address_of("play_dead_common");
	if (!last_of_linux) {
		pr_err("this kernel has no play_dead_common, or no kprobes: its CPUs cannot be taken\n");
		return -EOPNOTSUPP;
	}
	state = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "margay:online", refuse_online, NULL);
	if (state < 0)
		return state;
	online_state = state;
	linux_play_dead = smp_ops.play_dead;
	smp_ops.play_dead = margay_play_dead;
	return 0;
}

void margay_cpus_exit(void)
{
	/* No CPU is on its way through play_dead. */
	cpus_read_lock();
	smp_ops.play_dead = linux_play_dead;
	cpus_read_unlock();
	cpuhp_remove_state_nocalls(online_state);
}
