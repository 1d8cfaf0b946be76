/* Calls that give the kernel as much to do at once as can be asked for: large
 * and shattered mappings made, protected, moved and removed in single calls,
 * large vectors handed to Linux, signals in a row. What matters is the longest
 * section with interrupts off.
 *
 *   demanding [MIB] [PART]
 *
 * MIB is the size of the large mappings; with PART only that part is run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"
#include "demanding_threads.h"

enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, LARGE_BYTES = 2 << 20 };

static char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, READ_WRITE, ANON, -1, 0);
	must(at != MAP_FAILED, "mmap");
	return at;
}

static void dirty(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE_BYTES)
		at[i] = 1;
}

static void large(size_t bytes)
{
	char *at = map(bytes);
	dirty(at, bytes);
	must(mprotect(at, bytes, PROT_READ) == 0, "mprotect");
	must(mprotect(at, bytes, PROT_NONE) == 0, "mprotect");
	must(mprotect(at, bytes, READ_WRITE) == 0, "mprotect");
	must(madvise(at, bytes, MADV_DONTNEED) == 0, "madvise");
	dirty(at, bytes);
	/* Something in the way of growing forces a move. */
	char *wall = mmap(at + bytes, PAGE_BYTES, PROT_NONE, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	char *moved = mremap(at, bytes, bytes + bytes / 4, MREMAP_MAYMOVE);
	must(moved != MAP_FAILED, "mremap");
	must(moved[0] == 1 && moved[bytes - PAGE_BYTES] == 1, "contents after mremap");
	must(mremap(moved, bytes + bytes / 4, bytes / 2, 0) == moved, "mremap");
	must(munmap(moved, bytes / 2) == 0, "munmap");
	if (wall != MAP_FAILED)
		must(munmap(wall, PAGE_BYTES) == 0, "munmap");
	/* Recycled memory must be cleared first. */
	at = map(bytes);
	must(at[0] == 0, "recycled memory");
	must(munmap(at, bytes) == 0, "munmap");
}

/* Addresses kept free, as much as there is room for, with a page here and there. Not where addresses are limited, as on the
 * Linux of the comparison, which would let the program write to more than there is. */
static void reserved(void)
{
	const size_t bytes = 200ul << 30, step = 1ul << 30;
	struct rlimit addresses;
	must(getrlimit(RLIMIT_AS, &addresses) == 0, "getrlimit");
	if (addresses.rlim_cur < bytes)
		return;
	char *at = mmap(NULL, bytes, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	must(at != MAP_FAILED, "mmap");
	char *to = at - bytes;
	must(mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
	must(mprotect(to, bytes, READ_WRITE) == -1 && errno == ENOMEM, "mprotect of more than there is");
	for (size_t i = 0; i < bytes; i += step) {
		must(mprotect(to + i, PAGE_BYTES, READ_WRITE) == 0, "mprotect");
		to[i] = 1;
	}
	must(madvise(to, bytes, MADV_DONTNEED) == 0 && to[step] == 0, "madvise");
	must(mlock(to, bytes) == 0 && munlock(to, bytes) == 0, "mlock");
	must(mprotect(to, bytes, PROT_NONE) == 0, "mprotect");
	must(mremap(to, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at, "mremap");
	must(munmap(at, bytes) == 0, "munmap");
}

/* Many regions of one page each, then one call over all of them. */
static void shattered(size_t pages)
{
	size_t bytes = pages * PAGE_BYTES;
	char *at = map(bytes);
	dirty(at, bytes);
	for (size_t i = 0; i < pages; i += 2)
		must(mprotect(at + i * PAGE_BYTES, PAGE_BYTES, PROT_READ) == 0, "mprotect");
	must(mprotect(at, bytes, READ_WRITE) == 0, "mprotect over many regions");
	for (size_t i = 0; i < pages; i += 2)
		must(munmap(at + i * PAGE_BYTES, PAGE_BYTES) == 0, "munmap");
	char *over = mmap(at, bytes, READ_WRITE, ANON | MAP_FIXED, -1, 0);
	must(over == at, "mmap over many holes");
	for (size_t i = 0; i < pages; i += 2)
		must(mprotect(at + i * PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
	must(munmap(at, bytes) == 0, "munmap over many regions");
}

static void heap(size_t bytes)
{
	char *from = sbrk((intptr_t)bytes);
	must(from != (void *)-1, "sbrk");
	dirty(from, bytes);
	must(sbrk(-(intptr_t)bytes) != (void *)-1, "sbrk");
}

static void vectors(void)
{
	enum { COUNT = 1024 };
	static char data[COUNT][64];
	struct iovec vector[COUNT];
	int ends[2];
	must(pipe(ends) == 0, "pipe");
	for (int i = 0; i < COUNT; i++) {
		vector[i].iov_base = data[i];
		vector[i].iov_len = 32;
	}
	must(writev(ends[1], vector, COUNT) == COUNT * 32, "writev");
	must(readv(ends[0], vector, COUNT) == COUNT * 32, "readv");
	must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
}

static volatile sig_atomic_t caught;

static void count(int signo)
{
	(void)signo;
	caught++;
}

/* As many signals as may wait, of which the last is taken first. */
static void queue(void)
{
	enum { QUEUED = 256 };
	sigset_t all, before;
	must(sigfillset(&all) == 0 && sigprocmask(SIG_BLOCK, &all, &before) == 0, "sigprocmask");
	for (int i = 1; i <= QUEUED; i++)
		must(sigqueue(getpid(), SIGRTMIN + (i < QUEUED), (union sigval){ .sival_int = i }) == 0, "sigqueue");
	for (int i = 0; i < QUEUED; i++) {
		siginfo_t info;
		must(sigwaitinfo(&all, &info) == SIGRTMIN + (i > 0) && info.si_value.sival_int == (i > 0 ? i : QUEUED),
		     "sigwaitinfo");
	}
	must(sigprocmask(SIG_SETMASK, &before, NULL) == 0, "sigprocmask");
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = count };
	sigset_t all, before;
	must(sigaction(SIGRTMIN, &action, NULL) == 0, "sigaction");
	must(sigfillset(&all) == 0 && sigprocmask(SIG_BLOCK, &all, &before) == 0, "sigprocmask");
	for (int i = 0; i < 32; i++)
		must(sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i }) == 0, "sigqueue");
	must(sigprocmask(SIG_SETMASK, &before, NULL) == 0, "sigprocmask");
	must(caught == 32, "signals delivered");
}

/* Memory of the only rank, as other ranks see it. */
static void *in_window(void *at)
{
	return (void *)((uintptr_t)at | 1L << 39);
}

static void *own(void *at)
{
	return at;
}

/* As many messages and vectors as one call takes; the kernel looks at each. What lies in a window, or seems to, it copies. */
static void messages(void *(*seen_at)(void *))
{
	enum { MESSAGES = 1024, VECTORS = 62 };
	static struct iovec vectors[MESSAGES][VECTORS];
	static struct mmsghdr all[MESSAGES];
	static char data[VECTORS][64];
	int ends[2];
	must(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
	for (int i = 0; i < MESSAGES; i++) {
		for (int j = 0; j < VECTORS; j++)
			vectors[i][j] = (struct iovec){ seen_at(data[j]), sizeof data[j] };
		all[i].msg_hdr = (struct msghdr){ .msg_iov = vectors[i], .msg_iovlen = VECTORS };
	}
	must(recvmmsg(ends[0], all, MESSAGES, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN,
	     "recvmmsg of nothing");
	must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
}

/* Messages and vectors in windows, one vector too long for all that one call bounces, and the longest arguments of clone3. */
static void bounced(void)
{
	enum { VECTORS = 1024, LONGEST = 4096, MUCH = 8 << 20 };
	static struct iovec vectors[VECTORS];
	static unsigned char arguments[LONGEST];
	char *much = map(MUCH);
	int ends[2];
	messages(in_window);
	for (int i = 0; i < VECTORS; i++)
		vectors[i] = (struct iovec){ in_window(much), i == 0 ? MUCH : 1 };
	must(pipe(ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "pipe");
	must(readv(ends[0], vectors, VECTORS) == -1 && errno == EAGAIN, "readv of nothing");
	must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
	arguments[LONGEST - 1] = 1;
	must(syscall(SYS_clone3, arguments, LONGEST) == -1 && errno == E2BIG, "clone3 of too much");
	must(munmap(much, MUCH) == 0, "munmap");
}

/* Small pages: of each large one a part was protected for a moment. */
static void untouched(size_t bytes)
{
	char *at = map(bytes);
	for (size_t i = 0; i < bytes; i += LARGE_BYTES) {
		must(mprotect(at + i, PAGE_BYTES, PROT_READ) == 0, "mprotect");
		must(mprotect(at + i, PAGE_BYTES, READ_WRITE) == 0, "mprotect");
	}
	must(madvise(at, bytes, MADV_DONTNEED) == 0, "madvise of untouched pages");
	must(munmap(at, bytes) == 0, "munmap");
}

/* One call over nearly as many regions as there may be (8,192, of which the program itself has some), and a new one before all. */
static void regions(size_t pages)
{
	size_t bytes = pages * PAGE_BYTES, before = LARGE_BYTES;
	unsigned char *there = (unsigned char *)map(pages);
	char *low = map(before + bytes), *at = low + before;
	for (size_t i = 0; i < pages; i += 2)
		must(mprotect(at + i * PAGE_BYTES, PAGE_BYTES, PROT_READ) == 0, "mprotect");
	must(mlock(at, bytes) == 0, "mlock over many regions");
	must(munlock(at, bytes) == 0, "munlock over many regions");
	must(msync(at, bytes, MS_SYNC) == 0, "msync over many regions");
	must(mincore(at, bytes, there) == 0, "mincore over many regions");
	must(madvise(at, bytes, MADV_WILLNEED) == 0, "madvise over many regions");
	must(munmap(low, before) == 0, "munmap before many regions");
	must(mmap(low, PAGE_BYTES, PROT_READ, ANON | MAP_FIXED, -1, 0) == low,
	     "mmap before many regions");
	must(munmap(low, PAGE_BYTES) == 0, "munmap before many regions");
	must(munmap(at, bytes) == 0, "munmap of many regions");
	must(munmap(there, pages) == 0, "munmap");
}

/* As many pieces of shared memory as the node keeps account of, all let go of and, when there is no place for more, used again. */
static void objects(void)
{
	enum { FILES = 500 };
	static char *at[FILES];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FILES; i++) {
			at[i] = mmap(NULL, PAGE_BYTES, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			must(at[i] != MAP_FAILED, "mmap of shared memory");
			at[i][0] = 1;
		}
		for (int i = 0; i < FILES; i++)
			must(munmap(at[i], PAGE_BYTES) == 0, "munmap");
	}
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)number(argc, argv, 1, 256) << 20;
	const char *part = argc > 2 ? argv[2] : "", *done[32];
	size_t parts = 0;

#define PART(name, call)                                     \
	if (*part == '\0' || strcmp(part, name) == 0) {      \
		call;                                        \
		done[parts++] = name;                        \
	}
	PART("large", large(bytes))
	PART("odd", large(bytes + 3 * PAGE_BYTES))
	PART("shattered", shattered(4000))
	PART("heap", heap(bytes / 2))
	PART("vectors", vectors())
	PART("signals", signals())
	PART("queue", queue())
	PART("messages", messages(own))
	PART("bounced", bounced())
	PART("untouched", untouched(bytes * 2))
	PART("regions", regions(8170))
	PART("reserved", reserved())
	PART("objects", objects())
	PART("timers", timers())
	PART("instant", instant())
	PART("contended", contended())
	PART("crowd", crowd())
	check(parts > 0, "there is no such part");
	/* What is measured ends with the first result. */
	for (size_t i = 0; i < parts; i++)
		report(done[i], 1);
	return 0;
}
