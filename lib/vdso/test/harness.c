/*
 * Calls the vDSO on the host, with a clock page of the tester's choosing.
 *
 *   harness vdso.so clock.page
 *
 * Maps the page right below the image, as a rank has them, finds the symbols as a C library does (DT_HASH, version
 * LINUX_2.6), and prints one line per call for the tester to judge:
 *
 *   clock ID BEFORE SECONDS NANOSECONDS AFTER      BEFORE and AFTER: the TSC around the call
 *
 * What needs no numbers is checked here. Exit status 0 when all of it held.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "../clock_page.h"

#define PAGE 4096

#define CHECK(what) do { if (!(what)) { \
	fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what); exit(1); } } while (0)

static char *image;

/* The file, mapped privately at an address. */
static void map_file(const char *path, char *at, int prot)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= PAGE);
	CHECK(mmap(at, PAGE, prot, MAP_PRIVATE | MAP_FIXED, fd, 0) == at);
	close(fd);
}

static void *symbol(const char *name)
{
	Elf64_Ehdr *header = (Elf64_Ehdr *)image;
	Elf64_Phdr *ph = (Elf64_Phdr *)(image + header->e_phoff);
	Elf64_Dyn *dynamic = NULL;
	for (int i = 0; i < header->e_phnum; i++)
		if (ph[i].p_type == PT_DYNAMIC)
			dynamic = (Elf64_Dyn *)(image + ph[i].p_vaddr);
	CHECK(dynamic);
	Elf64_Sym *symbols = NULL;
	char *strings = NULL;
	uint32_t *hash = NULL;
	uint16_t *versions = NULL;
	Elf64_Verdef *definitions = NULL;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		char *at = image + dynamic->d_un.d_ptr;
		switch (dynamic->d_tag) {
		case DT_SYMTAB: symbols = (Elf64_Sym *)at; break;
		case DT_STRTAB: strings = at; break;
		case DT_HASH: hash = (uint32_t *)at; break;
		case DT_VERSYM: versions = (uint16_t *)at; break;
		case DT_VERDEF: definitions = (Elf64_Verdef *)at; break;
		}
	}
	CHECK(symbols && strings && hash && versions && definitions);
	for (uint32_t i = 0; i < hash[1]; i++) {
		if (strcmp(strings + symbols[i].st_name, name) != 0 || symbols[i].st_shndx == SHN_UNDEF)
			continue;
		Elf64_Verdef *def = definitions;
		while ((def->vd_ndx & 0x7fff) != (versions[i] & 0x7fff)) {
			CHECK(def->vd_next);
			def = (Elf64_Verdef *)((char *)def + def->vd_next);
		}
		Elf64_Verdaux *aux = (Elf64_Verdaux *)((char *)def + def->vd_aux);
		CHECK(strcmp(strings + aux->vda_name, "LINUX_2.6") == 0);
		return image + symbols[i].st_value;
	}
	fprintf(stderr, "no symbol %s\n", name);
	exit(1);
}

typedef int (*clock_fn)(clockid_t, struct timespec *);
typedef int (*timeofday_fn)(struct timeval *, struct timezone *);
typedef time_t (*time_fn)(time_t *);
typedef long (*getcpu_fn)(unsigned *, unsigned *, void *);

static int64_t ns_of(struct timespec ts)
{
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* What the page cannot answer comes from the kernel: here from the host's. */
static void check_fallback(clock_fn gettime, timeofday_fn timeofday, time_fn seconds)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	struct timespec mine, host;
	for (int i = 0; i < 2; i++) {
		CHECK(gettime(clocks[i], &mine) == 0 && clock_gettime(clocks[i], &host) == 0);
		CHECK(llabs(ns_of(host) - ns_of(mine)) < 1000000000LL);
	}
	struct timeval tv;
	CHECK(timeofday(&tv, NULL) == 0 && llabs(tv.tv_sec - time(NULL)) <= 1);
	CHECK(llabs(seconds(NULL) - time(NULL)) <= 1);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	char *area = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED);
	image = area + PAGE;
	map_file(argv[2], area, PROT_READ | PROT_WRITE);
	map_file(argv[1], image, PROT_READ | PROT_EXEC);
	volatile struct clock_page *page = (struct clock_page *)area;

	clock_fn gettime = (clock_fn)symbol("__vdso_clock_gettime");
	clock_fn getres = (clock_fn)symbol("__vdso_clock_getres");
	timeofday_fn timeofday = (timeofday_fn)symbol("__vdso_gettimeofday");
	time_fn seconds = (time_fn)symbol("__vdso_time");
	getcpu_fn getcpu_ = (getcpu_fn)symbol("__vdso_getcpu");
	CHECK(symbol("clock_gettime") == (void *)gettime && symbol("getcpu") == (void *)getcpu_);

	static const clockid_t served[] = { CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI, CLOCK_MONOTONIC,
		CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME };
	struct timespec ts;
	for (unsigned i = 0; i < sizeof served / sizeof *served; i++) {
		uint64_t before = __rdtsc();
		CHECK(gettime(served[i], &ts) == 0);
		_mm_lfence();
		uint64_t after = __rdtsc();
		CHECK(ts.tv_nsec >= 0 && ts.tv_nsec < 1000000000);
		printf("clock %d %lu %ld %ld %lu\n", served[i], before, ts.tv_sec, ts.tv_nsec, after);
		/* A coarse clock is as coarse as the kernel below says, which is Linux here. */
		struct timespec coarse = { 0, 1 };
		if (served[i] == CLOCK_REALTIME_COARSE || served[i] == CLOCK_MONOTONIC_COARSE)
			CHECK(syscall(SYS_clock_getres, served[i], &coarse) == 0);
		CHECK(getres(served[i], &ts) == 0 && ts.tv_sec == 0 && ts.tv_nsec == coarse.tv_nsec);
		CHECK(getres(served[i], NULL) == 0);
	}

	struct timeval tv;
	struct timezone tz = { 5, 5 };
	CHECK(gettime(CLOCK_REALTIME, &ts) == 0 && timeofday(&tv, &tz) == 0 && timeofday(NULL, NULL) == 0);
	CHECK(tz.tz_minuteswest == 0 && tz.tz_dsttime == 0 && tv.tv_usec >= 0 && tv.tv_usec < 1000000);
	CHECK(tv.tv_sec - ts.tv_sec <= 1 && (tv.tv_sec > ts.tv_sec || tv.tv_usec >= ts.tv_nsec / 1000));
	time_t stored, now = seconds(&stored);
	CHECK(now == stored && now - tv.tv_sec <= 1 && now >= tv.tv_sec);

	unsigned cpu, node, aux;
	CHECK(getcpu_(&cpu, &node, NULL) == 0 && getcpu_(NULL, NULL, NULL) == 0);
	__rdtscp(&aux); /* the host may have moved us in between; the fields' widths still hold */
	CHECK(cpu < 4096 && node == aux >> 12);

	/* Clocks the page does not have, and clocks nobody has. */
	CHECK(gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0 && ts.tv_sec < 60);
	CHECK(gettime(1234, &ts) == -22 && getres(1234, &ts) == -22); /* -EINVAL */

	page->seq |= 1; /* a writer died within its update */
	check_fallback(gettime, timeofday, seconds);
	page->seq = 0; /* no writer yet */
	check_fallback(gettime, timeofday, seconds);
	return 0;
}
