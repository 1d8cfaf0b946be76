/* What copies from another rank's memory cost between buffers that both ranks
 * have allocated alike, over those between buffers that lie elsewhere: 1 where
 * it makes no difference.
 *
 *   same [ROUNDS]
 *
 * Two ranks of Margay; rank 1 copies 64 KiB of rank 0's, by its window, by
 * process_vm_readv, and by an attachment of XPMEM. Least of the rounds, whose
 * two kinds take turns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ranks.h"

enum { BYTES = 64 << 10, ROOM = 1 << 20, ELSEWHERE = 71 * PAGE_BYTES };
/* Of /dev/xpmem (github.com/hpc/xpmem, include/xpmem_internal.h). */
enum { MAKE = 0x7801, GET = 0x7803, ATTACH = 0x7805, BY_MODE = 1, READ_WRITE = 2 };

static struct {
	pid_t pid;
	char *memory;
	int64_t segment;
	atomic_int ready, done;
} own;
/* Rank 0's, in its window. */
#define THEIRS ((__typeof__(own) *)of_rank(0, &own))

static int xpmem(void)
{
	int device = open("/dev/xpmem", O_RDWR);

	must(device >= 0, "/dev/xpmem");
	return device;
}

static int64_t offer(char *memory)
{
	struct { uint64_t start, bytes; int kind; uint64_t mode; int64_t segment; } info = { (uintptr_t)memory, ROOM, BY_MODE, 0600, 0 };

	must(ioctl(xpmem(), MAKE, &info) == 0, "a segment of XPMEM");
	return info.segment;
}

static char *attached(int64_t segment)
{
	int device = xpmem();
	struct { int64_t segment; int flags, kind; uint64_t value; int64_t permit; } get = { segment, READ_WRITE, BY_MODE, 0, 0 };
	must(ioctl(device, GET, &get) == 0, "a permit of XPMEM");
	struct { int64_t permit, offset; uint64_t bytes, at; int fd, flags; } attach = { get.permit, 0, ROOM, 0, device, 0 };
	must(ioctl(device, ATTACH, &attach) == 0, "an attachment of XPMEM");
	return (char *)(uintptr_t)attach.at;
}

static char *source;

static void by_memcpy(char *to)
{
	/* Volatile: each round copies. */
	memcpy(to, *(char *volatile *)&source, BYTES);
}

static void by_process_vm(char *to)
{
	struct iovec local = { to, BYTES }, remote = { source, BYTES };

	must(process_vm_readv(THEIRS->pid, &local, 1, &remote, 1, 0) == BYTES, "process_vm_readv");
}

static double copied(void (*copy)(char *), char *to, double least)
{
	uint64_t start = tsc();

	copy(to);
	double ticks = (double)(tsc() - start);
	return ticks < least ? ticks : least;
}

static void compare(const char *name, void (*copy)(char *), char *from, size_t rounds)
{
	double same = 1e300, elsewhere = 1e300;

	source = from;
	for (size_t i = 0; i < rounds; i++) {
		same = copied(copy, own.memory, same);
		elsewhere = copied(copy, own.memory + ELSEWHERE, elsewhere);
	}
	report(name, same / elsewhere);
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 1, 400);
	unsigned rank = own_rank();

	own.pid = getpid();
	own.memory = aligned_alloc(PAGE_BYTES, ROOM);
	must(own.memory != NULL, "aligned_alloc");
	memset(own.memory, (int)rank, ROOM);
	if (rank == 0) {
		own.segment = offer(own.memory);
		atomic_store(&own.ready, 1);
		while (!atomic_load(&own.done))
			;
		return 0;
	}
	/* Before it lives, its window shows nothing. */
	while (!(living() & 1) || !atomic_load(&THEIRS->ready))
		;
	compare("window", by_memcpy, of_rank(0, THEIRS->memory), rounds);
	compare("process_vm", by_process_vm, THEIRS->memory, rounds);
	compare("xpmem", by_memcpy, attached(THEIRS->segment), rounds);
	atomic_store(&THEIRS->done, 1);
	return 0;
}
