/* Calls in assembler, without a C library, and the instructions that they take. */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	ROUNDS = 200,
	PAGE_BYTES = 4096,
	READ_WRITE = PROT_READ | PROT_WRITE,
	ANON = MAP_PRIVATE | MAP_ANONYMOUS,
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
