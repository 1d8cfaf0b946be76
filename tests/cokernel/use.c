/* What a keeper and proxies do with a node. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RETURNS = 5, ALLOWED_KIB = 1024 };

/* Loaded and unloaded; a node from RESERVE to its end; what of the log was overwritten is left out. */
void check_life(void)
{
	static char log[131072];

	for (int i = 0; i < 3; i++) {
		CHECK(unload_module() == 0);
		load_module();
	}
	struct node node = started(1, 3);
	CHECK(!online(1) && !online(2) && !online(3));
	CHECK(ioctl(node.fd, MARGAY_ENDED) == 0);
	CHECK(read(node.fd, log, sizeof(log)) == 0);
	FAILS(EALREADY, ioctl(node.fd, MARGAY_START));
	order(&node, NODE_TALK);
	CHECK(rings(node.log));
	ssize_t bytes = 0, more;
	while ((more = read(node.fd, log + bytes, 1000)) > 0)
		bytes += more;
	CHECK(bytes == 65536 && strcmp(log + bytes - 10, "line 4e1f\n") == 0);
	order(&node, NODE_END);
	CHECK(rings(node.log));
	CHECK(ioctl(node.fd, MARGAY_ENDED) == 7);
	CHECK(read(node.fd, log, sizeof(log)) == 5 && memcmp(log, "ends\n", 5) == 0);
	leave(&node);
	CHECK(online(1) && online(2) && online(3));
}

static void *map(int memory, unsigned long at, unsigned long bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, at);
}

/* Linux's calls take memory of the node as any other: pipes, futexes, another process. */
static void use_as_memory(volatile uint64_t *words)
{
	int ends[2];
	uint64_t copy = 0;
	struct iovec here = { &copy, sizeof(copy) }, there = { (void *)words, sizeof(copy) };

	words[0] = 77;
	CHECK(pipe(ends) == 0 && write(ends[1], (void *)words, 8) == 8 && read(ends[0], &copy, 8) == 8 && copy == 77);
	copy = 0;
	CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 8 && copy == 77);
	CHECK(syscall(SYS_futex, words, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
	pid_t child = fork();
	if (child == 0) {
		words[0] = 78;
		syscall(SYS_futex, words, FUTEX_WAKE, 1, NULL, NULL, 0);
		_exit(0);
	}
	while (words[0] == 77)
		syscall(SYS_futex, words, FUTEX_WAIT, 77, NULL, NULL, 0);
	CHECK(child > 0 && waitpid(child, NULL, 0) == child && words[0] == 78);
	close(ends[0]);
	close(ends[1]);
}

/* What proxies do with files of memory besides mapping them. */
static void use_as_file(int memory, int *kept)
{
	uint64_t copy = 0;
	char name[32];

	CHECK(lseek(memory, NODE_SHOWN + 5, SEEK_DATA) == NODE_SHOWN + 5);
	CHECK(lseek(memory, NODE_SHOWN, SEEK_HOLE) == NODE_BYTES - POOL_BYTES);
	FAILS(ENXIO, lseek(memory, NODE_BYTES, SEEK_DATA));
	CHECK(pread(memory, &copy, 8, NODE_SHOWN + 3 * 4096) == 8 && copy == 3);
	FAILS(EPERM, pread(memory, &copy, 8, 2 * MIB)); /* the kernel */
	CHECK(pread(memory, &copy, 8, NODE_BYTES) == 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", memory);
	int again = open(name, O_RDWR | O_CLOEXEC);
	CHECK(again >= 0);
	volatile uint64_t *mine = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, again, NODE_SHOWN);
	volatile uint64_t *shared = map(again, NODE_SHOWN, 4096);
	CHECK(mine != MAP_FAILED && shared != MAP_FAILED);
	mine[9] = 5;
	CHECK(shared[9] == 0 && mine[9] == 5);
	CHECK(msync((void *)shared, 4096, MS_SYNC) == 0);
	CHECK(munmap((void *)mine, 4096) == 0 && munmap((void *)shared, 4096) == 0);
	struct flock lock = { .l_type = F_WRLCK, .l_start = NODE_SHOWN, .l_len = 1 };
	CHECK(fcntl(memory, F_OFD_SETLK, &lock) == 0);
	CHECK(fcntl(again, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK);
	*kept = open(name, O_PATH | O_CLOEXEC);
	CHECK(*kept >= 0 && close(again) == 0);
}

/* Before START the communication area alone; then what the kernel shows, across two of its ranges, too. */
void check_mappings(void)
{
	struct node node = reserved(1, 2);
	int memory = node.memory, pool = ioctl(node.fd, MARGAY_MEMORY, 1);

	CHECK(pool >= 0);
	FAILS(EINVAL, ioctl(node.fd, MARGAY_MEMORY, 2));
	FAILS(EALREADY, ioctl(node.fd, MARGAY_MEMORY, 1));
	FAILS(EPERM, map(pool, 0, 4096));
	for (unsigned long i = 0; i < COMM_BYTES / 8; i++)
		CHECK(node.comm[i] == 0);
	FAILS(EPERM, map(memory, NODE_SHOWN, 4096));
	CHECK(ioctl(node.fd, MARGAY_START) == 0 && rings(node.log));
	FAILS(EPERM, map(memory, 0, 4096)); /* the record */
	FAILS(EPERM, map(memory, MIB - 4096, 8192));
	FAILS(EPERM, map(memory, COMM_OFFSET, COMM_BYTES + 4096));
	FAILS(EPERM, map(memory, 2 * MIB, 4096)); /* the kernel */
	FAILS(EPERM, map(memory, NODE_SHOWN - 4096, 4096));
	FAILS(EPERM, map(memory, NODE_SHOWN, 2 * NODE_SHOWN_BYTES + 4096));
	FAILS(EPERM, map(memory, NODE_BYTES - POOL_BYTES, 4096));
	FAILS(EPERM, map(memory, NODE_BYTES, 4096));
	FAILS(EPERM, map(memory, 1UL << 62, 4096));
	FAILS(EPERM, map(pool, 0, POOL_BYTES));
	FAILS(EPERM, map(pool, POOL_BYTES - 2 * MIB, 4096)); /* the PCT */
	FAILS(EPERM, map(pool, POOL_BYTES - 4096, 8192));
	FAILS(ENODEV, mmap(NULL, 4096, PROT_READ, MAP_SHARED, node.fd, 0));

	volatile uint64_t *shown = map(memory, NODE_SHOWN, 2 * NODE_SHOWN_BYTES);
	volatile uint64_t *last = map(pool, 0, POOL_BYTES - 2 * MIB);
	CHECK(shown != MAP_FAILED && last != MAP_FAILED);
	order(&node, NODE_WRITE);
	CHECK(rings(node.log));
	for (unsigned long i = 0; i < 512; i++)
		CHECK(shown[i * 512] == i);
	/* One that grows has no more than is shown. */
	int grown_ends[2], kept;
	char *grown = mremap((void *)map(memory, NODE_SHOWN, 4096), 4096, 8 * MIB, MREMAP_MAYMOVE);
	CHECK(grown != MAP_FAILED && pipe(grown_ends) == 0);
	CHECK(write(grown_ends[1], grown + 2 * NODE_SHOWN_BYTES - 8, 8) == 8);
	FAILS(EFAULT, write(grown_ends[1], grown + 2 * NODE_SHOWN_BYTES, 8));
	CHECK(munmap(grown, 8 * MIB) == 0 && close(grown_ends[0]) == 0 && close(grown_ends[1]) == 0);
	use_as_file(memory, &kept);
	use_as_memory(node.comm + 64);
	use_as_memory(last);
	use_as_memory(shown);

	/* Mapped when the node is gone: still there, and not Linux's. */
	int ends[2];
	struct iovec pinned = { (void *)shown, 4096 };
	CHECK(pipe(ends) == 0 && vmsplice(ends[1], &pinned, 1, 0) == 4096);
	long before = free_kib();
	close(memory);
	close(pool);
	CHECK(close(node.fd) == 0);
	CHECK(online(1) && online(2));
	shown[1] = 99;
	CHECK(shown[512] == 1 && shown[1] == 99);
	CHECK(free_kib() - before < ALLOWED_KIB);
	CHECK(munmap((void *)shown, 2 * NODE_SHOWN_BYTES) == 0 && munmap((void *)last, POOL_BYTES - 2 * MIB) == 0);
	CHECK(munmap((void *)node.comm, COMM_BYTES) == 0);
	CHECK(free_kib() - before > (long)(NODE_BYTES >> 10) - ALLOWED_KIB);
	char page[4096];
	CHECK(read(ends[0], page, 4096) == 4096 && ((uint64_t *)page)[1] == 99);
	snprintf(page, sizeof(page), "/proc/self/fd/%d", kept);
	FAILS(ENXIO, open(page, O_RDWR));
	close(kept);
	close(ends[0]);
	close(ends[1]);
	close(node.log);
	close(node.bell0);
	for (int i = 0; i < 2; i++)
		close(node.ring[i]);
}

/* Each doorbell reaches its CPU, also from another process; what it answers reaches the eventfd of its bell. */
void check_bells(void)
{
	struct node node = started(1, 3);
	uint64_t one = 1;

	for (int i = 0; i < 100; i++) {
		CHECK(write(node.ring[0], &one, 8) == 8);
		CHECK(rings(node.bell0));
	}
	CHECK(node.comm[NODE_DOORBELLS] == 100);
	for (int cpu = 1; cpu < 3; cpu++) {
		pid_t child = fork();
		if (child == 0)
			_exit(write(node.ring[cpu], &one, 8) != 8);
		CHECK(child > 0 && waitpid(child, NULL, 0) == child);
		for (int i = 0; i < 50000000 && node.comm[NODE_DOORBELLS + cpu] == 0; i++)
			sched_yield();
		CHECK(node.comm[NODE_DOORBELLS + cpu] == 1);
	}
	struct margay_bell again = { .to_host = 0, .index = 1, .eventfd = node.bell0 };
	FAILS(EALREADY, ioctl(node.fd, MARGAY_BELL, &again));
	close(node.ring[2]); /* An eventfd that its processes close. */
	node.ring[2] = dup(node.ring[1]);
	leave(&node);
}

/* CPUs and memory come back, each time; also from a node whose CPUs take no interrupts. */
void check_returns(void)
{
	long before = free_kib();

	for (int i = 0; i < RETURNS; i++) {
		struct node node = started(1, 3);
		CHECK(free_kib() < before - (long)(NODE_BYTES >> 10) + ALLOWED_KIB);
		if (i % 2) {
			order(&node, NODE_HANG);
			for (int turn = 0; turn < 50000000 && node.comm[NODE_ORDER]; turn++)
				sched_yield();
			CHECK(node.comm[NODE_ORDER] == 0);
		}
		leave(&node);
		for (int cpu = 1; cpu < 4; cpu++) {
			cpu_set_t only, all;
			CHECK(online(cpu));
			CPU_ZERO(&only);
			CPU_SET(cpu, &only);
			CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
			CHECK(sched_setaffinity(0, sizeof(only), &only) == 0 && sched_getcpu() == cpu);
			CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
		}
		long lost = before - free_kib();
		printf("lost %ld KiB\n", lost);
		CHECK(lost < ALLOWED_KIB);
	}
}
