/* What is refused, and leaves nothing behind. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNEL "/lib/firmware/margay/margay.elf"
#define PCT "/lib/firmware/margay/pct"

enum { WILD = 3000, KILLS = 12, RIVALS = 3, RACE_SECONDS = 4, ALLOWED_KIB = 1024 };

static int opened(void)
{
	int fd = open("/dev/margay", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* RESERVE with one word changed. */
#define CHANGED(error, field, value) \
	do { \
		struct margay_reserve want = usual(1, 2); \
		want.field = (value); \
		FAILS(error, ioctl(fd, MARGAY_RESERVE, &want)); \
	} while (0)

static void check_wild_reserves(int fd)
{
	CHANGED(EPROTO, version, 0);
	CHANGED(EPROTO, version, 2);
	CHANGED(EINVAL, bytes, 0);
	CHANGED(EINVAL, bytes, 30 * MIB);
	CHANGED(EINVAL, bytes, NODE_BYTES + 4096);
	CHANGED(EINVAL, bytes, -2 * MIB);
	CHANGED(ENOMEM, bytes, 1UL << 40);
	CHANGED(EINVAL, pool_bytes, 4096);
	CHANGED(EINVAL, pool_bytes, NODE_BYTES);
	CHANGED(EINVAL, pool_bytes, -2 * MIB);
	CHANGED(EINVAL, pool_bytes, NODE_BYTES - 14 * MIB);
	CHANGED(EINVAL, comm_offset, 0);
	CHANGED(EINVAL, comm_offset, MIB - 4096);
	CHANGED(EINVAL, comm_offset, MIB + 1);
	CHANGED(EINVAL, comm_offset, 2 * MIB - 4096);
	CHANGED(EINVAL, comm_offset, 8 * MIB);
	CHANGED(EINVAL, comm_offset, NODE_BYTES - POOL_BYTES);
	CHANGED(EINVAL, comm_offset, -4096UL);
	CHANGED(EINVAL, comm_bytes, 0);
	CHANGED(EINVAL, comm_bytes, 4095);
	CHANGED(EINVAL, comm_bytes, MIB + 4096);
	CHANGED(EINVAL, comm_bytes, -4096UL);
	CHANGED(EINVAL, numa_node, -2);
	CHANGED(EINVAL, numa_node, 1 << 30);
	CHANGED(EINVAL, numa_node, 1);
	CHANGED(EINVAL, cpu_count, 0);
	CHANGED(EINVAL, cpu_count, 257);
	CHANGED(EINVAL, cpu_count, -1);
	CHANGED(EINVAL, cpus[0], 0);
	CHANGED(EINVAL, cpus[1], 1); /* twice */
	CHANGED(EINVAL, cpus[1], 1 << 30);
	CHANGED(EINVAL, cpus[1], -1);
	FAILS(EFAULT, ioctl(fd, MARGAY_RESERVE, 8));
	FAILS(EFAULT, ioctl(fd, MARGAY_BELL, 8));
	FAILS(ENOTTY, ioctl(fd, _IO('M', 6), 0));
}

/* Words without sense: errors, and the node that there is goes on. */
static void check_wild_words(int fd)
{
	static const unsigned long requests[] = { MARGAY_RESERVE, MARGAY_MEMORY, MARGAY_BELL, MARGAY_ENDED };
	static union {
		struct margay_reserve reserve;
		struct margay_bell bell;
		uint32_t words[sizeof(struct margay_reserve) / 4];
	} wild;

	srandom(1);
	for (int i = 0; i < WILD; i++) {
		wild.reserve = usual(1, 2);
		for (int changes = random() % 6; changes >= 0; changes--)
			wild.words[random() % (random() % 2 ? 16 : 280)] = random() % 2 ? random() << 1 : random() % 8;
		unsigned long request = requests[random() % 4];
		/* A descriptor is below; none that it may have by chance is an eventfd of ours. */
		int got = ioctl(fd, request, request == MARGAY_MEMORY ? (void *)(random() % 8 + 2) : &wild);
		if (request == MARGAY_RESERVE || request == MARGAY_MEMORY)
			CHECK(got == -1);
	}
}

void check_numbers(void)
{
	int fd = opened();
	struct margay_bell bell = { .eventfd = eventfd(0, 0) };
	cpu_set_t all, some;

	FAILS(EINVAL, ioctl(fd, MARGAY_START));
	FAILS(EINVAL, ioctl(fd, MARGAY_MEMORY, 0));
	FAILS(EINVAL, ioctl(fd, MARGAY_BELL, &bell));
	CHECK(ioctl(fd, MARGAY_ENDED) == 0);
	check_wild_reserves(fd);
	CPU_ZERO(&some);
	CPU_SET(0, &some);
	CPU_SET(1, &some);
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0 && sched_setaffinity(0, sizeof(some), &some) == 0);
	CHANGED(EPERM, cpus[1], 2);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	close(fd);

	struct node node = reserved(1, 2);
	struct margay_reserve want = usual(3, 1);
	FAILS(EALREADY, ioctl(node.fd, MARGAY_RESERVE, &want));
	bell.index = 2;
	FAILS(EINVAL, ioctl(node.fd, MARGAY_BELL, &bell));
	bell.to_host = 1;
	bell.index = 257;
	FAILS(EINVAL, ioctl(node.fd, MARGAY_BELL, &bell));
	bell.index = 3;
	bell.eventfd = node.fd;
	FAILS(EINVAL, ioctl(node.fd, MARGAY_BELL, &bell));
	bell.eventfd = 999;
	FAILS(EBADF, ioctl(node.fd, MARGAY_BELL, &bell));
	check_wild_words(node.fd);
	CHECK(ioctl(node.fd, MARGAY_START) == 0 && rings(node.log));
	check_wild_words(node.fd);
	CHECK(ioctl(node.fd, MARGAY_ENDED) == 0);
	leave(&node);
	CHECK(online(1) && online(2));
}

static char image[1 << 20], changed[1 << 20];
static size_t image_bytes;

/* START with a kernel that has one byte, or two, changed. */
static void check_damaged(int fd, size_t at, unsigned value, size_t bytes)
{
	memcpy(changed, image, image_bytes);
	changed[at] = value;
	changed[at + 1] = value >> 8;
	put(KERNEL, changed, bytes);
	FAILS(ENOEXEC, ioctl(fd, MARGAY_START));
}

/* No kernel, a damaged one, no PCT, one that is too large; then it starts all the same. */
void check_files(void)
{
	struct node node = reserved(1, 2);
	int fd = open(KERNEL, O_RDONLY | O_CLOEXEC);
	static char large[(2 << 20) + 1];

	image_bytes = read(fd, image, sizeof(image));
	close(fd);
	CHECK(image_bytes > 4096 && image_bytes < sizeof(image));
	check_damaged(node.fd, 0, 0, image_bytes);
	check_damaged(node.fd, 4, 1, image_bytes); /* 32 bits */
	check_damaged(node.fd, 16, 3, image_bytes); /* ET_DYN */
	check_damaged(node.fd, 18, 40, image_bytes); /* ARM */
	check_damaged(node.fd, 26, 0x1234, image_bytes); /* e_entry */
	check_damaged(node.fd, 36, 0xffff, image_bytes); /* e_phoff */
	check_damaged(node.fd, 56, 0xffff, image_bytes); /* e_phnum */
	check_damaged(node.fd, 64 + 13, 0xffff, image_bytes); /* p_offset */
	check_damaged(node.fd, 64 + 26, 0x0001, image_bytes); /* p_paddr: 64 KiB */
	check_damaged(node.fd, 64 + 26, 0x03ff, image_bytes); /* the end of what the tables show */
	check_damaged(node.fd, 64 + 30, 0xffff, image_bytes);
	check_damaged(node.fd, 64 + 42, 0xffff, image_bytes); /* p_memsz */
	check_damaged(node.fd, 0, 0x457f, 63);
	check_damaged(node.fd, 0, 0x457f, image_bytes / 2);
	CHECK(unlink(KERNEL) == 0);
	FAILS(ENOENT, ioctl(node.fd, MARGAY_START));
	put(KERNEL, image, image_bytes);
	char pct[64];
	memset(pct, '!', sizeof(pct));
	put(PCT, large, sizeof(large));
	FAILS(EFBIG, ioctl(node.fd, MARGAY_START));
	CHECK(unlink(PCT) == 0);
	FAILS(ENOENT, ioctl(node.fd, MARGAY_START));
	CHECK(online(1) && online(2));
	put(PCT, pct, sizeof(pct));
	CHECK(ioctl(node.fd, MARGAY_START) == 0 && rings(node.log));
	leave(&node);
}

/* A holder that may run on its node's CPUs only goes on elsewhere. */
static void check_pinned_holder(void)
{
	cpu_set_t all, own;

	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	CPU_ZERO(&own);
	CPU_SET(1, &own);
	CPU_SET(2, &own);
	CHECK(sched_setaffinity(0, sizeof(own), &own) == 0);
	struct node node = started(1, 2);
	int cpu = sched_getcpu();
	CHECK(cpu == 0 || cpu == 3);
	leave(&node);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

/* Two nodes beside each other; others' CPUs; an administrator who wants a CPU back, or the module out. */
void check_rivals(void)
{
	struct node node = started(1, 2), other = started(3, 1);
	int fd = opened();
	struct margay_reserve want = usual(2, 2);

	FAILS(EBUSY, ioctl(fd, MARGAY_RESERVE, &want));
	FAILS(EBUSY, set_online(1, 1));
	FAILS(EBUSY, set_online(3, 1));
	FAILS(EAGAIN, unload_module());
	leave(&other);
	CHECK(online(3) && !online(1));
	CHECK(write(node.ring[0], &(uint64_t){ 1 }, 8) == 8 && rings(node.bell0));

	/* One that Linux has offline, and one that goes so after RESERVE. */
	want = usual(3, 1);
	CHECK(set_online(3, 0) == 0);
	FAILS(EBUSY, ioctl(fd, MARGAY_RESERVE, &want));
	CHECK(set_online(3, 1) == 0);
	leave(&node);
	other = reserved(2, 2);
	CHECK(set_online(3, 0) == 0);
	FAILS(EBUSY, ioctl(other.fd, MARGAY_START));
	CHECK(online(2) && !online(3));
	CHECK(set_online(3, 1) == 0);
	CHECK(ioctl(other.fd, MARGAY_START) == 0 && rings(other.log));
	leave(&other);
	close(fd);

	check_pinned_holder();

	/* Whatever is open keeps the module. */
	node = reserved(1, 1);
	close(node.fd);
	close(node.memory);
	FAILS(EAGAIN, unload_module());
	CHECK(munmap((void *)node.comm, COMM_BYTES) == 0);
	CHECK(unload_module() == 0);
	load_module();
}

/* Suspend is refused while a node runs: its memory and CPUs are in no image. */
void check_power(void)
{
	struct node node = started(1, 2);
	int fd = open("/sys/power/state", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	FAILS(EPERM, write(fd, "freeze", 6));
	close(fd);
	CHECK(write(node.ring[0], &(uint64_t){ 1 }, 8) == 8 && rings(node.bell0));
	leave(&node);
}

/* Starts nodes on two of three CPUs as often as it can. */
static _Noreturn void rival(unsigned seed)
{
	time_t end = time(NULL) + RACE_SECONDS;
	int nodes = 0;

	for (srandom(seed); time(NULL) < end;) {
		struct margay_reserve want = usual(1 + random() % 2, 2);
		int fd = opened();
		int held = ioctl(fd, MARGAY_RESERVE, &want);
		CHECK(held == 0 || errno == EBUSY || errno == ENOMEM || errno == EPERM);
		if (held == 0) {
			int ran = ioctl(fd, MARGAY_START);
			CHECK(ran == 0 || errno == EBUSY);
			nodes += ran == 0;
		}
		close(fd);
	}
	_exit(nodes == 0); /* a failed check is 2 */
}

/* Several who want the same CPUs, and an administrator who takes these from Linux and gives them back: none is lost. */
void check_races(void)
{
	pid_t rivals[RIVALS];
	long before = free_kib();
	time_t end = time(NULL) + RACE_SECONDS;
	int idle = 0;

	for (int i = 0; i < RIVALS; i++) {
		rivals[i] = fork();
		if (rivals[i] == 0)
			rival(i);
		CHECK(rivals[i] > 0);
	}
	while (time(NULL) < end) {
		int cpu = 1 + random() % 3;
		/* Either may fail: the CPU is a node's, or the last. */
		set_online(cpu, 0);
		set_online(cpu, 1);
	}
	for (int i = 0; i < RIVALS; i++) {
		int status;
		CHECK(waitpid(rivals[i], &status, 0) == rivals[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
		idle += WEXITSTATUS(status);
	}
	CHECK(idle < RIVALS);
	for (int cpu = 1; cpu < 4; cpu++)
		CHECK(online(cpu) || set_online(cpu, 1) == 0);
	struct node node = started(1, 3);
	leave(&node);
	CHECK(before - free_kib() < ALLOWED_KIB);
}

/* The holder killed at any moment: everything is Linux's again. */
void check_kills(void)
{
	long before = free_kib();

	for (int i = 0; i < KILLS; i++) {
		pid_t child = fork();
		if (child == 0) {
			for (;;) {
				struct node node = started(1, 3);
				leave(&node);
			}
		}
		CHECK(child > 0);
		usleep(random() % 1500000);
		CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
		CHECK(online(1) && online(2) && online(3));
	}
	struct node node = started(1, 3);
	leave(&node);
	long lost = before - free_kib();
	printf("lost %ld KiB\n", lost);
	CHECK(lost < ALLOWED_KIB);
}
