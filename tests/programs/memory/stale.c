// What a page held does not outlive the page: however it got there, and whatever
// happened to the page since, it reads as zero once it was given up
// (MADV_DONTNEED, munmap), and so does the memory that comes next.
//
// A kernel that clears only pages that were written to must track all that
// were: also of those that Linux wrote to for it, and those of the program's own
// file. After that all memory that can be had is looked through: NATIVE_MIB of it
// where a system has more than one would like to touch.
#include "../common/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { PAGES = 24, BYTES = PAGES * PAGE_BYTES, MARK = 0xa5, LARGE_BYTES = 2 << 20 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

// Whole pages of the program's file, and such that are zero in it but were written to.
static char loaded[BYTES + 2 * PAGE_BYTES] = { [0 ... sizeof loaded - 1] = (char)MARK };
static char bss[BYTES + 2 * PAGE_BYTES];
static int file;

static char *map(size_t bytes)
{
    char *at = mmap(NULL, bytes, READ_WRITE, ANON, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int all(const char *at, size_t bytes, int value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (char)value)
            return 0;
    return 1;
}

static void by_store(char *at)
{
    memset(at, MARK, BYTES);
}

static void by_pread(char *at)
{
    check(pread(file, at, BYTES, 0) == BYTES, "pread of all");
}

// More vectors than one message to Linux may take at once, and none of them a whole page.
static void by_readv(char *at)
{
    enum { PIECE = 1000, MOST = BYTES / PIECE + 1 };
    struct iovec vector[MOST];
    int count = 0;
    for (size_t from = 0; from < BYTES; from += PIECE) {
        size_t left = BYTES - from;
        vector[count++] = (struct iovec){ at + from, left < PIECE ? left : PIECE };
    }
    check(preadv(file, vector, count, 0) == BYTES, "preadv of all");
}

static void by_recvmsg(char *at)
{
    int ends[2], good = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0;
    for (size_t from = 0; good && from < BYTES; from += PAGE_BYTES) {
        struct iovec vector = { at + from, PAGE_BYTES };
        struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
        good = write(ends[0], loaded + PAGE_BYTES, PAGE_BYTES) == PAGE_BYTES &&
               recvmsg(ends[1], &message, MSG_WAITALL) == PAGE_BYTES;
    }
    check(good && close(ends[0]) == 0 && close(ends[1]) == 0, "recvmsg of all");
}

// Each leaves the page where it is returned, with its contents.
static char *as_it_is(char *at)
{
    return at;
}

static char *protected_meanwhile(char *at)
{
    mprotect(at, BYTES, PROT_READ);
    mprotect(at, BYTES, PROT_NONE);
    mprotect(at, BYTES, READ_WRITE);
    return at;
}

static char *protected_in_part(char *at)
{
    mprotect(at + BYTES / 2, PAGE_BYTES, PROT_READ);
    mprotect(at + BYTES / 2, PAGE_BYTES, READ_WRITE);
    return at;
}

static char *moved(char *at)
{
    char *room = map(BYTES);
    return mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, room);
}

static void given_up(const char *how, void (*fill)(char *), const char *what, char *(*change)(char *))
{
    char *at = change(map(BYTES));
    fill(at);
    at = change(at);
    check(all(at, BYTES, MARK), "%s, %s: it is there", how, what);
    check(madvise(at, BYTES, MADV_DONTNEED) == 0 && all(at, BYTES, 0), "%s, %s: it is gone", how, what);
    // For the search.
    fill(at);
    munmap(change(at), BYTES);
}

// A page of 2 MiB of which one byte was written, and that was cut up after that.
static void large_and_cut(void)
{
    char *at = map(4 * LARGE_BYTES);
    for (size_t i = 0; i < 4 * LARGE_BYTES; i += LARGE_BYTES / 2)
        at[i + 5 * PAGE_BYTES] = (char)MARK;
    for (size_t i = 0; i < 4 * LARGE_BYTES; i += LARGE_BYTES)
        mprotect(at + i + 64 * PAGE_BYTES, PAGE_BYTES, PROT_NONE);
    for (size_t i = 0; i < 4 * LARGE_BYTES; i += LARGE_BYTES)
        mprotect(at + i + 64 * PAGE_BYTES, PAGE_BYTES, READ_WRITE);
    check(madvise(at, 2 * LARGE_BYTES, MADV_DONTNEED) == 0 && all(at, 2 * LARGE_BYTES, 0),
          "large pages that were cut: it is gone");
    munmap(at, 4 * LARGE_BYTES);
}

static char *whole_pages(char *array)
{
    return (char *)(((uintptr_t)array + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES);
}

// Fewer and smaller pieces until there is no page left.
static void search(size_t most)
{
    size_t found = 0, looked = 0;
    for (size_t bytes = 8 << 20; bytes >= PAGE_BYTES; bytes /= 2)
        for (char *at; looked + bytes <= most && (at = map(bytes)) != NULL; looked += bytes)
            found += !all(at, bytes, 0);
    check(found == 0 && looked > (16 << 20), "all memory that can be had is zero");
}

int main(void)
{
    static const struct {
        const char *name;
        void (*fill)(char *);
    } ways[] = { { "stored", by_store }, { "pread", by_pread }, { "preadv", by_readv }, { "recvmsg", by_recvmsg } };
    static const struct {
        const char *name;
        char *(*change)(char *);
    } changes[] = {
        { "as it is", as_it_is },
        { "protected meanwhile", protected_meanwhile },
        { "protected in part", protected_in_part },
        { "moved", moved },
    };
    const char *native = getenv("NATIVE_MIB");
    size_t most = native ? strtoul(native, NULL, 10) << 20 : SIZE_MAX / 2;

    file = open("marks", O_RDWR | O_CREAT | O_EXCL, 0600);
    check(file >= 0 && write(file, loaded, BYTES) == BYTES, "a file of marks");
    memset(bss, MARK, sizeof bss);
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++)
        for (size_t change = 0; change < sizeof changes / sizeof changes[0]; change++)
            given_up(ways[way].name, ways[way].fill, changes[change].name, changes[change].change);
    large_and_cut();
    check(all(loaded, sizeof loaded, MARK), "the program's file is loaded");
    check(munmap(whole_pages(loaded), BYTES) == 0, "pages of the program's file are given up");
    check(munmap(whole_pages(bss), BYTES) == 0, "pages of its zeroed part are given up");
    search(most);
    unlink("marks");
    return check_done();
}
