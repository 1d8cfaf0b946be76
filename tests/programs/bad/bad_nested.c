// Bad pointers inside of structures: iovec of readv, writev and their kin,
// msghdr of sendmsg and recvmsg, ifconf of ioctl. All give EFAULT, and the
// valid pieces around them are not written beyond what Linux would do.
#include "../common/check.h"
#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static char page[PAGE_BYTES];

static void vectors(int fd, void *bad, const char *name)
{
    struct iovec one = {bad, 64}, wrap = {bad, SIZE_MAX / 2}, many[100];
    lseek(fd, 0, SEEK_SET);
    check_fails(readv(fd, &one, 1), EFAULT, name);
    check_fails(writev(fd, &one, 1), EFAULT, "writev");
    check_fails(preadv(fd, &one, 1, 0), EFAULT, "preadv");
    check_fails(pwritev(fd, &one, 1, 0), EFAULT, "pwritev");
    long result = writev(fd, &wrap, 1);
    check(result == -1 && (errno == EFAULT || errno == EINVAL), "a piece that reaches across all memory");
    for (int i = 0; i < 100; i++)
        many[i] = one;
    check_fails(readv(fd, many, 100), EFAULT, "a hundred of them");
    check(lseek(fd, 0, SEEK_CUR) == 0, "the offset did not move");
}

// Sockets may be missing altogether; when they are there, they must refuse.
static void messages(void *bad, const char *name)
{
    int ends[2];
    int have = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0;
    struct iovec v = {bad, 64}, good = {page, 64};
    struct msghdr in_piece = {.msg_iov = &v, .msg_iovlen = 1};
    struct msghdr in_list = {.msg_iov = bad, .msg_iovlen = 1};
    struct msghdr in_control = {.msg_iov = &good, .msg_iovlen = 1, .msg_control = bad, .msg_controllen = 64};
    struct msghdr in_name = {.msg_iov = &good, .msg_iovlen = 1, .msg_name = bad, .msg_namelen = 64};
    struct msghdr *const list[] = {&in_piece, &in_list, &in_control, &in_name};
    int failed = 0;
    for (int i = 0; i < 4; i++)
        failed += !have || (sendmsg(ends[0], list[i], 0) == -1 && (errno == EFAULT || errno == EISCONN));
    failed += !have || (syscall(SYS_sendmsg, ends[0], bad, 0) == -1 && errno == EFAULT);
    failed += !have || (write(ends[0], "0123456789", 10) == 10 && recvmsg(ends[1], &in_piece, 0) == -1 && errno == EFAULT);
    check(failed == 6, "msghdr: %s", name);
    if (have) {
        close(ends[0]);
        close(ends[1]);
    }
}

static void interface_list(void *bad, const char *name)
{
    struct ifconf c = {.ifc_len = 4096, .ifc_ifcu.ifcu_buf = bad};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    // Without any interface nothing is written, and that is no failure.
    long result = s < 0 ? -1 : ioctl(s, SIOCGIFCONF, &c);
    check(s < 0 || (result == -1 && errno == EFAULT) || (result == 0 && c.ifc_len == 0), "ifconf: %s", name);
    close(s);
}

int main(void)
{
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    char *p = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(fd >= 0 && p != MAP_FAILED && munmap(p + PAGE_BYTES, PAGE_BYTES) == 0, "set-up");
    need(mprotect(p + 2 * PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
    memset(page, 'p', sizeof page);
    need(write(fd, page, sizeof page) == sizeof page, "write");
    const struct {
        uintptr_t at;
        const char *name;
    } places[] = {
        {8, "8"},
        {(uintptr_t)p + PAGE_BYTES, "a hole"},
        {(uintptr_t)p + 2 * PAGE_BYTES, "PROT_NONE"},
        {UINT64_C(128) << 39, "slot 128"},
        {(UINT64_C(200) << 39) + 123, "slot 200, misaligned"},
        {(UINT64_C(254) << 39) + 0x1000, "slot 254"},
        {0x8000000000000000, "2^63"},
        {0xffff800000000000, "the kernel"},
        {0xffffffffffffffc0, "the last bytes"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        printf("  -- %s\n", places[i].name);
        vectors(fd, (void *)places[i].at, places[i].name);
        messages((void *)places[i].at, places[i].name);
        interface_list((void *)places[i].at, places[i].name);
    }
    // Misaligned but valid: x86 allows it, everywhere.
    struct iovec *odd = (struct iovec *)(p + 3);
    memcpy(odd, &(struct iovec){p + 101, 33}, sizeof *odd);
    lseek(fd, 0, SEEK_SET);
    check(readv(fd, odd, 1) == 33 && all_bytes(p + 101, 'p', 33) && p[134] == 0, "a misaligned iovec and piece work");
    // A list of pieces whose end lies behind the last page.
    odd = (struct iovec *)(p + PAGE_BYTES - 16);
    memcpy(odd, &(struct iovec){p, 8}, 16);
    check(readv(fd, odd, 1) == 8, "a list that ends with the page");
    check_fails(readv(fd, odd, 2), EFAULT, "one that reaches beyond it");
    check(getppid() > 0, "and the program goes on");
    return check_done();
}
