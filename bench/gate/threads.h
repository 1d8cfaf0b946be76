/* Threads of a core, and how long they take to start, to end and to take turns. */
#include <linux/futex.h>
#include <linux/sched.h>

enum { STACK_BYTES = 16 << 10 };

/* Words of the threads: what the other one waits for, what this one does, the
 * thread id until it has ended, and whether it shall. */
static volatile uint32_t others_turn, own_turn, other_lives, done;

/* As pthread_create makes one. */
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
