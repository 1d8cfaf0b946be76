// Random births and programs: `births SEED TRIES`. fork, vfork, clone and clone3 with flags, pointers, stacks and sizes at random;
// execve and execveat with paths, arguments and environments that are good, wild, straddle the end of what is mapped, lie in
// windows, or are no programs. Meanwhile a second thread moves about what they point to, has children of its own, or becomes
// another program. What may come of each try is known before, from Linux's rules: natively it is the same.
//
// What is born runs `birth` of births.h: it compares registers and the canary, may call execve, and ends. It uses neither stack nor
// thread area, so that both may be anything. It is waited for before the next try, or after up to MOST_ALIVE. Then there are no
// more children, threads, descriptors and mappings than before, and memory is unharmed.
//
// Each program that replaces another is this one. A rank goes on where `life` says, a child ends with EXECED. `life` is kept
// in a descriptor, for arguments and environment may be anything, too.
//
// Like `calls` it must not be run but as a user that owns nothing but the current directory.
#include "births.h"
#include "births_clones.h"
#include "births_programs.h"

#include <pthread.h>
#include <sys/resource.h>

enum { BURST = 32, MOST_ALIVE = 4, MOVED_WORDS = 64, ARCH_GET_FS = 0x1003 };

static long fs_base;
static int lowest_fd, listed_maps;

static void set_mask(uint64_t mask) { CALL(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8); }

// ---- The second thread ------------------------------------------------------

static _Atomic int wanted, doing;

static void move_words(void)
{
    static uint64_t own = 1;
    const struct timespec pause = {0, 50000}; // the proxy needs the host's cores, too
    for (int i = 0; i < MOVED_WORDS; i++) {
        uint64_t at = draw(&own) % RACED_WORDS;
        raced_words[at] = choices[at][(own >> 48) % CHOICES];
    }
    life.words_moved += MOVED_WORDS;
    CALL(SYS_nanosleep, &pause, NULL);
}

static void bear(void)
{
    static const long ways[][2] = {{SYS_fork, 0}, {SYS_vfork, 0}, {SYS_clone, SIGCHLD}, {SYS_clone, OF_THREADS}};
    static struct then nothing;
    static unsigned turn;
    const long *way = ways[turn++ % COUNT(ways)], args[6] = {way[1]};
    long id = birth(way[0], args, &nothing);
    if (id == -EAGAIN && !life.on_node)
        return; // a thread beside an execve (kernel/fork.c, copy_fs)
    if (id <= 0)
        fail("a birth beside another call", id);
    int status = settle(id);
    if (status != (way[1] & CLONE_THREAD ? -1 : BORN << 8))
        fail("what was born beside another call", status);
}

static void *beside(void *unused)
{
    static char *arguments[] = {strings[1], strings[2], NULL}, *none[] = {NULL};
    set_mask(~0ul);
    for (;;) {
        doing = wanted;
        switch (doing) {
        case MOVES: move_words(); break;
        case BEARS: bear(); break;
        case IS_REFUSED: must(CALL(SYS_execve, "missing", arguments, none) == -ENOENT); break;
        case BECOMES: fail("execve beside another call", CALL(SYS_execve, life.self, arguments, none)); break;
        default: CALL(SYS_futex, &wanted, 0 /* FUTEX_WAIT */, RESTS, NULL);
        }
    }
    return unused;
}

static void have_beside(int what)
{
    wanted = what;
    CALL(SYS_futex, &wanted, 1 /* FUTEX_WAKE */, 1);
    AWAIT(doing == what);
}

// Its stack is no mapping of its own.
static void start_beside(void)
{
    static char stack[65536] __attribute__((aligned(64)));
    pthread_attr_t attributes;
    pthread_t thread;
    must(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, sizeof stack) == 0);
    must(pthread_create(&thread, &attributes, beside, NULL) == 0);
    set_mask(~0ul); // also of what the C library lets through
}

// ---- Tries --------------------------------------------------------------------

static int first_free_fd(void)
{
    int fd = (int)CALL(SYS_dup, 0);
    must(fd >= 0 && CALL(SYS_close, fd) == 0);
    return fd;
}

// Where the next program goes on, and what it must find.
static void save(void) { must(CALL(SYS_pwrite64, LIFE, &life, sizeof life, 0) == sizeof life); }

static void begin_birth(struct newborn *n, int beside)
{
    begin_telling(n);
    note(n->number, n->args, n->then.number, beside);
    n->id = birth(n->number, n->args, &n->then);
    note_result(n->id);
    if (!is_right(&n->verdict, n->id)) {
        for (uint64_t *word = &n->request.flags; word <= &n->request.cgroup; word++)
            dprintf(OUT, "%#lx ", *word);
        fail("a birth", n->id);
    }
    n->id > 0 ? life.births++ : life.refused_births++;
    // In another thread's execve or wait a proxy's own descriptor may have the number.
    if (n->id > 0 && asks(n, CLONE_PIDFD) && n->pidfd_there == THERE && beside == RESTS && tells(n))
        must(told(n->request.pidfd) == lowest_fd);
}

// Waits for its end; whether it was a thread.
static int end_birth(const struct newborn *n)
{
    int status = n->id > 0 ? settle(n->id) : 0, is_thread = status < 0;
    check_told(n);
    if (n->id <= 0)
        return 0;
    if (!n->raced && is_thread != asks(n, CLONE_THREAD))
        fail("what was born is another thing", status);
    long ended = WIFEXITED(status) ? WEXITSTATUS(status) : UCHAR_MAX + 1, error = is_thread ? n->then.result : ended == EXECED ? 0 : -ended;
    if (n->then.number ? !is_right(&n->then_verdict, error) : !is_thread && ended != BORN)
        fail("how it ended", is_thread ? error : status);
    life.threads += is_thread;
    life.children += !is_thread;
    life.executed += !is_thread && ended == EXECED;
    life.refused_programs += n->then.number && error < 0;
    return is_thread;
}

// Closes what children are known by, which lies lowest: as many as there must be.
static void close_pidfds(int wanted, int raced)
{
    int closed = 0;
    for (int fd = lowest_fd; wanted > 0 && fd < lowest_fd + 4 * MOST_ALIVE; fd++)
        closed += CALL(SYS_close, fd) == 0;
    if (raced ? closed > wanted : closed != wanted)
        fail("descriptors of children", closed);
    if (first_free_fd() != lowest_fd)
        fail("the lowest descriptor", first_free_fd());
}

static void have_births(int beside)
{
    static struct newborn all[MOST_ALIVE];
    int executes = next(3) == 0, count = executes || next(4) ? 1 : 2 + (int)next(MOST_ALIVE - 1), pidfds = 0;
    uint32_t threads = born;
    choose_birth(&all[0], beside == MOVES && !executes);
    all[0].alone = count == 1;
    if (executes)
        choose_program(&all[0].then, &all[0].then_verdict, beside);
    life.raced |= beside == BECOMES ? RACED_STRINGS : 0;
    save();
    have_beside(beside);
    for (int i = 0; i < count; i++) {
        if (i > 0)
            choose_birth(&all[i], 0);
        begin_birth(&all[i], beside);
    }
    for (int i = 0; i < count; i++) {
        threads += (uint32_t)end_birth(&all[i]);
        pidfds += all[i].id > 0 && (all[i].raced || asks(&all[i], CLONE_PIDFD));
    }
    if (beside == BECOMES)
        AWAIT(0); // this thread ends
    have_beside(RESTS);
    close_pidfds(pidfds, all[0].raced);
    if (life.on_node && beside != BEARS && born != threads)
        fail("threads that have not ended as they should", (long)(threads - born));
    if (harmed)
        fail("what found its memory or registers harmed", harmed);
}

static void become_another(int beside)
{
    struct then call;
    struct verdict verdict;
    choose_program(&call, &verdict, beside);
    life.raced |= beside == BECOMES ? RACED_STRINGS : 0;
    save();
    have_beside(beside);
    const long args[6] = {call.args[0], call.args[1], call.args[2], call.args[3], call.args[4], 0};
    note(call.number, args, 0, beside);
    long error = raw((uint64_t)call.number, args[0], args[1], args[2], args[3], args[4], 0);
    note_result(error);
    if (error >= 0 || !is_right(&verdict, error))
        fail("execve", error);
    life.refused_programs++;
    if (beside == BECOMES)
        AWAIT(0);
    have_beside(RESTS);
    close_pidfds(0, 0);
}

static void one_try(void)
{
    static const int most[] = {RESTS, RESTS, RESTS, RESTS, MOVES, MOVES, BEARS, IS_REFUSED};
    int beside = next(64) ? PICK(most) : BECOMES;
    life.left--;
    life.races += beside == MOVES;
    next(4) ? have_births(beside) : become_another(beside);
}

// ---- What must hold -------------------------------------------------------------

// Entries of a directory, or lines of a file.
static int entries(const char *path, int is_directory)
{
    static char text[1 << 16];
    int count = 0, fd = (int)CALL(SYS_open, path, O_RDONLY | O_CLOEXEC | (is_directory ? O_DIRECTORY : 0), 0);
    must(fd >= 0);
    for (long got; (got = CALL(is_directory ? SYS_getdents64 : SYS_read, fd, text, sizeof text)) > 0;)
        for (long at = 0; at < got; at += is_directory ? *(uint16_t *)(text + at + 16) : 1)
            count += is_directory || text[at] == '\n';
    must(CALL(SYS_close, fd) == 0);
    return count;
}

static void check_all(void)
{
    int32_t ends[2], status;
    long base = 0;
    uint64_t sent = next(~0u), seen = 0;
    must(CALL(SYS_getpid) == own_pid && CALL(SYS_gettid) == own_pid);
    must(CALL(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base == fs_base);
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        if (canary[i] != (i + 1) * CANARY_FACTOR)
            fail("its own memory was changed at word", (long)i);
    must(CALL(SYS_pipe2, ends, 0) == 0);
    must(CALL(SYS_write, ends[1], &sent, 8) == 8 && CALL(SYS_read, ends[0], &seen, 8) == 8 && seen == sent);
    must(CALL(SYS_close, ends[0]) == 0 && CALL(SYS_close, ends[1]) == 0);
    must(CALL(SYS_wait4, -1, &status, __WALL | WNOHANG, 0) == -ECHILD);
    int threads = entries("/proc/self/task", 1) - 2, fds = entries("/proc/self/fd", 1), maps = entries("/proc/self/maps", 0);
    if (threads != 2)
        fail("threads", threads);
    if (fds != (int)life.listed_fds)
        fail("descriptors more than before", fds - (int)life.listed_fds);
    if (maps != listed_maps)
        fail("mappings more than before", maps - listed_maps);
    // What children have sent.
    set_mask(0);
    set_mask(~0ul);
}

// ---- Its life ---------------------------------------------------------------------

static void on_signal(int signo) { life.signals += signo > 0; }

static void make_memory(void)
{
    const struct request sound = {.exit_signal = SIGCHLD};
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        canary[i] = (i + 1) * CANARY_FACTOR;
    for (int area = 0; area < AREAS; area++)
        must(mmap(AREA(area), AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == AREA(area));
    memcpy(AREA(READ_ONLY), &sound, sizeof sound);
    must(mprotect(AREA(READ_ONLY), AREA_BYTES, PROT_READ) == 0);
    make_strings();
}

static void begin(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    const char *rank = getenv("MARGAY_RANK");
    life.pid = own_pid;
    life.rank = rank ? (uint32_t)atoi(rank) : 0;
    life.on_node = rank != NULL;
    life.state = ((argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 8 | life.rank) * 2 + 1;
    life.left = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    must(CALL(SYS_close_range, 3, ~0u, 0) == 0 && dup2(1, OUT) == OUT && setrlimit(RLIMIT_CORE, &none) == 0);
    must(readlink("/proc/self/exe", life.self, sizeof life.self - 1) > 0);
    keep_open(memfd_create("life", 0), LIFE, 0);
    make_files();
}

// Where the last program of the rank was. Children of its second thread may be left.
static void go_on(void)
{
    int status;
    life.programs++;
    while (CALL(SYS_wait4, -1, &status, __WALL, 0) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) == MISTAKEN || WEXITSTATUS(status) == HARMED)
            fail("how a child ended that was left", status);
}

static void tell_counts(void)
{
    const struct {
        uint64_t count;
        const char *what;
    } counts[] = {
        {life.births, "births"},     {life.refused_births, "refused births"},     {life.threads, "threads"}, {life.children, "children"},
        {life.programs, "programs"}, {life.refused_programs, "refused programs"}, {life.executed, "executions"},
        {life.races, "races"},       {life.words_moved, "words moved"},           {life.signals, "signals"},
    };
    for (int i = 0; i < COUNT(counts); i++)
        dprintf(OUT, "%lu %s\n", counts[i].count, counts[i].what);
}

int main(int argc, char **argv, char **envp)
{
    int is_first = CALL(SYS_pread64, LIFE, &life, sizeof life, 0) != sizeof life, right = is_first || is_as_told(argv, envp);
    own_pid = CALL(SYS_getpid);
    if (!is_first && life.pid != own_pid)
        CALL(SYS_exit_group, right ? EXECED : MISTAKEN);
    set_mask(~0ul);
    if (is_first)
        begin(argc, argv);
    if (!right)
        fail("other strings than it was given", argc);
    must(CALL(SYS_arch_prctl, ARCH_GET_FS, &fs_base) == 0);
    make_memory();
    open_descriptors();
    for (int signo = 1; signo <= 64; signo++)
        CALL(SYS_rt_sigaction, signo, (&(struct action)ACTION(on_signal)), 0, 8);
    start_beside();
    lowest_fd = first_free_fd();
    listed_maps = entries("/proc/self/maps", 0);
    if (is_first)
        life.listed_fds = (uint32_t)entries("/proc/self/fd", 1);
    else
        go_on();
    check_all();
    while (life.left > 0) {
        one_try();
        if (life.left % BURST == 0)
            check_all();
    }
    tell_counts();
    if (next(2))
        have_beside(BEARS); // it ends in the middle of that
    return 0;
}
