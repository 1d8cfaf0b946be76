// SPDX-License-Identifier: GPL-2.0
/* Bells: eventfds of processes that ring CPUs of the node, and an interrupt of the node that signals eventfds. */
#include "node.h"

#include <linux/file.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/msi.h>
#include <linux/version.h>
#include <asm/apic.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>

/* What a doorbell is in the kernel: qk/hal/src/doorbell.rs. */
#define NODE_VECTOR 0x40

static void ring(struct margay_cpu *cpu)
{
	unsigned long flags;

	if (!READ_ONCE(cpu->node->running))
		return;
	local_irq_save(flags);
	/* What the writer wrote before is there before the interrupt (Intel SDM vol. 3, 11.12.3). */
	asm volatile("mfence; lfence" : : : "memory");
	while (!x2apic_mode && apic->icr_read() & APIC_ICR_BUSY)
		cpu_relax();
	apic->icr_write(APIC_DM_FIXED | APIC_DEST_PHYSICAL | NODE_VECTOR, cpu->apic_id);
	local_irq_restore(flags);
}

/* In the context of the eventfd's writer, under the lock of its queue; as KVM's irqfd. */
static int on_event(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	if (key_to_poll(key) & EPOLLIN)
		ring(container_of(wait, struct margay_cpu, wait));
	return 0;
}

static void on_poll(struct file *file, wait_queue_head_t *head, poll_table *table)
{
	struct margay_cpu *cpu = container_of(table, struct margay_cpu, table);

	cpu->head = head;
	add_wait_queue(head, &cpu->wait);
}

static int bell_to_node(struct margay_node *node, u32 index, int fd)
{
	struct margay_cpu *cpu;
	struct file *file;

	if (index >= node->cpu_count)
		return -EINVAL;
	cpu = &node->cpus[index];
	if (cpu->eventfd)
		return -EALREADY;
	file = eventfd_fget(fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	cpu->eventfd = eventfd_ctx_fileget(file);
	init_waitqueue_func_entry(&cpu->wait, on_event);
	init_poll_funcptr(&cpu->table, on_poll);
	if (vfs_poll(file, &cpu->table) & EPOLLIN)
		ring(cpu);
	fput(file);
	return 0;
}

int margay_bell(struct margay_node *node, const struct margay_bell *bell)
{
	struct eventfd_ctx *eventfd;

	if (bell->zero || bell->to_host > 1)
		return -EINVAL;
	if (!bell->to_host)
		return bell_to_node(node, bell->index, bell->eventfd);
	if (bell->index >= MARGAY_HOST_BELLS)
		return -EINVAL;
	if (node->to_host[bell->index])
		return -EALREADY;
	eventfd = eventfd_ctx_fdget(bell->eventfd);
	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);
	smp_store_release(&node->to_host[bell->index], eventfd);
	return 0;
}

static irqreturn_t on_bell(int irq, void *data)
{
	struct margay_node *node = data;
	unsigned int word;

	for (word = 0; word < MARGAY_BELL_WORDS; word++) {
		unsigned long bit, bits = xchg(&node->record->bells[word], 0);

		for_each_set_bit(bit, &bits, 64) {
			u32 index = 64 * word + bit;
			struct eventfd_ctx *eventfd = index < MARGAY_HOST_BELLS ? smp_load_acquire(&node->to_host[index]) : NULL;

			if (!eventfd)
				continue;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
			eventfd_signal(eventfd, 1);
#else
			eventfd_signal(eventfd);
#endif
		}
	}
	return IRQ_HANDLED;
}

/* An interrupt of no device: a vector of CPU 0, which is never given away. Nothing moves it, so that the record stays right. */
int margay_bells_init(struct margay_node *node)
{
	struct irq_alloc_info info = { .mask = cpumask_of(0) };
	struct msi_msg msg = {};
	struct irq_data *data;
	int err, irq;

	irq = __irq_domain_alloc_irqs(x86_vector_domain, -1, 1, NUMA_NO_NODE, &info, false, NULL);
	if (irq <= 0)
		return irq ? irq : -ENOSPC;
	irq_set_handler(irq, handle_edge_irq);
	err = request_irq(irq, on_bell, IRQF_NOBALANCING | IRQF_NO_THREAD, "margay", node);
	if (err) {
		irq_dispose_mapping(irq);
		return err;
	}
	data = irq_get_irq_data(irq);
	data->chip->irq_compose_msi_msg(data, &msg);
	node->irq = irq;
	node->record->bell_vector = msg.data & 0xff;
	node->record->bell_apic_id = per_cpu(x86_cpu_to_apicid, 0);
	return 0;
}

/* No bell rings a CPU any more when this returns. */
void margay_bells_silence(struct margay_node *node)
{
	unsigned int i;

	WRITE_ONCE(node->running, false);
	for (i = 0; i < node->cpu_count; i++) {
		struct margay_cpu *cpu = &node->cpus[i];

		if (!cpu->eventfd)
			continue;
		remove_wait_queue(cpu->head, &cpu->wait);
		eventfd_ctx_put(cpu->eventfd);
		cpu->eventfd = NULL;
	}
}

/* When its CPUs are back. */
void margay_bells_free(struct margay_node *node)
{
	unsigned int i;

	if (node->irq) {
		free_irq(node->irq, node);
		irq_dispose_mapping(node->irq);
		node->irq = 0;
	}
	for (i = 0; i < MARGAY_HOST_BELLS; i++) {
		if (node->to_host[i])
			eventfd_ctx_put(node->to_host[i]);
		node->to_host[i] = NULL;
	}
}
