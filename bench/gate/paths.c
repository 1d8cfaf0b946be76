/* Paths through the kernel, one by one: the instructions of calls, from
 * `syscall` to the next instruction, both ends included once.
 *
 *   paths FILE
 *
 * What a call costs in the kernel depends a little on what else is mapped and
 * where. So there is no C library in this program, which would be larger or
 * smaller elsewhere, and what is measured is written in assembler. Each figure
 * is the least of many: waiting for the host can only make one longer. FILE is
 * for lseek and readv, which Linux answers.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "calls.h"
#include "threads.h"

enum {
	MIB = 1 << 20,
	TOUCHED = 16 * MIB,
	/* The least that is text for the kernel. */
	TEXT_BYTES = 64 << 10,
	/* Of each size, what is touched fresh takes as much as this. */
	FRESH_ROUNDS = 3,
};

/* Of a touched byte per page. */
static uint64_t ticks_of_touching(long at, size_t bytes)
{
	uint64_t start = tsc();
	long end = at + (long)bytes;

	__asm__ volatile("1: movb $1, (%[at])\n\t"
			 "add %[page], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b"
			 : [at] "+r"(at)
			 : [page] "i"(PAGE_BYTES), [end] "r"(end)
			 : "memory", "cc");
	return tsc() - start;
}

/* The address at which rank 0, the only one, sees its own memory as others see it. */
static long in_window(long at)
{
	return at | 1L << 39;
}

static long own(long at)
{
	return at;
}

struct vector {
	long at, bytes;
};

/* On this rank: the way is the same for every rank. */
static void process_vm(const char *name, size_t bytes)
{
	long from = result_of(map(bytes)), to = result_of(map(bytes));
	struct vector remote = { from, (long)bytes }, local = { to, (long)bytes };

	alone(name, CALL(process_vm_readv, result_of(CALL(getpid)), (long)&local, 1, (long)&remote, 1));
	must(result_of(unmap(from, bytes)) == 0 && result_of(unmap(to, bytes)) == 0, "munmap");
}

/* Memory that was stored to, at the owner's address or through a window: giving it back, and getting other memory at the
 * same address. */
static void stored_to(const char *name, const char *back_name, long (*seen_at)(long))
{
	uint64_t least = UINT64_MAX, back_least = UINT64_MAX;
	struct call call = map(PAGE_BYTES);

	for (int i = 0; i < ROUNDS; i++) {
		long at, result;
		keep_least(&least, ticks_of(&call, &at));
		must(!is_error(at), "mmap");
		*(volatile char *)seen_at(at) = 1;
		struct call back = unmap(at, PAGE_BYTES);
		keep_least(&back_least, ticks_of(&back, &result));
		must(result == 0, "munmap");
	}
	report(name, least);
	report(back_name, back_least);
}

/* The requests of /dev/xpmem (abi/src/syscall/request/xpmem.rs). */
enum { XPMEM_MAKE = 0x7801, XPMEM_GET = 0x7803, XPMEM_ATTACH = 0x7805, XPMEM_DETACH };

/* This rank's own memory, by its window on itself: the way is the same for every rank. */
static void xpmem(void)
{
	long device = result_of(CALL(open, (long)"/dev/xpmem", O_RDWR));
	long make[] = { 0, -1, 1, 0600, 0 };
	must(result_of(CALL(ioctl, device, XPMEM_MAKE, (long)make)) == 0, "XPMEM_MAKE");
	long get[] = { make[4], 1L << 32 | 2, 0, 0 };
	must(result_of(CALL(ioctl, device, XPMEM_GET, (long)get)) == 0, "XPMEM_GET");
	long page[] = { get[3], 0, PAGE_BYTES, 0, 0 }, most[] = { get[3], 0, 1L << 38, 0, 0 };

	alone("xpmem_attach_4K", CALL(ioctl, device, XPMEM_ATTACH, (long)page));
	alone("xpmem_attach_256G", CALL(ioctl, device, XPMEM_ATTACH, (long)most));
	alone("xpmem_detach", CALL(ioctl, device, XPMEM_DETACH, (long)&most[3]));
}

static void mappings(void)
{
	pair("mmap_4K", map(PAGE_BYTES), "munmap_4K", unmap(0, PAGE_BYTES));
	pair("mmap_1M", map(MIB), "munmap_1M", unmap(0, MIB));

	long page = result_of(map(PAGE_BYTES)), end = result_of(CALL(brk)) & -PAGE_BYTES;
	pair("mprotect_read", CALL(mprotect, page, PAGE_BYTES, PROT_READ), "mprotect_read_write",
	     CALL(mprotect, page, PAGE_BYTES, READ_WRITE));
	pair("brk_grow_64K", CALL(brk, end + PAGE_BYTES + (64 << 10)), "brk_shrink_64K",
	     CALL(brk, end + PAGE_BYTES));
	stored_to("mmap_4K_used", "munmap_4K_used", own);
	stored_to("mmap_4K_by_window", "munmap_4K_by_window", in_window);
	process_vm("process_vm_4K", PAGE_BYTES);
	process_vm("process_vm_64K", 64 << 10);
	process_vm("process_vm_1M", MIB);
	xpmem();
}

/* Moving addresses that are kept free: there are no pages, and they are not looked for one by one. */
static void mremap_reserved(void)
{
	const long bytes = 200L << 30;
	struct call reserve = { SYS_mmap, { 0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } };
	long at = result_of(reserve), got;
	uint64_t least = UINT64_MAX;

	must(!is_error(at) && at > bytes, "reserving");
	for (int i = 0; i < ROUNDS; i++) {
		long to = i % 2 ? at + bytes : at - bytes;
		struct call move = CALL(mremap, at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		keep_least(&least, ticks_of(&move, &got));
		must(got == to, "mremap");
		at = to;
	}
	report("mremap_200G_reserved", least);
	must(result_of(unmap(at, (size_t)bytes)) == 0, "munmap");
}

/* Among a thousand regions of a page each: those around a new one are looked for, and moved. */
static void mappings_among_many(void)
{
	enum { REGIONS = 1000, ALL_BYTES = REGIONS * PAGE_BYTES };
	long all = result_of(map(ALL_BYTES));

	must(!is_error(all), "mmap");
	for (long at = all; at < all + ALL_BYTES; at += 2 * PAGE_BYTES)
		must(result_of(CALL(mprotect, at, PAGE_BYTES, PROT_READ)) == 0, "mprotect");
	pair("mmap_4K_among_1000", map(PAGE_BYTES), "munmap_4K_among_1000", unmap(0, PAGE_BYTES));
	must(result_of(unmap(all, ALL_BYTES)) == 0, "munmap");
}

/* In a program that maps text from the node pool, as every dynamically linked one does: of what changes, text is taken out first. */
static void beside_text(void)
{
	long fd = result_of(CALL(open, (long)"/bin/sh", O_RDONLY));
	must(!is_error(fd), "opening /bin/sh");
	struct call of_file = { SYS_mmap, { 0, TEXT_BYTES, PROT_READ, MAP_PRIVATE, fd } };
	must(!is_error(result_of(of_file)), "mmap of /bin/sh");
	long page = result_of(map(PAGE_BYTES));

	pair("mmap_4K_beside_text", map(PAGE_BYTES), "munmap_4K_beside_text", unmap(0, PAGE_BYTES));
	pair("mprotect_read_beside_text", CALL(mprotect, page, PAGE_BYTES, PROT_READ),
	     "mprotect_read_write_beside_text", CALL(mprotect, page, PAGE_BYTES, READ_WRITE));
}

/* As <asm/signal.h> has it: what the kernel is given, not what the library is. */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

enum { RESTORER = 0x04000000 };

void empty_handler(int signo);
void return_from_signal(void);
__asm__("empty_handler: ret\n"
	"return_from_signal: mov $15, %eax\n\t" /* rt_sigreturn */
	"syscall");

static void signals(void)
{
	struct kernel_sigaction action = { empty_handler, RESTORER, return_from_signal, 0 };

	must(result_of(CALL(rt_sigaction, SIGUSR1, (long)&action, 0, sizeof action.mask)) == 0,
	     "rt_sigaction");
	alone("kill_self_with_handler", CALL(kill, result_of(CALL(getpid)), SIGUSR1));
}

/* Getting memory and touching all of it. */
static uint64_t ticks_of_getting(size_t bytes, long *at)
{
	struct call call = map(bytes);
	uint64_t ticks = ticks_of(&call, at);

	return is_error(*at) ? 0 : ticks + ticks_of_touching(*at, bytes);
}

/* Small sizes have their own cost: that of the call, and of pages of 4 KiB. */
static const struct {
	size_t bytes;
	const char *fresh, *recycled;
} sizes[] = {
	{ PAGE_BYTES, "touch_fresh_4K", "touch_recycled_4K" },
	{ 64 << 10, "touch_fresh_64K", "touch_recycled_64K" },
	{ MIB, "touch_fresh_1M", "touch_recycled_1M" },
	{ 2 * MIB, "touch_fresh_2M", "touch_recycled_2M" },
	{ TOUCHED, "touch_fresh_16M", "touch_recycled_16M" },
};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Memory that was not used since the machine handed it over: none is given back. */
static void touch_fresh(void)
{
	for (int size = 0; size < SIZES; size++) {
		uint64_t least = UINT64_MAX;
		long at;

		for (int i = 0; i < FRESH_ROUNDS; i++) {
			keep_least(&least, ticks_of_getting(sizes[size].bytes, &at));
			must(!is_error(at), "mmap of fresh memory");
		}
		report(sizes[size].fresh, least);
	}
}

/* Takes all there is and gives it back: all memory was used by us then. */
static void use_all_memory(void)
{
	enum { MOST = 256 };
	static struct {
		long at;
		size_t bytes;
	} taken[MOST];
	int count = 0;

	for (size_t bytes = TOUCHED; bytes >= PAGE_BYTES; bytes /= 2)
		for (long at; ticks_of_getting(bytes, &at) != 0;) {
			must(count < MOST, "taking a partition that large");
			taken[count].at = at;
			taken[count++].bytes = bytes;
		}
	while (count-- > 0)
		must(result_of(unmap(taken[count].at, taken[count].bytes)) == 0, "munmap");
}

static void touch_recycled(void)
{
	use_all_memory();
	for (int size = 0; size < SIZES; size++) {
		size_t bytes = sizes[size].bytes;
		uint64_t least = UINT64_MAX;
		long at;

		for (int i = 0; i < 5; i++) {
			keep_least(&least, ticks_of_getting(bytes, &at));
			must(!is_error(at), "mmap of recycled memory");
			must(result_of(unmap(at, bytes)) == 0, "munmap");
		}
		report(sizes[size].recycled, least);
	}
}

/* Buffers side by side, and one at the other end of all memory: the kernel notes what Linux may write of each, and code
 * that takes them for one range goes through 512 GiB. More than 16 buffers, and messages, are what it once did that for. */
static void far_buffers(long fd)
{
	enum { VECTORS = 17, MESSAGES = 8, BYTES = 8 };
	static char near[VECTORS][BYTES];
	static struct vector vectors[VECTORS];
	static struct mmsghdr messages[MESSAGES];
	struct call read = CALL(readv, fd, (long)vectors, VECTORS);
	uint64_t least = UINT64_MAX;
	long got, far = result_of(map(PAGE_BYTES));
	int ends[2];

	must(far - (long)near > 1L << 38, "memory that is far away");
	for (int i = 0; i < VECTORS; i++)
		vectors[i] = (struct vector){ i == VECTORS - 1 ? far : (long)near[i], BYTES };
	for (int i = 0; i < ROUNDS; i++) {
		must(result_of(CALL(lseek, fd, 0, SEEK_SET)) == 0, "lseek");
		keep_least(&least, ticks_of(&read, &got));
		must(got == VECTORS * BYTES, "readv");
	}
	report("readv_17_far", least);

	must(result_of(CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, (long)ends)) == 0, "socketpair");
	for (int i = 0; i < MESSAGES; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = (struct iovec *)&vectors[VECTORS - MESSAGES + i],
						       .msg_iovlen = 1 };
	struct call receive = CALL(recvmmsg, ends[0], (long)messages, MESSAGES, MSG_DONTWAIT, 0);
	least = UINT64_MAX;
	for (int i = 0; i < ROUNDS; i++) {
		must(result_of(CALL(sendmmsg, ends[1], (long)messages, MESSAGES, 0)) == MESSAGES, "sendmmsg");
		keep_least(&least, ticks_of(&receive, &got));
		must(got == MESSAGES, "recvmmsg");
	}
	report("recvmmsg_8_far", least);
}

/* A control of the clock: two instructions a round, and no more. */
static void loop_of_2000(void)
{
	uint64_t rounds = 1000, start, end;

	__asm__ volatile("rdtsc\n\t"
			 "mov %%rax, %[start]\n"
			 "1: dec %[rounds]\n\t"
			 "jnz 1b\n\t"
			 "rdtsc"
			 : "=&a"(end), [start] "=&r"(start), [rounds] "+r"(rounds)
			 :
			 : "rdx", "cc");
	/* One mov, and the reading itself. */
	report("loop_of_2000", (uint32_t)(end - start) - 2);
}

/* From _start: the stack as the kernel left it, argc first. */
__attribute__((used, noreturn)) static void begin(char **stack)
{
	struct timespec time;
	uint64_t mask;
	long fd = result_of(CALL(open, (long)stack[2], O_RDONLY));

	must(!is_error(fd), "opening the file that the first argument names");
	touch_fresh();
	loop_of_2000();
	alone("getpid", CALL(getpid));
	alone("getppid", CALL(getppid));
	alone("gettid", CALL(gettid));
	alone("getuid", CALL(getuid));
	alone("sched_yield", CALL(sched_yield));
	alone("clock_getres", CALL(clock_getres, CLOCK_MONOTONIC, (long)&time));
	alone("clock_gettime", CALL(clock_gettime, CLOCK_MONOTONIC, (long)&time));
	alone("rt_sigprocmask", CALL(rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask));
	alone("lseek_shipped", CALL(lseek, fd, 0, SEEK_SET));
	mappings();
	mremap_reserved();
	mappings_among_many();
	signals();
	touch_recycled();
	threads();
	beside_text();
	far_buffers(fd);
	write_found();
	leave(0);
}

__asm__(".global _start\n"
	"_start: mov %rsp, %rdi\n\t"
	"and $-16, %rsp\n\t"
	"call begin");
