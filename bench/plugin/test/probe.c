/* Regions whose counts are known beforehand, for bench/tests/plugin.rs.
 *
 *   probe [ROUNDS]
 *
 * In this order: a loop of two instructions, ROUNDS times (without an argument,
 * a number of each process's own, which it prints); a load from each page of
 * 64 MiB, which makes four instructions; the same again; as many loads from one
 * line; one system call; a load from each of some pages of a file;
 * a loop of three instructions that pauses, ROUNDS times.
 * The memory is not touched before: it is there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../mark.h"

enum { PAGE_BYTES = 4096, WALKED = 64 << 20, FILE_PAGES = 16 };

/* The marks as part of what they enclose: a compiler may otherwise put
 * instructions of its own between the two. */
#define MARKED(code)                                \
	"nopl %c[begin](%%rax,%%rax,1)\n\t" code  \
	"\n\tnopl %c[end](%%rax,%%rax,1)"
#define MARKS [begin] "i"(MARK_BEGIN), [end] "i"(MARK_END)

static void loop(unsigned long rounds)
{
	__asm__ volatile(MARKED("1: dec %[rounds]\n\t"
				"jnz 1b")
			 : [rounds] "+r"(rounds)
			 : MARKS
			 : "cc");
}

/* As a program waits for another. */
static void wait(unsigned long rounds)
{
	__asm__ volatile(MARKED("1: pause\n\t"
				"dec %[rounds]\n\t"
				"jnz 1b")
			 : [rounds] "+r"(rounds)
			 : MARKS
			 : "cc");
}

/* So many loads, one every `stride` bytes. */
static void walk(const char *at, long stride, long left)
{
	__asm__ volatile(MARKED("1: movb (%[at]), %%al\n\t"
				"add %[stride], %[at]\n\t"
				"dec %[left]\n\t"
				"jnz 1b")
			 : [at] "+r"(at), [left] "+r"(left)
			 : [stride] "r"(stride), MARKS
			 : "rax", "cc", "memory");
}

static void call(void)
{
	__asm__ volatile(MARKED("mov $39, %%eax\n\t" /* getpid */
				"syscall")
			 :
			 : MARKS
			 : "rax", "rcx", "r11", "memory");
}

/* The host's last word about the start may come when the program is on its way:
 * an interrupt that belongs to no region. */
static void settle(void)
{
	for (volatile long i = 0; i < 3000000; i++)
		;
}

int main(int argc, char **argv)
{
	unsigned long rounds = 1000 + (unsigned long)getpid() % 1000;
	char *pages = mmap(NULL, WALKED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *file = mmap(NULL, FILE_PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE, open("/bin/sh", O_RDONLY), 0);

	if (pages == MAP_FAILED || file == MAP_FAILED)
		return 1;
	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 0);
	settle();
	loop(rounds);
	walk(pages, PAGE_BYTES, WALKED / PAGE_BYTES);
	walk(pages, PAGE_BYTES, WALKED / PAGE_BYTES);
	walk(pages, 0, WALKED / PAGE_BYTES);
	call();
	walk(file, PAGE_BYTES, FILE_PAGES);
	wait(rounds);
	printf("%lu\n", rounds);
	return 0;
}
