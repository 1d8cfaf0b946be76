// Births for births.c: fork, vfork, clone and clone3, and what may come of them.
#ifndef MARGAY_BIRTHS_CLONES_H
#define MARGAY_BIRTHS_CLONES_H

#include "births.h"

#define DETACHED UINT64_C(0x400000)
#define NEWTIME UINT64_C(0x80)
#define IO UINT64_C(0x80000000)
#define CLEAR_SIGHAND UINT64_C(0x100000000)
#define INTO_CGROUP UINT64_C(0x200000000)
// As docs/children.md and docs/threads.md have it.
#define OF_THREADS ((uint64_t)(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_FS | CLONE_FILES))
#define OF_PROCESSES (CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLEAR_SIGHAND)
#define OPTIONAL                                                                                                       \
    (CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | CLONE_PTRACE | CLONE_UNTRACED | IO)
#define NAMESPACES (NEWTIME | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define USER_TOP (UINT64_C(1) << 39)
#define NATIVE_TOP ((UINT64_C(1) << 47) - PAGE)

// struct clone_args (uapi/linux/sched.h).
struct request {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, tls, set_tid, set_tid_count, cgroup;
};
enum { FIRST_BYTES = 64, NEWEST_BYTES = 88, SENTINEL = 0x5a5a5a5a };

// Whether something can be written to an address.
enum { NOT_THERE, THERE, EITHER };

// What is born, and how.
struct newborn {
    long number, args[6], id;
    struct request request; // all zero where no part of it is known
    int pidfd_there, child_tid_there, parent_tid_there, raced, alone;
    struct then then;
    struct verdict verdict, then_verdict;
};
static int asks(const struct newborn *n, uint64_t flag) { return (n->request.flags & flag) != 0; }

// ---- Arguments --------------------------------------------------------------

// None that cannot be blocked.
static uint64_t exit_signal(void)
{
    static const uint64_t odd[] = {0, 65, 100, 128, 255};
    uint64_t signo = next(4) ? SIGCHLD : next(8) ? next(65) : PICK(odd);
    return signo == SIGKILL || signo == SIGSTOP ? 0 : signo;
}

static uint64_t any_flags(void)
{
    static const uint64_t of_processes[] = {0, 0, CLONE_VFORK, CLONE_VM | CLONE_VFORK};
    uint64_t flags = next(2) ? OF_THREADS : PICK(of_processes) | (next(4) ? 0 : CLONE_PIDFD) | (next(8) ? 0 : CLEAR_SIGHAND);
    flags |= (next(1 << 16) | next(1 << 16) << 16) & OPTIONAL;
    switch (next(8)) {
    case 0: flags ^= UINT64_C(1) << (8 + next(26)); break;
    case 1: flags ^= UINT64_C(1) << (8 + next(26)) | UINT64_C(1) << (8 + next(26)); break;
    case 2: flags = next(4) ? flags : (next(UINT32_MAX) << 32 | next(UINT32_MAX)) & ~UINT64_C(0xff); break;
    default: break;
    }
    // Natively a sibling would be another's child, and at the end of a namespace's first process who shares its dispositions
    // ignores SIGCHLD.
    return life.on_node ? flags : flags & ~(CLONE_PARENT | NAMESPACES);
}

// Where a number is told: each of three slots has a place of its own.
static uint64_t told_at(int slot, int *there)
{
    const uint64_t nowhere[] = {
        0, PICK(wild), (uint64_t)AREA(TOLD) + AREA_BYTES - 1 - next(3), in_hole(TOLD), (uint64_t)AREA(READ_ONLY) + next(PAGE - 4), (uint64_t)birth,
        getauxval(AT_SYSINFO_EHDR) - 4 + next(8),
    };
    uint64_t own = (uint64_t)AREA(TOLD) + (uint64_t)slot * 256;
    *there = THERE;
    switch (next(8)) {
    case 0: case 1: case 2: return own + 4 * next(32);
    case 3: return own + 1 + next(128);
    case 4: return (uint64_t)AREA(TOLD) + (uint64_t)(slot + 1) * PAGE - 1 - next(3); // across a page's end
    case 5: *there = life.on_node ? EITHER : NOT_THERE; return window(AREA(PEERS) + next(AREA_BYTES));
    default: *there = NOT_THERE; return PICK(nowhere);
    }
}

// For stack and thread area.
static uint64_t any_address(void)
{
    switch (next(4)) {
    case 0: return PICK(wild);
    case 1: return window(AREA(PEERS) + next(AREA_BYTES));
    case 2: return in_hole(TOLD);
    default: return (uint64_t)AREA(PEERS) + next(AREA_BYTES);
    }
}

// ---- What may come of it ------------------------------------------------------

// The rules of kernel/fork.c (copy_process), and what Margay refuses besides.
static void judge_flags(struct newborn *n)
{
    const struct request *r = &n->request;
    struct verdict *verdict = &n->verdict;
    int is_thread = asks(n, CLONE_THREAD), has_ids_in_one = asks(n, CLONE_PIDFD) && asks(n, CLONE_PARENT_SETTID) && r->pidfd == r->parent_tid;
    if ((is_thread && !asks(n, CLONE_SIGHAND)) || (asks(n, CLONE_SIGHAND) && !asks(n, CLONE_VM)) || (is_thread && asks(n, CLONE_NEWUSER | CLONE_NEWPID)) ||
        (asks(n, CLONE_FS) && asks(n, CLONE_NEWNS | CLONE_NEWUSER)) || (asks(n, CLONE_PIDFD) && asks(n, DETACHED)) || has_ids_in_one)
        may(verdict, EINVAL);
    if (asks(n, CLONE_SETTLS) && r->tls >= (life.on_node ? USER_TOP : NATIVE_TOP))
        may(verdict, EPERM);
    if (asks(n, CLONE_PIDFD) && n->pidfd_there != THERE) {
        verdict->either = n->pidfd_there == EITHER && verdict->count == 0;
        may(verdict, EFAULT);
    }
    int refused = is_thread ? (r->flags & OF_THREADS) != OF_THREADS || asks(n, ~(OF_THREADS | OPTIONAL | DETACHED))
                            : asks(n, ~(OF_PROCESSES | OPTIONAL | DETACHED)) || (asks(n, CLONE_VM) && !asks(n, CLONE_VFORK));
    if (life.on_node && refused) {
        verdict->either = 0;
        may(verdict, ENOSYS);
        may(verdict, EINVAL);
    }
    if (!life.on_node && asks(n, CLONE_FS)) { // beside an execve (copy_fs)
        verdict->either |= verdict->count == 0;
        may(verdict, EAGAIN);
    }
    if (!life.on_node && (asks(n, NAMESPACES | INTO_CGROUP) || (asks(n, CLONE_PIDFD) && is_thread))) {
        verdict->either = 1;
        may(verdict, EPERM);
        may(verdict, EINVAL);
        may(verdict, EBADF);
    }
}

// copy_clone_args_from_user and clone3_args_valid there.
static void judge_clone3(struct newborn *n)
{
    struct request *r = &n->request;
    uint64_t end = r->stack + r->stack_bytes;
    if (asks(n, DETACHED | 0x7f) || r->flags >> 34 || r->exit_signal > 64 || (asks(n, CLONE_THREAD | CLONE_PARENT) && r->exit_signal) ||
        (asks(n, CLONE_SIGHAND) && asks(n, CLEAR_SIGHAND)) || (r->stack == 0) != (r->stack_bytes == 0) || end < r->stack ||
        end > (life.on_node ? USER_TOP : NATIVE_TOP) || r->set_tid || r->set_tid_count)
        may(&n->verdict, EINVAL);
    judge_flags(n);
}

// ---- Choices ------------------------------------------------------------------

static void set_call(struct newborn *n, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
    const long args[] = {(long)a, (long)b, (long)c, (long)d, (long)e, (long)PICK(wild)};
    n->number = number;
    memcpy(n->args, args, sizeof args);
}

static void choose_clone(struct newborn *n)
{
    struct request *r = &n->request;
    r->flags &= UINT32_MAX;
    r->pidfd = r->parent_tid;
    n->pidfd_there = n->parent_tid_there;
    judge_flags(n);
    uint64_t unused = next(2) * next(UINT32_MAX) << 32;
    set_call(n, SYS_clone, r->flags | (r->exit_signal & 0xff) | unused, r->stack, r->parent_tid, r->child_tid, r->tls);
}

static void choose_clone3(struct newborn *n)
{
    static const uint64_t sizes[] = {64, 64, 64, 64, 72, 80, 88, 88, 88, 65, 89, 96, 128, 1000, 4096, 0, 8, 63, 4097, 1 << 20, 0x80000000, ~0ul};
    static const uint64_t odd_signals[] = {1, 17, 0x100000011, ~0ul};
    struct request *r = &n->request;
    uint64_t bytes = PICK(sizes), kind = next(16);
    int is_known = bytes >= FIRST_BYTES && bytes <= PAGE, is_longer = is_known && bytes > NEWEST_BYTES && next(2);
    r->exit_signal = next(8) == 0 ? PICK(odd_signals) : asks(n, CLONE_THREAD) ? 0 : r->exit_signal > 64 ? SIGCHLD : r->exit_signal;
    r->flags |= next(16) ? 0 : next(256);
    r->stack_bytes = (r->stack != 0) != (next(32) == 0) ? 1 + next(2 * PAGE) : 0;
    if (next(32) == 0)
        *(next(2) ? &r->set_tid : &r->set_tid_count) = 1 + next(8);
    r->cgroup = next(8) ? 0 : next(UINT32_MAX); // means nothing without its flag
    const uint64_t nowhere[] = {0, PICK(wild), in_hole(CLONE_ARGS)};
    uint64_t used = is_known ? bytes : FIRST_BYTES;
    char *there = kind == 0 ? place_cut(CLONE_ARGS, used) : place(CLONE_ARGS, used > NEWEST_BYTES ? used : NEWEST_BYTES);
    memset(AREA(CLONE_ARGS), 0, AREA_BYTES);
    put(CLONE_ARGS, there, r, NEWEST_BYTES);
    uint64_t at = kind == 1 ? PICK(nowhere) : kind == 2 ? window(AREA(READ_ONLY)) : (uint64_t)there;
    if (!is_known) {
        may(&n->verdict, bytes > PAGE ? E2BIG : EINVAL);
    } else if (kind <= 2) {
        // What is in windows is a sound request.
        may(&n->verdict, EFAULT);
        may(&n->verdict, r->set_tid || r->set_tid_count ? EINVAL : EFAULT);
        n->verdict.either = kind == 2 && life.on_node;
        memset(r, 0, sizeof *r);
    } else if (is_longer) {
        there[NEWEST_BYTES + next(bytes - NEWEST_BYTES)] = 1;
        may(&n->verdict, E2BIG);
        may(&n->verdict, r->set_tid || r->set_tid_count ? EINVAL : E2BIG);
    } else {
        if (bytes < NEWEST_BYTES)
            memset((char *)r + bytes, 0, NEWEST_BYTES - bytes);
        judge_clone3(n);
    }
    set_call(n, SYS_clone3, at, bytes, PICK(wild), PICK(wild), PICK(wild));
}

// Words of the request change: what comes of it is a thread, a process or an error.
static void choose_raced_clone3(struct newborn *n)
{
    static const int errors[] = {EINVAL, EFAULT, ENOSYS, EPERM, EBADF, EAGAIN};
    memset(choices, 0, sizeof choices);
    for (int k = 0; k < CHOICES; k++) {
        uint64_t flags = next(4) == 0 ? any_flags() : next(2) ? OF_THREADS : CLONE_PARENT_SETTID | CLONE_CHILD_SETTID;
        const struct request choice = {
            .flags = flags,
            .pidfd = any_address(),
            .child_tid = any_address(),
            .parent_tid = any_address(),
            .exit_signal = next(2) ? 0 : SIGCHLD,
            .stack = next(2) ? 0 : any_address(),
            .stack_bytes = next(2) * PAGE,
            .tls = any_address(),
        };
        for (int i = 0; i < COUNT(((uint64_t[NEWEST_BYTES / 8]){0})); i++)
            choices[i][k] = ((const uint64_t *)&choice)[i];
    }
    begin_race();
    for (int i = 0; i < COUNT(errors); i++)
        may(&n->verdict, errors[i]);
    n->verdict.either = n->raced = 1;
    memset(&n->request, 0, sizeof n->request);
    set_call(n, SYS_clone3, (uint64_t)raced_words, next(2) ? FIRST_BYTES : NEWEST_BYTES, 0, 0, 0);
}

static void choose_birth(struct newborn *n, int raced)
{
    struct request *r = &n->request;
    memset(n, 0, sizeof *n);
    r->flags = any_flags();
    r->pidfd = told_at(0, &n->pidfd_there);
    r->child_tid = told_at(1, &n->child_tid_there);
    r->parent_tid = told_at(2, &n->parent_tid_there);
    if (next(16) == 0) {
        r->parent_tid = r->child_tid;
        n->parent_tid_there = n->child_tid_there;
    }
    r->exit_signal = exit_signal();
    r->stack = next(4) ? any_address() : 0;
    r->tls = any_address();
    if (raced) {
        choose_raced_clone3(n);
    } else if (next(4) == 0) { // there are no arguments
        memset(r, 0, sizeof *r);
        set_call(n, next(2) ? SYS_fork : SYS_vfork, PICK(wild), PICK(wild), PICK(wild), PICK(wild), PICK(wild));
    } else {
        next(2) ? choose_clone(n) : choose_clone3(n);
    }
}

// ---- What is told ---------------------------------------------------------------

static int told(uint64_t at)
{
    int value;
    memcpy(&value, (void *)at, sizeof value);
    return value;
}
static int is_apart(uint64_t a, uint64_t b) { return a - b + 3 > 6; }

// Whether the pointers are known, and nothing else writes there.
static int tells(const struct newborn *n)
{
    const struct request *r = &n->request;
    return n->alone && r->flags != 0 && is_apart(r->child_tid, r->parent_tid) && is_apart(r->child_tid, r->pidfd);
}

static void begin_telling(const struct newborn *n)
{
    const struct request *r = &n->request;
    const uint64_t at[] = {r->pidfd, r->child_tid, r->parent_tid};
    const int there[] = {n->pidfd_there, n->child_tid_there, n->parent_tid_there};
    for (int i = 0; i < 3; i++)
        if (there[i] == THERE && at[i] != 0)
            memset((void *)at[i], SENTINEL & 0xff, 4);
}

static void check_told(const struct newborn *n)
{
    const struct request *r = &n->request;
    int good = n->id > 0, is_thread = asks(n, CLONE_THREAD), is_pidfd = n->number == SYS_clone && asks(n, CLONE_PIDFD);
    // The child's memory is another, but for a thread's, and natively with CLONE_VM.
    int is_unseen = !good || (!is_thread && (life.on_node || !asks(n, CLONE_VM)));
    if (!tells(n))
        return;
    if (n->parent_tid_there == THERE && !is_pidfd)
        must(told(r->parent_tid) == (good && asks(n, CLONE_PARENT_SETTID) ? n->id : SENTINEL));
    if (n->child_tid_there == THERE && is_unseen)
        must(told(r->child_tid) == SENTINEL);
    if (n->child_tid_there == THERE && good && is_thread)
        must(told(r->child_tid) == (asks(n, CLONE_CHILD_CLEARTID) ? 0 : asks(n, CLONE_CHILD_SETTID) ? n->id : SENTINEL));
}

#endif
