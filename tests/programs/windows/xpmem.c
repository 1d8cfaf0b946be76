// XPMEM between ranks, by plain requests to /dev/xpmem: rank 1 offers memory, rank 0 attaches it, and requests what it must not
// get. Then rank 1 becomes another program, and ends.
#include "requests.h"

#include <sys/stat.h>

enum { AREA_PAGES = 4, AREA_BYTES = AREA_PAGES * PAGE_BYTES };

// At the same address in each rank, and in each program that rank 1 is.
static volatile char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));
static const char constant[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES))) = "a constant";
static volatile int64_t whole, part, read_only, hidden, once, offered_by_0, permit_of_1;
static volatile pid_t pid;
static char *_Atomic unmapped;

// ---- The device ------------------------------------------------------------

static void the_device(void)
{
    struct stat status;
    check(stat("/dev/xpmem", &status) == 0 && S_ISCHR(status.st_mode), "a character device");
    check(access("/dev/xpmem", R_OK | W_OK) == 0, "that may be used");
    check_fails(unlink("/dev/xpmem"), ENOENT, "and not removed");
    check_fails(open("/dev/xpmem", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST, "nor made");
    check_fails(open("/dev/xpmem", O_RDONLY | O_DIRECTORY), ENOTDIR, "nor opened as a directory");
    device = open("/dev/xpmem", O_RDWR);
    check(device >= 0 && request(VERSION, NULL) == 0x27004, "its version");
    check(request(FORK_BEGIN, NULL) == 0 && request(FORK_END, NULL) == 0, "before and after a fork");
    check_fails(request(FORK_END + 1, NULL), ENOTTY, "a request that it does not have");
    check(fcntl(device, F_SETFD, FD_CLOEXEC) == 0 && fstat(device, &status) == 0 && S_ISCHR(status.st_mode),
          "its descriptor is of a character device");
}

// What a descriptor is counts, not which number it has.
static void descriptors(void)
{
    int kept = device, null = open("/dev/null", O_RDWR), file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(null >= 0 && file >= 0, "two files");
    device = null;
    check_fails(request(VERSION, NULL), ENOTTY, "of /dev/null");
    check_fails(make(area, AREA_BYTES, 0600), ENOTTY, "to /dev/null");
    device = file;
    check_fails(make(area, AREA_BYTES, 0600), ENOTTY, "to a file");
    device = 1 << 20;
    check_fails(make(area, AREA_BYTES, 0600), EBADF, "to a descriptor that is not open");
    device = -1;
    check_fails(make(area, AREA_BYTES, 0600), EBADF, "to no descriptor");
    device = dup(kept);
    int64_t segment = make(area, AREA_BYTES, 0600);
    check(segment > 0, "a copy of the descriptor is as good");
    close(device);
    check_fails(removed(segment), EBADF, "once it is closed it is nothing");
    check(dup2(file, device) == device, "its number is another file's");
    check_fails(removed(segment), ENOTTY, "to which it is no request");
    check(dup3(kept, device, O_CLOEXEC) == device && removed(segment) == 0, "and the device's again");
    check(close_range((unsigned)device, (unsigned)device, 0) == 0, "close_range");
    check_fails(make(area, AREA_BYTES, 0600), EBADF, "closes it, too");
    device = kept;
    close(null), close(file);
    unlink("file");
}

// ---- What is offered, and to whom ------------------------------------------

static void wrong_offers(void)
{
    struct make info = {.bytes = AREA_BYTES, .kind = 2};
    check_fails(make(area, 0, 0600), EINVAL, "nothing offered");
    check_fails(make(area + 1, PAGE_BYTES, 0600), EINVAL, "from within a page");
    check_fails(make(area, PAGE_BYTES + 1, 0600), EINVAL, "no whole pages");
    check_fails(make(area, AREA_BYTES, 01600), EINVAL, "more than permissions");
    check_fails(make(OF(1, &area[0]), AREA_BYTES, 0600), EINVAL, "another's memory");
    check_fails(make((void *)UINT64_C(0x7ffffff000), 2 * PAGE_BYTES, 0600), EINVAL, "beyond the end");
    check_fails(make((void *)PAGE_BYTES, -(uint64_t)PAGE_BYTES, 0600), EINVAL, "a length that wraps");
    check_fails(make((void *)UINT64_C(0xffff800000000000), PAGE_BYTES, 0600), EINVAL, "the kernel's");
    check_fails(request(MAKE, &info), EINVAL, "another kind of permission");
    check_fails(request(MAKE, NULL), EFAULT, "an offer that cannot be read");
    check_fails(request(MAKE, (void *)UINT64_C(0xffff800000000000)), EFAULT, "nor of the kernel's memory");
    check_fails(request(MAKE, (void *)(uintptr_t)constant), EINVAL, "one that makes no sense");
}

static void wrong_permits(void)
{
    struct get info = {.segment = *OF(1, &whole), .flags = READ_WRITE, .kind = BY_MODE, .value = 0600};
    int64_t segment = *OF(1, &whole);
    check_fails(get(0, READ_WRITE), EINVAL, "a segment 0");
    check_fails(get(-segment, READ_WRITE), EINVAL, "a negative one");
    check_fails(get(segment + (INT64_C(1000) << 32), READ_WRITE), ENOENT, "a forged number");
    check_fails(get(segment ^ 1 << 30, READ_WRITE), ENOENT, "of a process that is no rank");
    check_fails(get((segment >> 32 << 32) + 1, READ_WRITE), ENOENT, "of init");
    check_fails(get(segment, READ_ONLY | READ_WRITE), EINVAL, "both ways");
    check_fails(get(segment, 4), EINVAL, "a third way");
    check_fails(request(GET, &info), EINVAL, "a permission that is given");
    info.value = 0, info.kind = 0;
    check_fails(request(GET, &info), EINVAL, "none of any kind");
    check_fails(request(GET, (void *)(uintptr_t)constant), EINVAL, "a permit that makes no sense");
    if (geteuid() != 0) {
        check_fails(get(*OF(1, &read_only), READ_WRITE), EACCES, "to write what is to be read");
        check_fails(get(*OF(1, &hidden), READ_ONLY), EACCES, "what nobody may have");
    }
    int64_t permit = get(*OF(1, &read_only), READ_ONLY);
    check(permit > 0, "to read it");
    check(attach(permit, 0, PAGE_BYTES) == (void *)-1 && errno == EACCES, "attachments can be written");
    check(release(permit) == 0, "released");
    check_fails(release(permit), ENOENT, "released twice");
    check_fails(release(*OF(1, &permit_of_1)), EACCES, "another's permit released");
    check_fails(removed(*OF(1, &whole)), EACCES, "another's segment removed");
    check_fails(release(0), EINVAL, "no permit");
    check_fails(removed(-1), EINVAL, "no segment");
    check_fails(removed(INT64_C(1) << 32 | 1), ENOENT, "a segment of init");
}

// ---- Attachments -----------------------------------------------------------

static void attached(void)
{
    int64_t permit = get(*OF(1, &whole), READ_WRITE), of_part = get(*OF(1, &part), READ_WRITE);
    check(permit > 0 && of_part > 0 && permit != of_part, "two permits");
    int64_t offset = (int64_t)(uintptr_t)area;
    volatile char *at = attach(permit, offset, AREA_BYTES);
    check(at == OF(1, &area[0]) && at[0] == 'w', "rank 1's memory, where its window shows it");
    at[0] = 'x';
    check(attach(of_part, PAGE_BYTES, PAGE_BYTES) == OF(1, &area[2 * PAGE_BYTES]), "a part of a part");
    check(attach_at(permit, offset, AREA_BYTES, OF(1, &area[0])) == OF(1, &area[0]), "at the address where it is");
    check(attach_at(permit, offset, 1, area) == (void *)-1 && errno == EINVAL, "and at no other");
    struct { int64_t permit, offset; uint64_t bytes; } wrong[] = {
        {of_part, 0, 0}, {of_part, 1, 1}, {of_part, 0, 2 * PAGE_BYTES + 1}, {of_part, 2 * PAGE_BYTES, 1},
        {of_part, -PAGE_BYTES, PAGE_BYTES}, {of_part, PAGE_BYTES, UINT64_MAX}, {permit, 0, UINT64_MAX}, {0, 0, 1}, {-1, 0, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check(attach(wrong[i].permit, wrong[i].offset, wrong[i].bytes) == (void *)-1 && errno == EINVAL, "not attached: %zu", i);
    check(attach(permit + (INT64_C(99) << 32), 0, 1) == (void *)-1 && errno == ENOENT, "a forged permit");
    check(attach(*OF(1, &permit_of_1), 0, 1) == (void *)-1 && errno == EACCES, "another's permit");
    volatile char *gone = attach(permit, (int64_t)(uintptr_t)*OF(1, &unmapped), PAGE_BYTES);
    check(gone == OF(1, *OF(1, &unmapped)), "addresses at which nothing is mapped");
    check_faults(load_byte, gone, SEGV_MAPERR, "that is found out by who goes there");
    volatile char *fixed = attach(permit, (int64_t)(uintptr_t)constant, PAGE_BYTES);
    check(strcmp((const char *)fixed, constant) == 0, "read-only memory");
    check_faults(store_byte, fixed, SEGV_ACCERR, "stays that: the owner's protection counts");
    check(detach(at) == 0 && detach(at + PAGE_BYTES) == 0 && detach(fixed) == 0, "detached");
    check(detach(at) == 0, "detached twice: there is nothing to do");
    check_fails(detach(area), EINVAL, "our own memory is not attached");
    check(detach(NULL) == 0 && detach((void *)UINT64_C(0xffff800000000000)) == 0, "where nothing is mapped nothing is detached");
    struct attach *info = (struct attach *)OF(1, &area[PAGE_BYTES]);
    *info = (struct attach){.permit = permit, .offset = offset, .bytes = 1};
    check(request(ATTACH, info) == 0 && info->at == (uintptr_t)OF(1, &area[0]), "a request that lies in another's memory");
    check(release(of_part) == 0 && attach(of_part, 0, 1) == (void *)-1 && errno == ENOENT, "a permit that was released");
}

static void own_memory(void)
{
    int64_t segment = make(area, AREA_BYTES, 0600), permit = get(segment, READ_WRITE);
    area[5] = 'm';
    volatile char *at = attach(permit, 0, AREA_BYTES);
    check(at == OF(0, &area[0]) && at[5] == 'm', "our own memory by our own window");
    check(removed(segment) == 0 && attach(permit, 0, 1) == (void *)-1 && errno == ENOENT, "no more when it is removed");
    check(release(permit) == 0, "the permit is there to be released");
    check_fails(removed(segment), ENOENT, "removed twice");
}

// Results that cannot be written: nothing is left behind, or the ids would be used up by what cannot be named.
static void not_written(void)
{
    enum { MOST = 1024 };
    char *two = pages(2, PROT_READ | PROT_WRITE);
    struct make *info = (struct make *)(two + PAGE_BYTES - offsetof(struct make, segment) - 8);
    *info = (struct make){.start = (uintptr_t)area, .bytes = PAGE_BYTES, .kind = BY_MODE, .mode = 0600};
    need(mprotect(two, PAGE_BYTES, PROT_READ) == 0, "mprotect");
    int failed = 0;
    for (int i = 0; i <= MOST; i++)
        failed += request(MAKE, info) == -1 && errno == EFAULT;
    check(failed == MOST + 1, "offers in read-only memory");
    static int64_t made[MOST];
    int count = 0;
    while (count < MOST && (made[count] = make(area, PAGE_BYTES, 0600)) > 0)
        count++;
    check(count == MOST - 1, "1,024 offers at a time: one is made already"); // offered_by_0
    check_fails(make(area, PAGE_BYTES, 0600), ENOMEM, "one more");
    for (int i = 0; i < count; i++)
        failed += removed(made[i]) != 0;
    check(failed == MOST + 1 && removed(make(area, PAGE_BYTES, 0600)) == 0, "removed, there is room again");
}

// ---- What becomes of them ----------------------------------------------------

static void rank_1(int argc, char **argv)
{
    pid = getpid();
    if (argc > 1) { // the second program
        device = atoi(argv[1]);
        int64_t old = atoll(argv[2]);
        shared->word[1] = request(RELEASE, &old) == -1 && errno == ENOENT;
        whole = make(NULL, UINT64_MAX, 0600);
        area[0] = 's';
        meet(4);
        meet(5);
        return;
    }
    device = open("/dev/xpmem", O_RDWR);
    memset((char *)area, 'w', AREA_BYTES);
    whole = make(NULL, UINT64_MAX, 0666);
    part = make(area + PAGE_BYTES, 2 * PAGE_BYTES, 0600);
    read_only = make(area, PAGE_BYTES, 0400);
    hidden = make(area, PAGE_BYTES, 0);
    once = make(area, PAGE_BYTES, 0600);
    unmapped = pages(1, PROT_READ | PROT_WRITE);
    munmap(unmapped, PAGE_BYTES);
    permit_of_1 = get(*OF(0, &offered_by_0), READ_WRITE);
    meet(1);
    meet(2);
    shared->word[0] = removed(once) == 0 && area[0] == 'x';
    meet(3);
    char number[16], permit[32];
    snprintf(number, sizeof number, "%d", device);
    snprintf(permit, sizeof permit, "%lld", (long long)permit_of_1);
    execv("/proc/self/exe", (char *[]){"xpmem", number, permit, NULL});
    need(0, "execv");
}

static void rank_0(void)
{
    int64_t permit = get(*OF(1, &whole), READ_WRITE), for_once = get(*OF(1, &once), READ_WRITE);
    int64_t offset = (int64_t)(uintptr_t)area, segment = *OF(1, &whole);
    volatile char *at = attach(permit, offset, AREA_BYTES);
    need(at == OF(1, &area[0]) && attach(for_once, 0, 1) == at, "attach");
    meet(2);
    meet(3);
    check(shared->word[0] == 1, "rank 1 has found what was written, and removed a segment");
    check(attach(for_once, 0, 1) == (void *)-1 && errno == ENOENT, "which can be attached no more");
    meet(4);
    check(shared->word[1] == 1, "another program has none of the permits");
    check(attach(permit, offset, 1) == (void *)-1 && errno == ENOENT, "nor its segments");
    check_fails(get(segment, READ_WRITE), ENOENT, "by no permit");
    check(*OF(1, &whole) != segment, "no id is used again");
    check(at[0] == 's', "what was attached shows the memory of the rank as it is");
    int64_t of_second = get(*OF(1, &whole), READ_WRITE);
    check(attach(of_second, offset, 1) == at, "what the other program offers");
    segment = *OF(1, &whole);
    meet(5);
    AWAIT(!smartmap_alive(1));
    check(attach(of_second, offset, 1) == (void *)-1 && errno == ENOENT, "a rank that has ended offers nothing");
    check_fails(get(segment, READ_WRITE), ENOENT, "to nobody");
    check_faults(load_byte, at, SEGV_MAPERR, "what was attached is gone");
    check(detach(at) == 0 && release(of_second) == 0 && release(permit) == 0, "and given back");
}

int main(int argc, char **argv)
{
    begin_ranks();
    if (own_rank == 0) {
        the_device();
        offered_by_0 = make(area, AREA_BYTES, 0600);
    }
    if (argc == 1)
        meet(0);
    if (own_rank == 1)
        rank_1(argc, argv);
    if (own_rank != 0)
        return 0;
    meet(1);
    descriptors();
    wrong_offers();
    wrong_permits();
    attached();
    own_memory();
    not_written();
    rank_0();
    return end_ranks();
}
