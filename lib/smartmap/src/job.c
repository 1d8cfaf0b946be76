/*
 * Who are we?  Rank on the node, ranks on the node and the job's name, as the
 * launchers tell their children: Open MPI (mpirun), hydra (MPICH, Intel MPI),
 * or the SMARTMAP_* variables for everything else.
 *
 * The first allocation of a process may come before the C library has set
 * `environ`, so the initial environment is read from /proc/self/environ, with
 * system calls only.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum { ENVIRON_MAX_BYTES = 4 << 20, STAT_MAX_BYTES = 1024 };

static size_t read_file(const char *path, char *buffer, size_t capacity)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t length = 0;
    while (length < capacity - 1) {
        long got = syscall(SYS_read, fd, buffer + length, capacity - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    syscall(SYS_close, fd);
    buffer[length] = '\0';
    return length;
}

/** Value of `name` in a block of NUL-terminated NAME=value strings. */
static const char *lookup(const char *block, size_t length, const char *name)
{
    size_t name_length = strlen(name);
    for (const char *p = block; p < block + length; p += strlen(p) + 1)
        if (strncmp(p, name, name_length) == 0 && p[name_length] == '=')
            return p + name_length + 1;
    return NULL;
}

/** FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/**
 * Name of a job whose launcher gives none: all its ranks on the node are
 * children of one launcher process; its start time tells reused pids apart.
 */
static uint64_t hash_parent(uint64_t hash)
{
    char stat[STAT_MAX_BYTES], path[32];
    pid_t parent = getppid();
    char digits[12], *d = digits + sizeof digits;
    for (unsigned v = (unsigned)parent; v || d == digits + sizeof digits; v /= 10)
        *--d = (char)('0' + v % 10);
    size_t n = (size_t)(digits + sizeof digits - d);
    memcpy(path, "/proc/", 6);
    memcpy(path + 6, d, n);
    memcpy(path + 6 + n, "/stat", 6);
    hash = hash_bytes(hash, &parent, sizeof parent);
    size_t length = read_file(path, stat, sizeof stat);
    if (length == 0)
        return hash;
    /* proc(5): field 22 is starttime; the name, field 2, may hold spaces. */
    char *field = strrchr(stat, ')');
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (!field)
        return hash;
    char *end = strchr(field + 1, ' ');
    return hash_bytes(hash, field, end ? (size_t)(end - field) : 0);
}

static const struct {
    const char *rank, *size, *job;
} launchers[] = {
    { "SMARTMAP_RANK", "SMARTMAP_SIZE", "SMARTMAP_JOB" },
    { "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE" },
    { "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL },
};

static void read_launcher(struct job *job, const char *block, size_t length)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *rank = lookup(block, length, launchers[i].rank);
        const char *size = lookup(block, length, launchers[i].size);
        if (!rank || !size)
            continue;
        long r = strtol(rank, NULL, 10), n = strtol(size, NULL, 10);
        if (r < 0 || r >= n || n > SMARTMAP_MAX_RANKS)
            return;
        uid_t user = geteuid();
        uint64_t key = hash_bytes(UINT64_C(0xcbf29ce484222325), &user, sizeof user);
        const char *name =
            launchers[i].job ? lookup(block, length, launchers[i].job) : NULL;
        job->key = name ? hash_bytes(key, name, strlen(name)) : hash_parent(key);
        job->rank = (int)r;
        job->size = (int)n;
        return;
    }
}

void job_identify(struct job *job)
{
    *job = (struct job){ .rank = -1 };
    char *block = raw_mmap(NULL, ENVIRON_MAX_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED)
        return;
    size_t length = read_file("/proc/self/environ", block, ENVIRON_MAX_BYTES);
    const char *off = lookup(block, length, "SMARTMAP_DISABLE");
    if (!off || *off == '\0' || *off == '0')
        read_launcher(job, block, length);
    const char *bytes = lookup(block, length, "SMARTMAP_ARENA_BYTES");
    if (bytes)
        job->arena_bytes = strtoull(bytes, NULL, 0);
    const char *keep = lookup(block, length, "SMARTMAP_KEEP");
    job->keeps = !keep || *keep != '0';
    raw_munmap(block, ENVIRON_MAX_BYTES);
}
