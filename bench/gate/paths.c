/* Paths through the kernel, one by one: the instructions of calls, from
 * `syscall` to the next instruction, both ends included once.
 *
 *   paths FILE
 *
 * What a call costs in the kernel depends a little on what else is mapped and
 * where. So there is no C library in this program, which would be larger or
 * smaller elsewhere, and what is measured is written in assembler. Each figure
 * is the least of many: waiting for the host can only make one longer. FILE is
 * for lseek, which Linux answers.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUNDS = 200,
	PAGE_BYTES = 4096,
	READ_WRITE = PROT_READ | PROT_WRITE,
	ANON = MAP_PRIVATE | MAP_ANONYMOUS,
	MIB = 1 << 20,
	TOUCHED = 16 * MIB,
	/* The least that is text for the kernel. */
	TEXT_BYTES = 64 << 10,
	/* Of each size, what is touched fresh takes as much as this. */
	FRESH_ROUNDS = 3,
};

static uint64_t tsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

struct call {
	long nr, with[5];
};

#define CALL(name, ...) ((struct call){ .nr = SYS_##name, .with = { __VA_ARGS__ } })

/* Instructions from one reading of the TSC to the other besides the call. */
enum { AROUND = 7 };

static uint64_t ticks_of(const struct call *call, long *result)
{
	register long d __asm__("r10") = call->with[3], e __asm__("r8") = call->with[4], f __asm__("r9") = 0;
	register uint64_t start __asm__("r12");
	register long got __asm__("r13");
	uint64_t end;

	__asm__ volatile("rdtsc\n\t"
			 "shl $32, %%rdx\n\t"
			 "or %%rdx, %%rax\n\t"
			 "mov %%rax, %[start]\n\t"
			 "mov %[c], %%rdx\n\t"
			 "mov %[nr], %%rax\n\t"
			 "syscall\n\t"
			 "mov %%rax, %[got]\n\t"
			 "rdtsc\n\t"
			 "shl $32, %%rdx\n\t"
			 "or %%rdx, %%rax"
			 : "=&a"(end), [start] "=&r"(start), [got] "=&r"(got)
			 : [nr] "b"(call->nr), "D"(call->with[0]), "S"(call->with[1]), [c] "r"(call->with[2]), "r"(d),
			   "r"(e), "r"(f)
			 : "rcx", "rdx", "r11", "memory", "cc");
	*result = got;
	return end - start - AROUND;
}

static long result_of(struct call call)
{
	long result;
	ticks_of(&call, &result);
	return result;
}

__attribute__((noreturn)) static void leave(int status)
{
	for (;;)
		result_of(CALL(exit_group, status));
}

static void say(int fd, const char *text)
{
	size_t length = 0;

	while (text[length] != 0)
		length++;
	result_of(CALL(write, fd, (long)text, (long)length));
}

/* Ends the program when something that must work did not. */
static void must(int ok, const char *what)
{
	if (ok)
		return;
	say(STDERR_FILENO, what);
	say(STDERR_FILENO, " failed\n");
	leave(1);
}

static int is_error(long result)
{
	return result < 0 && result >= -4095;
}

/* What is found is written at the end: output is host work. */
static struct {
	const char *name;
	uint64_t value;
} found[64];
static int found_count;

static void report(const char *name, uint64_t value)
{
	found[found_count].name = name;
	found[found_count++].value = value;
}

static void write_found(void)
{
	for (int i = 0; i < found_count; i++) {
		char digits[24];
		char *at = digits + sizeof digits;
		*--at = 0;
		*--at = '\n';
		for (uint64_t rest = found[i].value; rest != 0 || at[0] == '\n'; rest /= 10)
			*--at = (char)('0' + rest % 10);
		*--at = ' ';
		say(STDOUT_FILENO, found[i].name);
		say(STDOUT_FILENO, at);
	}
}

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

static void keep_least(uint64_t *least, uint64_t ticks)
{
	if (ticks < *least)
		*least = ticks;
}

/* A call that leaves everything as it was. */
static void alone(const char *name, struct call call)
{
	uint64_t least = UINT64_MAX;
	long result;

	for (int i = 0; i < ROUNDS; i++) {
		keep_least(&least, ticks_of(&call, &result));
		must(!is_error(result), name);
	}
	report(name, least);
}

/* A call and the one that takes it back; that one gets the result of the first
 * when it has no first argument of its own. */
static void pair(const char *name, struct call call, const char *back_name, struct call back)
{
	uint64_t least = UINT64_MAX, back_least = UINT64_MAX;
	long result, back_result;

	for (int i = 0; i < ROUNDS; i++) {
		keep_least(&least, ticks_of(&call, &result));
		must(!is_error(result), name);
		struct call again = back;
		if (again.with[0] == 0)
			again.with[0] = result;
		keep_least(&back_least, ticks_of(&again, &back_result));
		must(!is_error(back_result), back_name);
	}
	report(name, least);
	report(back_name, back_least);
}

static struct call map(size_t bytes)
{
	return CALL(mmap, 0, (long)bytes, READ_WRITE, ANON, -1);
}

static struct call unmap(long at, size_t bytes)
{
	return CALL(munmap, at, (long)bytes);
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

/* Memory that nobody used since the machine handed it over: none is given back. */
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
			must(count < MOST, "taking a share that large");
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

enum { STACK_BYTES = 16 << 10 };

/* Words of the threads: what the other one waits for, what this one does, the
 * thread id until it has ended, and whether it shall. */
static volatile uint32_t others_turn, own_turn, other_lives, done;

/* As pthread_create asks for one. */
enum {
	THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID
};

/* Starts a thread that runs `run` on a stack that ends at `top`. */
static void start_thread(long top, void (*run)(void))
{
	register long child_tid __asm__("r10") = (long)&other_lives, tls __asm__("r8") = 0;
	register void (*entry)(void) __asm__("r12") = run;
	long result = SYS_clone;

	__asm__ volatile("syscall\n\t"
			 "test %%eax, %%eax\n\t"
			 "jnz 1f\n\t"
			 "call *%%r12\n\t"
			 "xor %%edi, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n"
			 "1:"
			 : "+a"(result)
			 : "D"((long)THREAD), "S"(top), "d"((long)&other_lives), "r"(child_tid), "r"(tls), "r"(entry),
			   [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory", "cc");
	must(!is_error(result), "clone");
}

static void futex(volatile uint32_t *word, long op, uint32_t value)
{
	register long timeout __asm__("r10") = 0;
	long result = SYS_futex;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(word), "S"(op), "d"((long)value), "r"(timeout)
			 : "rcx", "r11", "memory");
}

static void wait_while(volatile uint32_t *word, uint32_t value, long op)
{
	while (*word == value)
		futex(word, op, value);
}

static void join_thread(void)
{
	for (uint32_t tid; (tid = other_lives) != 0;)
		wait_while(&other_lives, tid, FUTEX_WAIT);
}

static void turn_to(volatile uint32_t *word)
{
	*word = 1;
	futex(word, FUTEX_WAKE_PRIVATE, 1);
}

static void wait_for_turn(volatile uint32_t *word)
{
	wait_while(word, 0, FUTEX_WAIT_PRIVATE);
	*word = 0;
}

static void yield_until_done(void)
{
	while (!done) {
		long result = SYS_sched_yield;
		__asm__ volatile("syscall" : "+a"(result)::"rcx", "r11", "memory");
	}
}

static void take_turns_until_done(void)
{
	while (!done) {
		wait_for_turn(&others_turn);
		turn_to(&own_turn);
	}
}

static void do_nothing(void)
{
}

/* Two threads of a core: each figure is of one way, that is half of there and back. */
static void threads(void)
{
	uint64_t least = UINT64_MAX;
	long result, top = result_of(map(STACK_BYTES)) + STACK_BYTES;
	struct call yield = CALL(sched_yield);

	alone("futex_wake_nobody", CALL(futex, (long)&own_turn, FUTEX_WAKE_PRIVATE, 1));
	start_thread(top, yield_until_done);
	for (int i = 0; i < ROUNDS; i++)
		keep_least(&least, ticks_of(&yield, &result));
	report("thread_switch", least / 2);
	done = 1;
	join_thread();

	done = 0, least = UINT64_MAX;
	start_thread(top, take_turns_until_done);
	for (int i = 0; i <= ROUNDS; i++) {
		uint64_t start = tsc();
		done = i == ROUNDS;
		turn_to(&others_turn);
		wait_for_turn(&own_turn);
		keep_least(&least, tsc() - start);
	}
	report("futex_wake_and_wait", least / 2);
	join_thread();

	least = UINT64_MAX;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = tsc();
		start_thread(top, do_nothing);
		join_thread();
		keep_least(&least, tsc() - start);
	}
	report("thread_clone_and_exit", least);
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
	mappings_among_many();
	signals();
	touch_recycled();
	threads();
	beside_text();
	write_found();
	leave(0);
}

__asm__(".global _start\n"
	"_start: mov %rsp, %rdi\n\t"
	"and $-16, %rsp\n\t"
	"call begin");
