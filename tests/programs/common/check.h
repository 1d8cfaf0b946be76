// Shared by every C and C++ conformance program: checks that print one
// readable line each, probes that say whether an address can be touched, and
// the numbered byte stream ("seq") that the stream programs send and verify.
#ifndef MARGAY_CHECK_H
#define MARGAY_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A program uses some of these helpers, never all.
#define CHECK_HELPER static inline __attribute__((unused))

enum { PAGE_BYTES = 4096 };

static int check_count, check_failures;

// One check: prints "ok   text" or "FAIL text". Flushed at once, so that the
// lines before a crash are seen. Returns the condition.
__attribute__((format(printf, 2, 3), unused))
static int check(int ok, const char *fmt, ...)
{
    va_list args;
    check_count++;
    check_failures += !ok;
    fputs(ok ? "ok   " : "FAIL ", stdout);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    return ok;
}

// A call that must fail: returns -1 (or MAP_FAILED) with just this errno.
CHECK_HELPER int check_fails(long result, int want_errno, const char *what)
{
    int got = errno;
    int ok = result == -1 && got == want_errno;
    check(ok, "%s: refused with errno %d", what, want_errno);
    if (!ok)
        printf("     returned %s, errno %d\n", result == -1 ? "-1" : "success", got);
    return ok;
}

// The exit status of a program of checks.
CHECK_HELPER int check_done(void)
{
    printf("%d checks, %d failed\n", check_count, check_failures);
    return check_failures != 0;
}

// Ends the program when the set-up itself does not work.
CHECK_HELPER void need(int ok, const char *what)
{
    if (ok)
        return;
    printf("FAIL set-up: %s (errno %d)\n", what, errno);
    fflush(stdout);
    _exit(99);
}

// A child, or the end of the program: who goes on with -1 for its number signals all processes of the user.
CHECK_HELPER pid_t forked(void)
{
    pid_t pid = fork();
    need(pid >= 0, "fork");
    return pid;
}

// ---- Touching memory that may not be there ------------------------------

// The last fault a probe met; signo is 0 when the access went through.
struct fault {
    int signo, code;
    void *addr;
};
static sigjmp_buf fault_return;
static volatile struct fault fault_seen;

CHECK_HELPER void fault_handler(int signo, siginfo_t *info, void *context)
{
    (void)context;
    fault_seen.signo = signo;
    fault_seen.code = info->si_code;
    fault_seen.addr = info->si_addr;
    siglongjmp(fault_return, 1);
}

// Calls body(arg) with SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP caught.
CHECK_HELPER struct fault fault_of(void (*body)(void *), void *arg)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    struct sigaction action, old[5];
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault_handler;
    action.sa_flags = SA_SIGINFO;
    fault_seen.signo = 0;
    fault_seen.code = 0;
    fault_seen.addr = NULL;
    for (int i = 0; i < 5; i++)
        need(sigaction(signals[i], &action, &old[i]) == 0, "sigaction");
    if (sigsetjmp(fault_return, 1) == 0)
        body(arg);
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &old[i], NULL);
    struct fault seen = {fault_seen.signo, fault_seen.code, fault_seen.addr};
    return seen;
}

CHECK_HELPER void touch_read(void *p) { (void)*(volatile char *)p; }
CHECK_HELPER void touch_write(void *p)
{
    volatile char *c = (volatile char *)p;
    *c = *c;
}
CHECK_HELPER int can_read(const void *p)
{
    return fault_of(touch_read, (void *)(uintptr_t)p).signo == 0;
}
CHECK_HELPER int can_write(const void *p)
{
    return fault_of(touch_write, (void *)(uintptr_t)p).signo == 0;
}

// Whether all bytes have this value.
CHECK_HELPER int all_bytes(const void *p, int value, size_t len_bytes)
{
    const unsigned char *c = (const unsigned char *)p;
    return len_bytes == 0 || (c[0] == (unsigned char)value && memcmp(c, c + 1, len_bytes - 1) == 0);
}

// ---- The numbered stream -------------------------------------------------

// Word k (little-endian, 8 bytes) of the stream; README.md defines it too.
CHECK_HELPER uint64_t seq_word(uint64_t k) { return (k + 1) * UINT64_C(0x9E3779B97F4A7C15); }

CHECK_HELPER void seq_fill(void *buf, uint64_t first_word, size_t words)
{
    uint64_t *w = (uint64_t *)buf;
    for (size_t i = 0; i < words; i++)
        w[i] = seq_word(first_word + i);
}

CHECK_HELPER int seq_matches(const void *buf, uint64_t first_word, size_t words)
{
    const uint64_t *w = (const uint64_t *)buf;
    uint64_t wrong = 0;
    for (size_t i = 0; i < words; i++)
        wrong |= w[i] ^ seq_word(first_word + i);
    return wrong == 0;
}

// A checksum that notices order: the sum of words and the sum of those sums.
struct sums {
    uint64_t words, sum, sum_of_sums;
};
CHECK_HELPER void sums_add(struct sums *s, const void *buf, size_t words)
{
    const uint64_t *w = (const uint64_t *)buf;
    for (size_t i = 0; i < words; i++) {
        s->sum += w[i];
        s->sum_of_sums += s->sum;
    }
    s->words += words;
}
CHECK_HELPER void sums_print(const struct sums *s, const char *what)
{
    printf("%s: %llu bytes, sums %016llx %016llx\n", what, (unsigned long long)s->words * 8,
           (unsigned long long)s->sum, (unsigned long long)s->sum_of_sums);
}

// "4096", "64K", "4M" or "1G" in bytes; the default when there is no argument.
CHECK_HELPER size_t size_arg(int argc, char **argv, int index, size_t default_bytes)
{
    char *end;
    if (index >= argc)
        return default_bytes;
    size_t n = strtoull(argv[index], &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return n << shift;
}

// write(2) until all is written; 0 when that fails.
CHECK_HELPER int write_all(int fd, const void *buf, size_t len_bytes)
{
    const char *p = (const char *)buf;
    while (len_bytes > 0) {
        ssize_t n = write(fd, p, len_bytes);
        if (n <= 0)
            return 0;
        p += n;
        len_bytes -= (size_t)n;
    }
    return 1;
}

// read(2) until the buffer is full or the stream ends; the bytes read.
CHECK_HELPER size_t read_full(int fd, void *buf, size_t len_bytes)
{
    size_t got = 0;
    while (got < len_bytes) {
        ssize_t n = read(fd, (char *)buf + got, len_bytes - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

// ---- Time ----------------------------------------------------------------

#define NS_PER_S INT64_C(1000000000)

CHECK_HELPER int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    need(clock_gettime(clock, &now) == 0, "clock_gettime");
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif
