/* The agent: lays pages of files over parts of the node pool, where QEMU has it mapped, and clears them again.
 *
 * yod preloads it into QEMU. A thread of its own takes requests from a socket; the other end is the job's: its keeper and proxies have
 * it. A request comes with the socket that its answer goes to, an errno or 0; one to lay comes with the file, too.
 *
 *     LAY      offset, len_bytes, file_offset, how; [answer, file]   the file is what this range of the pool shows from now on
 *     SEGMENT  offset, len_bytes, file_offset, how; [answer]         a segment of System V shared memory is
 *     CLEAR    offset, len_bytes, 0, 0; [answer]                     the pool's own pages are, as zeros
 *     RESTORE  offset, len_bytes, 0, 0; [answer] or none             pages that were lost, of one file, are that file's again
 *     HELLO                                                   to the keeper, before QEMU does anything: requests are taken
 *     LOST   offset, cpu                                      to the keeper: this page is none of the file's any more
 *
 * Numbers are 64 bits wide, as this host has them; offsets and lengths are bytes, multiples of a page. A request that is refused has
 * changed nothing, but for one that Linux refuses: then the pool's own pages are there.
 *
 * A page behind the end of a file, as one that was cut off, is SIGBUS for who touches it. A page of zeros takes its place, and the
 * machine goes on. That was tried under TCG, whose code takes memory by QEMU's addresses. KVM's memory slots are addresses of QEMU's,
 * too, so that it sees what is laid; that was not tried, and there what is behind an end is no signal but EFAULT of KVM_RUN.
 *
 * Environment: MARGAY_AGENT=SOCKET,POOL, numbers of two descriptors, and LD_PRELOAD, which begins with this library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { LAY = 1, CLEAR = 2, HELLO = 3, LOST = 4, SEGMENT = 5, RESTORE = 6 };
enum { WRITABLE = 1, ID_SHIFT = 32 }; /* of `how`: the segment's number lies above */
enum { PAGE_BYTES = 4096, MOST_FDS = 4 /* taken from one message: Linux closes those that come beyond */ };

struct message {
    uint64_t command, offset, len_bytes, file_offset, how;
};
/* To the keeper. */
struct notice {
    uint64_t what, offset, cpu;
};

static int job, pool; /* descriptors */
static struct stat pool_file;
static uint64_t pool_bytes;
static char *pool_start; /* in QEMU; NULL: not known yet */
static char *kept;       /* all files that are laid once more, at the same offsets, whatever takes their place in the pool */
static struct sigaction before;

/* Held while mappings change, for the signal handler, too; so a mutex will not do. */
static atomic_flag lock = ATOMIC_FLAG_INIT;
static uint64_t changes;

static void acquire(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        sched_yield();
}

static void release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

/* A mapping that is shared is repeated by moving none of it (mremap(2)). */
static int repeat(char *from, uint64_t len_bytes, char *at)
{
    return mremap(from, 0, len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED ? errno : 0;
}

static void forget(uint64_t offset, uint64_t len_bytes)
{
    mmap(kept + offset, len_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Has the pool's own pages in a range, with the advice that QEMU gives for RAM: neighbours of the same kind are one mapping to Linux, of
 * which there may not be too many. */
static int show_pool(uint64_t offset, uint64_t len_bytes)
{
    char *at = pool_start + offset;
    if (mmap(at, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pool, (off_t)offset) == MAP_FAILED)
        return errno;
    forget(offset, len_bytes);
    madvise(at, len_bytes, MADV_DONTFORK);
    madvise(at, len_bytes, MADV_HUGEPAGE);
    return 0;
}

static int show_file(int file, const struct message *request)
{
    int access = request->how & WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
    char *at = kept + request->offset;
    if (mmap(at, request->len_bytes, access, MAP_SHARED | MAP_FIXED, file, (off_t)request->file_offset) == MAP_FAILED)
        return errno;
    return repeat(at, request->len_bytes, pool_start + request->offset);
}

/* No more than these pages stay attached. No page of it can be lost. */
static int show_segment(const struct message *request)
{
    int id = (int)(request->how >> ID_SHIFT), error = EINVAL;
    char *from = shmat(id, NULL, request->how & WRITABLE ? 0 : SHM_RDONLY);
    struct shmid_ds status;
    if (from == (void *)-1)
        return errno;
    if (shmctl(id, IPC_STAT, &status) == 0 && request->file_offset < status.shm_segsz &&
        request->len_bytes <= (status.shm_segsz - request->file_offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES) {
        forget(request->offset, request->len_bytes);
        error = repeat(from + request->file_offset, request->len_bytes, pool_start + request->offset);
    }
    shmdt(from);
    return error;
}

/* Where QEMU has all of the pool; NULL: nowhere. */
static char *find_pool(void)
{
    static char line[PATH_MAX + 256];
    unsigned long start, end, offset, inode;
    unsigned int major_part, minor_part;
    char *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && found == NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &start, &end, &offset, &major_part, &minor_part, &inode) == 6 &&
            inode == pool_file.st_ino && makedev(major_part, minor_part) == pool_file.st_dev && offset == 0 && end - start >= pool_bytes)
            found = (char *)start;
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* The number in "CPU 3/TCG", as QEMU names its threads. */
static uint64_t cpu_of_thread(void)
{
    char name[16] = "";
    uint64_t number = 0;
    const char *digit = name + 4;
    prctl(PR_GET_NAME, name);
    if (strncmp(name, "CPU ", 4) != 0 || *digit < '0' || *digit > '9')
        return UINT64_MAX;
    while (*digit >= '0' && *digit <= '9')
        number = number * 10 + (uint64_t)(*digit++ - '0');
    return number;
}

static int show_zeros(char *at, uint64_t len_bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return mmap(at, len_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? errno : 0;
}

/* A page that the file still does not have is lost again when it is touched. */
static int restore(uint64_t offset, uint64_t len_bytes)
{
    char *again = mremap(kept + offset, 0, len_bytes, MREMAP_MAYMOVE); /* refused where there is no file */
    if (again == MAP_FAILED)
        return errno;
    if (mremap(again, len_bytes, len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pool_start + offset) != MAP_FAILED)
        return 0;
    munmap(again, len_bytes);
    return show_zeros(pool_start + offset, len_bytes);
}

/* Puts a page of zeros where a file has none; whether that was done, or is not needed any more. */
static int replace(char *page)
{
    static _Thread_local __attribute__((tls_model("initial-exec"))) char *touched;
    static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t touched_at;
    struct notice lost = {LOST, (uint64_t)(page - pool_start), cpu_of_thread()};
    int is_done = 1;
    acquire();
    if (page == touched && changes == touched_at) {
        changes++;
        is_done = show_zeros(page, PAGE_BYTES) == 0;
        if (is_done)
            send(job, &lost, sizeof lost, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    /* Else something may have been laid since, or another thread was here: it is touched again. */
    touched = page;
    touched_at = changes;
    release();
    return is_done;
}

static void on_bus_error(int signo, siginfo_t *info, void *context)
{
    char *page = (char *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE_BYTES);
    int kept = errno;
    if (info->si_code == BUS_ADRERR && page >= pool_start && page < pool_start + pool_bytes && replace(page)) {
        errno = kept;
        return;
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signo, info, context);
    } else {
        sigaction(signo, &before, NULL);
        raise(signo);
    }
}

/* QEMU starts its threads with SIGBUS blocked, and Linux kills who meets one that is. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                                          void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    sigset_t bus, old;
    int error;
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, &old);
    error = create(thread, attributes, start, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* QEMU maps the pool and sets a handler of its own after it has started: all that is left to do is done for the first request. Mapped
 * anew by this descriptor, the pool's pages are one mapping with those that are cleared. */
static int prepare(void)
{
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (pool_start != NULL)
        return 0;
    if (kept == NULL && (kept = mmap(NULL, pool_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED) {
        kept = NULL;
        return ENOMEM;
    }
    if ((pool_start = find_pool()) == NULL)
        return ENXIO;
    sigaction(SIGBUS, &ours, &before);
    return show_pool(0, pool_bytes);
}

static int is_range(uint64_t offset, uint64_t len_bytes, uint64_t limit)
{
    return offset % PAGE_BYTES == 0 && len_bytes % PAGE_BYTES == 0 && len_bytes != 0 && offset <= limit && len_bytes <= limit - offset;
}

/* Without a word to the file's system, which may never answer. */
static int is_regular(int file)
{
    struct statx status;
    return statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 && S_ISREG(status.stx_mode);
}

static int is_right(const struct message *request, const int *fds, int count)
{
    int is_laid = is_range(request->file_offset, request->len_bytes, INT64_MAX);
    if (!is_range(request->offset, request->len_bytes, pool_bytes))
        return 0;
    switch (request->command) {
    case LAY:
        return count == 2 && is_laid && request->how <= WRITABLE && is_regular(fds[1]);
    case SEGMENT:
        return count == 1 && is_laid && (uint32_t)request->how <= WRITABLE;
    case RESTORE:
        return count <= 1 && request->file_offset == 0 && request->how == 0;
    default:
        return request->command == CLEAR && count == 1 && request->file_offset == 0 && request->how == 0;
    }
}

static int cover(int file, const struct message *request)
{
    int error = request->command == LAY ? show_file(file, request) : show_segment(request);
    if (error != 0) /* Linux may have unmapped what was there before */
        show_pool(request->offset, request->len_bytes);
    else /* who finds the pool's pages here later must not find what others had in them */
        fallocate(pool, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)request->offset, (off_t)request->len_bytes);
    return error;
}

static int carry_out(const struct message *request, const int *fds, int count)
{
    int error;
    if (!is_right(request, fds, count))
        return EINVAL;
    acquire();
    changes++;
    error = prepare();
    if (error == 0 && request->command == RESTORE)
        error = restore(request->offset, request->len_bytes);
    else if (error == 0 && request->command == CLEAR)
        error = show_pool(request->offset, request->len_bytes);
    else if (error == 0)
        error = cover(fds[1], request);
    release();
    return error;
}

/* Takes a request, which is none (0) when its length is wrong, and its descriptors; how many these are, or -1 at the end of the job. */
static int receive(struct message *request, int fds[MOST_FDS])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control;
    struct iovec part = {request, sizeof *request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd end = {.fd = job, .events = POLLRDHUP};
    ssize_t received = recvmsg(job, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = received < 0 ? NULL : CMSG_FIRSTHDR(&message);
    int count = 0;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(head), (size_t)count * sizeof(int));
    }
    if (received != sizeof *request || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        request->command = 0;
    /* A message of no bytes looks like the end. */
    return received <= 0 && count == 0 && poll(&end, 1, 0) == 1 ? -1 : count;
}

static void *serve(void *unused)
{
    struct message request;
    int fds[MOST_FDS], count;
    while ((count = receive(&request, fds)) >= 0) {
        int32_t answer = carry_out(&request, fds, count);
        if (count > 0)
            send(fds[0], &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (count > 0)
            close(fds[--count]);
    }
    return unused;
}

/* A script that starts QEMU is given this library first: it has to leave all as it is. */
static int is_qemu(void)
{
    char path[PATH_MAX] = "/";
    return readlink("/proc/self/exe", path, sizeof path - 1) > 0 && strstr(strrchr(path, '/'), "qemu") != NULL;
}

/* Leaves QEMU what the user had, and closes the library, which is named by a descriptor. */
static void restore_environment(void)
{
    const char *list = getenv("LD_PRELOAD"), *others = list == NULL ? NULL : strchr(list, ':');
    int library;
    if (list != NULL && sscanf(list, "/proc/self/fd/%d", &library) == 1)
        close(library);
    if (others == NULL || setenv("LD_PRELOAD", others + 1, 1) != 0)
        unsetenv("LD_PRELOAD");
    unsetenv("MARGAY_AGENT");
}

static __attribute__((constructor)) void begin(void)
{
    const char *own = getenv("MARGAY_AGENT");
    struct notice hello = {.what = HELLO};
    pthread_t thread;
    sigset_t all, old;
    if (own == NULL || !is_qemu() || sscanf(own, "%d,%d", &job, &pool) != 2 || fstat(pool, &pool_file) != 0)
        return;
    pool_bytes = (uint64_t)pool_file.st_size;
    restore_environment();
    fcntl(job, F_SETFD, FD_CLOEXEC);
    fcntl(pool, F_SETFD, FD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, serve, NULL) == 0) {
        pthread_detach(thread);
        pthread_setname_np(thread, "margay-agent");
        send(job, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
