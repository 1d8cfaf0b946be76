// SPDX-License-Identifier: GPL-2.0
/*
 * margay.ko: runs Margay, a lightweight kernel, on CPUs and memory that this Linux gives up for the time. margay.h is the interface.
 */
#include "node.h"

#include <linux/cc_platform.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <asm/tsc.h>

static LIST_HEAD(nodes);
static DEFINE_MUTEX(nodes_lock); /* taken before that of a node */
static struct miscdevice device;

void margay_node_free(struct kref *kref)
{
	struct margay_node *node = container_of(kref, struct margay_node, kref);

	if (node->keep)
		return; /* A CPU may still run there. */
	if (node->record)
		margay_memory_free(node);
	margay_trampoline_free(node);
	kfree(node);
}

/* Ends a node, whatever it does: its CPUs are Linux's again. */
static void end(struct margay_node *node)
{
	mutex_lock(&node->lock);
	if (node->state != MARGAY_OVER) {
		node->state = MARGAY_OVER;
		margay_bells_silence(node);
		margay_cpus_give_back(node);
		margay_bells_free(node);
		margay_cpus_unclaim(node);
	}
	mutex_unlock(&node->lock);
}

static void end_work(struct work_struct *work)
{
	end(container_of(work, struct margay_node, over));
}

static int margay_open(struct inode *inode, struct file *file)
{
	struct margay_node *node = kzalloc(sizeof(*node), GFP_KERNEL_ACCOUNT);

	if (!node)
		return -ENOMEM;
	kref_init(&node->kref);
	mutex_init(&node->lock);
	INIT_WORK(&node->over, end_work);
	file->private_data = node;
	mutex_lock(&nodes_lock);
	list_add(&node->link, &nodes);
	mutex_unlock(&nodes_lock);
	return 0;
}

static int margay_release(struct inode *inode, struct file *file)
{
	struct margay_node *node = file->private_data;

	mutex_lock(&nodes_lock);
	list_del(&node->link);
	mutex_unlock(&nodes_lock);
	/* Not here: a process that was killed may not wait for threads that it makes, as hotplug does. */
	queue_work(system_unbound_wq, &node->over);
	flush_work(&node->over);
	kref_put(&node->kref, margay_node_free);
	return 0;
}

static int reserve(struct margay_node *node, const struct margay_reserve *want)
{
	struct margay_record *record;
	unsigned int i;
	int err;

	if (want->version != MARGAY_VERSION)
		return -EPROTO;
	if (node->state != MARGAY_NEW)
		return -EALREADY;
	err = margay_cpus_claim(node, want);
	if (err)
		return err;
	err = margay_memory_take(node, want);
	if (err)
		goto unclaim;
	err = margay_bells_init(node);
	if (err)
		goto free;
	record = node->record;
	record->magic = MARGAY_MAGIC;
	record->version = MARGAY_RECORD_VERSION;
	record->memory = (struct margay_range){ node->start, node->bytes };
	record->comm = node->comm;
	record->tsc_hz = (u64)tsc_khz * 1000;
	record->cpu_count = node->cpu_count;
	for (i = 0; i < node->cpu_count; i++) {
		u64 near = max(cpu_to_node(node->cpus[i].cpu), 0);

		record->cpus[i] = node->cpus[i].apic_id | near << 32;
	}
	node->state = MARGAY_RESERVED;
	return 0;
free:
	margay_memory_free(node);
unclaim:
	margay_cpus_unclaim(node);
	return err;
}

static int start(struct margay_node *node)
{
	u64 entry;
	int err;

	if (node->state != MARGAY_RESERVED)
		return node->state == MARGAY_NEW ? -EINVAL : -EALREADY;
	err = margay_image_load(node, device.this_device, &entry);
	if (!err)
		err = margay_trampoline_build(node);
	if (!err)
		err = margay_cpus_take(node);
	if (err)
		return err;
	node->state = MARGAY_RUNNING;
	WRITE_ONCE(node->running, true);
	smp_store_release(&node->record->mailbox[0], entry);
	return 0;
}

static long reserve_from(struct margay_node *node, struct margay_reserve __user *from)
{
	struct margay_reserve *want = memdup_user(from, sizeof(*want));
	long err;

	if (IS_ERR(want))
		return PTR_ERR(want);
	err = reserve(node, want);
	kfree(want);
	if (!err && put_user(node->start, &from->start))
		err = -EFAULT;
	return err;
}

static long margay_ioctl(struct file *file, unsigned int request, unsigned long arg)
{
	struct margay_node *node = file->private_data;
	struct margay_bell bell;
	long err = -ENOTTY;

	if (request == MARGAY_BELL && copy_from_user(&bell, (void __user *)arg, sizeof(bell)))
		return -EFAULT;
	if (mutex_lock_killable(&node->lock))
		return -EINTR;
	switch (request) {
	case MARGAY_RESERVE:
		err = reserve_from(node, (void __user *)arg);
		break;
	case MARGAY_MEMORY:
		err = node->record ? margay_memory_file(node, arg) : -EINVAL;
		break;
	case MARGAY_BELL:
		err = node->cpu_count ? margay_bell(node, &bell) : -EINVAL;
		break;
	case MARGAY_START:
		err = start(node);
		break;
	case MARGAY_ENDED:
		err = node->record ? min_t(u64, smp_load_acquire(&node->record->ended), INT_MAX) : 0;
		break;
	}
	mutex_unlock(&node->lock);
	return err;
}

static ssize_t margay_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct margay_node *node = file->private_data;
	ssize_t done = 0;

	if (mutex_lock_killable(&node->lock))
		return -EINTR;
	if (node->record)
		done = margay_log_read(node, to, bytes);
	mutex_unlock(&node->lock);
	return done;
}

static const struct file_operations margay_fops = {
	.owner = THIS_MODULE,
	.open = margay_open,
	.release = margay_release,
	.unlocked_ioctl = margay_ioctl,
	.read = margay_read,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "margay",
	.fops = &margay_fops,
	.mode = 0660,
};

/* Before a reset or kexec: the next kernel has all CPUs and all memory. */
static int on_reboot(struct notifier_block *self, unsigned long how, void *unused)
{
	struct margay_node *node;

	mutex_lock(&nodes_lock);
	list_for_each_entry(node, &nodes, link)
		end(node);
	mutex_unlock(&nodes_lock);
	return NOTIFY_DONE;
}

/* A node's CPUs and memory would not be as they were after it. */
static int on_power(struct notifier_block *self, unsigned long event, void *unused)
{
	struct margay_node *node;
	bool running = false;

	if (event != PM_SUSPEND_PREPARE && event != PM_HIBERNATION_PREPARE)
		return NOTIFY_DONE;
	mutex_lock(&nodes_lock);
	list_for_each_entry(node, &nodes, link)
		running |= READ_ONCE(node->running);
	mutex_unlock(&nodes_lock);
	if (!running)
		return NOTIFY_DONE;
	pr_err("a node runs: no suspend before it has ended\n");
	return NOTIFY_BAD;
}

static struct notifier_block reboot_notifier = { .notifier_call = on_reboot };
static struct notifier_block power_notifier = { .notifier_call = on_power };

static int __init margay_init(void)
{
	int err;

	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT) || boot_cpu_has(X86_FEATURE_XENPV)) {
		pr_err("encrypted memory and Xen's paravirtual machines are not served\n");
		return -EOPNOTSUPP;
	}
	err = margay_cpus_init();
	if (err)
		return err;
	err = misc_register(&device);
	if (err) {
		margay_cpus_exit();
		return err;
	}
	register_reboot_notifier(&reboot_notifier);
	register_pm_notifier(&power_notifier);
	return 0;
}

static void __exit margay_exit(void)
{
	unregister_pm_notifier(&power_notifier);
	unregister_reboot_notifier(&reboot_notifier);
	misc_deregister(&device);
	margay_cpus_exit();
}

module_init(margay_init);
module_exit(margay_exit);
MODULE_DESCRIPTION("Margay on CPUs and memory that Linux gives up");
MODULE_LICENSE("GPL");
MODULE_FIRMWARE("margay/margay.elf");
MODULE_FIRMWARE("margay/pct");
