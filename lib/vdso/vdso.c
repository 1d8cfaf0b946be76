/*
 * The vDSO: time and place without a kernel entry.
 *
 * GROMACS asks for the time 260,000 times in 1.5 s, so these calls must not enter the kernel. The code is mapped into
 * every rank right above the clock page, which one writer refreshes under a seqlock. Symbols, their version and the
 * meaning of arguments are Linux's (Documentation/ABI/stable/vdso, arch/x86/entry/vdso), so that unmodified C
 * libraries find them. What the page cannot answer is left to the system call.
 *
 * It is C because rustc makes no shared object for the bare target. It must need no relocation: nothing here may have
 * a data section, a GOT entry or a call out.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "clock_page.h"

#define NS_PER_S 1000000000u
/* Reads that may meet a writer before the kernel is asked instead: a writer that died must not hang a program. */
#define MAX_TRIES 1000

/* One page below the image; see vdso.lds. Volatile: another process or core writes it. */
extern const volatile struct clock_page clock_page __attribute__((visibility("hidden")));

static inline uint64_t load_acquire(const volatile uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* RDTSC after all earlier loads (Intel SDM vol. 2B, RDTSC; AMD APM vol. 3, RDTSC: LFENCE is dispatch serialising). */
static inline uint64_t rdtsc_ordered(void)
{
	uint32_t low, high;
	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static inline long system_call_2(long nr, long a, long b)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return ret;
}

enum base { MONOTONIC, REALTIME };

/* ns since boot or since the epoch; 0 when the page does not say. */
static inline uint64_t now_ns(enum base base)
{
	const volatile struct clock_page *page = &clock_page;
	for (int tries = 0; tries < MAX_TRIES; tries++) {
		uint64_t seq = load_acquire(&page->seq);
		if (seq == 0)
			return 0;
		if (seq & 1) {
			__builtin_ia32_pause();
			continue;
		}
		uint64_t tsc = rdtsc_ordered();
		uint64_t tsc_base = load_acquire(&page->tsc_base);
		uint64_t base_ns = load_acquire(base == REALTIME ? &page->real_ns : &page->mono_ns);
		uint64_t mult = load_acquire(&page->mult);
		uint64_t shift = load_acquire(&page->shift) & 63;
		if (load_acquire(&page->seq) != seq)
			continue;
		/* A core whose TSC is a little behind the writer's must not go back before the base. */
		uint64_t ticks = tsc > tsc_base ? tsc - tsc_base : 0;
		return base_ns + (uint64_t)((unsigned __int128)ticks * mult >> shift);
	}
	return 0;
}

/*
 * Which of the page's two clocks answers for a clock. The coarse clocks are as fine as the others. A node does not
 * suspend, so BOOTTIME is MONOTONIC; its rate is not slewed apart from the host's, so RAW is too; TAI is REALTIME, as
 * on a Linux that nobody told the offset.
 */
static inline int base_of(clockid_t clock, enum base *base)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		*base = REALTIME;
		return 1;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_BOOTTIME:
		*base = MONOTONIC;
		return 1;
	default: /* CPU time clocks, alarms, clocks of devices */
		return 0;
	}
}

int __vdso_clock_gettime(clockid_t clock, struct timespec *ts)
{
	enum base base;
	uint64_t ns;
	if (!base_of(clock, &base) || (ns = now_ns(base)) == 0)
		return (int)system_call_2(SYS_clock_gettime, clock, (long)ts);
	ts->tv_sec = (time_t)(ns / NS_PER_S);
	ts->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}

int __vdso_clock_getres(clockid_t clock, struct timespec *res)
{
	enum base base;
	/* How coarse a clock is the kernel says: below a rank's children it is Linux, which has a tick. */
	if (clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE || !base_of(clock, &base))
		return (int)system_call_2(SYS_clock_getres, clock, (long)res);
	if (res) {
		res->tv_sec = 0;
		res->tv_nsec = 1;
	}
	return 0;
}

int __vdso_gettimeofday(struct timeval *tv, struct timezone *tz)
{
	if (tv) {
		uint64_t ns = now_ns(REALTIME);
		if (ns == 0)
			return (int)system_call_2(SYS_gettimeofday, (long)tv, (long)tz);
		tv->tv_sec = (time_t)(ns / NS_PER_S);
		tv->tv_usec = (suseconds_t)(ns % NS_PER_S / 1000);
	}
	if (tz) {
		tz->tz_minuteswest = 0;
		tz->tz_dsttime = 0;
	}
	return 0;
}

time_t __vdso_time(time_t *out)
{
	uint64_t ns = now_ns(REALTIME);
	if (ns == 0)
		return (time_t)system_call_2(SYS_time, (long)out, 0);
	time_t seconds = (time_t)(ns / NS_PER_S);
	if (out)
		*out = seconds;
	return seconds;
}

/* The QK keeps the core's number in TSC_AUX as Linux does: CPU in bits 0..11, NUMA node above. */
long __vdso_getcpu(unsigned *cpu, unsigned *node, void *unused)
{
	unsigned aux;
	(void)unused;
	__builtin_ia32_rdtscp(&aux);
	if (cpu)
		*cpu = aux & 0xfff;
	if (node)
		*node = aux >> 12;
	return 0;
}

/* The names without prefix, which Linux exports too. */
#define ALSO(name) __attribute__((weak, alias("__vdso_" #name)))
int clock_gettime(clockid_t clock, struct timespec *ts) ALSO(clock_gettime);
int clock_getres(clockid_t clock, struct timespec *res) ALSO(clock_getres);
int gettimeofday(struct timeval *restrict tv, void *restrict tz) ALSO(gettimeofday);
time_t time(time_t *out) ALSO(time);
long getcpu(unsigned *cpu, unsigned *node, void *unused) ALSO(getcpu);
