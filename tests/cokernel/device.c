/* Checks of /dev/margay, in the guest that init.c set up: as root those of use.c and abuse.c (or the part that
 * is named), else that the device is not to be had. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int checks;

void check(int ok, const char *what, const char *file, int line)
{
	checks++;
	if (ok)
		return;
	printf("FAILED %s:%d: %s (%s)\n", file, line, what, strerror(errno));
	fflush(stdout);
	_exit(2);
}

void check_fails(long result, int error, const char *what, const char *file, int line)
{
	int found = errno;

	checks++;
	if (result == -1 && found == error)
		return;
	printf("FAILED %s:%d: %s: %ld, %s, not %s\n", file, line, what, result, strerror(found), strerror(error));
	fflush(stdout);
	_exit(2);
}

struct margay_reserve usual(unsigned first, unsigned count)
{
	struct margay_reserve want = {
		.version = MARGAY_VERSION, .bytes = NODE_BYTES, .pool_bytes = POOL_BYTES,
		.comm_offset = COMM_OFFSET, .comm_bytes = COMM_BYTES, .numa_node = -1, .cpu_count = count,
	};

	for (unsigned i = 0; i < count; i++)
		want.cpus[i] = first + i;
	return want;
}

static int bell(int fd, unsigned to_host, unsigned index)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct margay_bell bell = { .to_host = to_host, .index = index, .eventfd = event };

	CHECK(event >= 0 && ioctl(fd, MARGAY_BELL, &bell) == 0);
	return event;
}

struct node reserved(unsigned first, unsigned count)
{
	struct margay_reserve want = usual(first, count);
	struct node node = { .count = count };

	node.fd = open("/dev/margay", O_RDWR | O_CLOEXEC);
	CHECK(node.fd >= 0);
	CHECK(ioctl(node.fd, MARGAY_RESERVE, &want) == 0);
	CHECK(want.start && want.start % (64 * MIB) == 0);
	node.memory = ioctl(node.fd, MARGAY_MEMORY, 0);
	CHECK(node.memory >= 0);
	node.comm = mmap(NULL, COMM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, node.memory, COMM_OFFSET);
	CHECK(node.comm != MAP_FAILED);
	node.log = bell(node.fd, 1, 256);
	node.bell0 = bell(node.fd, 1, 0);
	for (unsigned i = 0; i < count; i++)
		node.ring[i] = bell(node.fd, 0, i);
	return node;
}

int rings(int eventfd)
{
	struct pollfd poll_of = { .fd = eventfd, .events = POLLIN };
	uint64_t times;

	return poll(&poll_of, 1, 5000) == 1 && read(eventfd, &times, sizeof(times)) == sizeof(times);
}

struct node started(unsigned first, unsigned count)
{
	struct node node = reserved(first, count);
	static char log[65536];
	char up[64];

	CHECK(ioctl(node.fd, MARGAY_START) == 0);
	CHECK(rings(node.log));
	ssize_t bytes = read(node.fd, log, sizeof(log) - 1);
	CHECK(bytes > 0);
	log[bytes] = 0;
	snprintf(up, sizeof(up), "up, cpus %x\n", count);
	if (strncmp(log, up, strlen(up)))
		printf("the node's log: %s\n", log);
	CHECK(strncmp(log, up, strlen(up)) == 0);
	CHECK(strstr(log, "pct 2121212121212121\n"));
	return node;
}

void order(struct node *node, uint64_t what)
{
	uint64_t one = 1;

	node->comm[NODE_ORDER] = what;
	CHECK(write(node->ring[0], &one, sizeof(one)) == sizeof(one));
}

void leave(struct node *node)
{
	CHECK(munmap((void *)node->comm, COMM_BYTES) == 0);
	close(node->memory);
	close(node->log);
	close(node->bell0);
	for (unsigned i = 0; i < node->count; i++)
		close(node->ring[i]);
	CHECK(close(node->fd) == 0);
}

void put(const char *path, const void *bytes, size_t count)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, bytes, count) == (ssize_t)count);
	close(fd);
}

int online(unsigned cpu)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, &state, 1) == 1);
	close(fd);
	return state == '1';
}

int set_online(unsigned cpu, int on)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	int done = write(fd, on ? "1" : "0", 1) == 1 ? 0 : -1, error = errno;
	close(fd);
	errno = error;
	return done;
}

static long number_in(const char *line, const char *name)
{
	line += strspn(line, " ");
	return strncmp(line, name, strlen(name)) ? 0 : atol(line + strlen(name));
}

/* What is free for all, and what each CPU has in lists of its own, which it gives back when it goes offline. */
long free_kib(void)
{
	char line[256];
	long kib = 0;

	put("/proc/sys/vm/drop_caches", "3", 1);
	FILE *all = fopen("/proc/meminfo", "re"), *lists = fopen("/proc/zoneinfo", "re");
	CHECK(all && lists);
	while (fgets(line, sizeof(line), all))
		kib += number_in(line, "MemFree:");
	while (fgets(line, sizeof(line), lists))
		kib += 4 * number_in(line, "count:");
	fclose(all);
	fclose(lists);
	return kib;
}

void load_module(void)
{
	int fd = open("/margay.ko", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && syscall(SYS_finit_module, fd, "", 0) == 0);
	close(fd);
}

int unload_module(void)
{
	return syscall(SYS_delete_module, "margay", O_NONBLOCK);
}

static const char *only;

static void part(const char *name, void (*run)(void))
{
	int before = checks;

	if (only && strcmp(only, name))
		return;
	run();
	printf("ok %s: %d checks\n", name, checks - before);
	fflush(stdout);
}

/* Leaves a node behind that runs when the machine is switched off. */
static void stay(void)
{
	int ends[2];
	char up;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	if (fork() > 0) {
		CHECK(read(ends[0], &up, 1) == 1);
		return;
	}
	started(1, 3);
	CHECK(write(ends[1], "u", 1) == 1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	only = argc > 1 ? argv[1] : NULL;
	if (getuid() != 0) {
		FAILS(EACCES, open("/dev/margay", O_RDWR));
		puts("ok refused: 1 checks");
		return 0;
	}
	if (only && strcmp(only, "stay") == 0) {
		stay();
		return 0;
	}
	part("life", check_life);
	part("mappings", check_mappings);
	part("bells", check_bells);
	part("returns", check_returns);
	part("numbers", check_numbers);
	part("files", check_files);
	part("rivals", check_rivals);
	part("power", check_power);
	part("races", check_races);
	part("kills", check_kills);
	puts("ok all");
	return 0;
}
