/* One of two ranks computes, the other keeps the system busy: whether the quiet
 * one notices.
 *
 *   neighbours [SECONDS] [BUSY-SECONDS] [QUIET]
 *
 * Rank QUIET (0) waits for the other to begin, then looks for detours for about
 * SECONDS (2) and makes no system call meanwhile. The other maps, touches and
 * unmaps memory, grows and shrinks the heap, writes, reads and removes files,
 * sleeps, and gets signals by timer and from itself, for BUSY-SECONDS (1); then it
 * ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "detours.h"
#include "ranks.h"

static volatile sig_atomic_t signals;

static void count_signal(int signo)
{
	(void)signo;
	signals++;
}

/* The handlers come after the output: once the kernel has counted their calls, the core is done with the host. */
static void begin(const char *what)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	report(what, (double)getpid());
	must(fflush(stdout) == 0, "stdout");
	must(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
}

/* Opening a FIFO waits for the other side. */
static void meet(int flags)
{
	static const char name[] = "neighbours.fifo";
	must(mkfifo(name, 0600) == 0 || errno == EEXIST, name);
	int fd = open(name, flags);
	must(fd >= 0 && close(fd) == 0, name);
	if (flags == O_RDONLY)
		must(unlink(name) == 0, name);
}

static void look(double length)
{
	enum { KEPT = 10000, SAMPLE = 1000000 };
	struct detours all = { .at = room_for(KEPT), .ticks = room_for(KEPT), .room = KEPT };

	meet(O_RDONLY);
	begin("quiet_pid");
	struct turn turn = calibrate_detours(&all, 900);
	struct detours none = { .threshold = UINT64_MAX };
	double start = seconds();
	look_for_detours(&none, SAMPLE);
	double turns = SAMPLE * length / (seconds() - start);
	double ticks = (double)look_for_detours(&all, (uint64_t)turns);
	report_detours(&all, turn, (double)(uint64_t)turns, ticks);
}

static void memory(void)
{
	enum { BYTES = 1 << 20 };
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(at != MAP_FAILED, "mmap");
	for (size_t i = 0; i < BYTES; i += PAGE_BYTES)
		at[i] = 1;
	must(mprotect(at, PAGE_BYTES, PROT_READ) == 0, "mprotect");
	must(munmap(at, BYTES) == 0, "munmap");
	must(sbrk(BYTES) != (void *)-1 && sbrk(-BYTES) != (void *)-1, "sbrk");
}

static void files(unsigned rank)
{
	char name[32], out[4096], in[sizeof out];
	snprintf(name, sizeof name, "neighbour.%u", rank);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0, name);
	memset(out, 'n', sizeof out);
	must(write(fd, out, sizeof out) == sizeof out && lseek(fd, 0, SEEK_SET) == 0, "write");
	must(read(fd, in, sizeof in) == sizeof in && memcmp(in, out, sizeof in) == 0, "read");
	must(close(fd) == 0 && unlink(name) == 0, name);
}

static void keep_busy(unsigned rank, double length)
{
	struct itimerval every_10_ms = { { 0, 10000 }, { 0, 10000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct timespec moment = { 0, 100000 };
	double rounds = 0, start = seconds();

	meet(O_WRONLY);
	begin("busy_pid");
	must(setitimer(ITIMER_REAL, &every_10_ms, NULL) == 0, "setitimer");
	while (seconds() - start < length) {
		memory();
		files(rank);
		/* Signals may end it. */
		(void)nanosleep(&moment, NULL);
		must(kill(getpid(), SIGUSR1) == 0, "kill");
		rounds++;
	}
	must(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
	check(signals >= rounds, "signals were lost");
	report("rounds", rounds);
	report("signals", (double)signals);
}

int main(int argc, char **argv)
{
	double length = argc > 1 ? atof(argv[1]) : 2, busy = argc > 2 ? atof(argv[2]) : 1;
	unsigned rank = own_rank();

	if (rank == number(argc, argv, 3, 0))
		look(length);
	else
		keep_busy(rank, busy);
	return 0;
}
