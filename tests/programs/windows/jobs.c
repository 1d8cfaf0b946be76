// Two jobs at the same time, in one directory: `jobs NAME OTHER`. Each says in a file which process its rank 1 is and what that
// offers by XPMEM, and reaches nothing of what the other says, nor any memory but its own ranks'.
#include "requests.h"

#include <sys/uio.h>

enum { AREA_BYTES = 2 * PAGE_BYTES, MOST_SLOTS = 255 };

// At the same address in all ranks of both.
static volatile char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));

struct told {
    pid_t pid;
    int64_t segment, permit;
};

// The file is there with all that it has to say.
static void tell(const char *name, const struct told *told)
{
    char unfinished[32];
    snprintf(unfinished, sizeof unfinished, "%s.unfinished", name);
    int fd = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    need(fd >= 0 && write(fd, told, sizeof *told) == sizeof *told && rename(unfinished, name) == 0, "a file");
    close(fd);
}

static struct told heard_of(const char *name)
{
    struct told told;
    int fd;
    AWAIT((fd = open(name, O_RDONLY)) >= 0);
    need(read(fd, &told, sizeof told) == sizeof told, "what is in the file");
    close(fd);
    return told;
}

static void rank_1(const char *name)
{
    struct told told = {.pid = getpid(), .segment = make(area, AREA_BYTES, 0666)};
    told.permit = get(told.segment, READ_WRITE);
    need(told.segment > 0 && told.permit > 0, "what to tell");
    memset((char *)area, name[0], AREA_BYTES);
    tell(name, &told);
}

static void reach_for(const struct told *other)
{
    char bytes[16];
    struct iovec here = {bytes, sizeof bytes}, there = {(void *)(uintptr_t)area, sizeof bytes};
    check_fails(process_vm_readv(other->pid, &here, 1, &there, 1, 0), EPERM, "process_vm_readv of another job's rank");
    check_fails(process_vm_writev(other->pid, &here, 1, &there, 1, 0), EPERM, "process_vm_writev");
    check_fails(get(other->segment, READ_WRITE), ENOENT, "what it offers");
    check(attach(other->permit, 0, PAGE_BYTES) == (void *)-1 && errno == ENOENT, "what it may attach");
    check_fails(release(other->permit), ENOENT, "nor can that be released");
    check_fails(removed(other->segment), ENOENT, "nor the offer taken back");
}

static void look_at_all_slots(char own)
{
    int there = 0, strange = 0;
    for (int rank = 0; rank < MOST_SLOTS; rank++)
        there += fault_of(load_byte, OF(rank, (char *)(uintptr_t)area)).signo == 0;
    for (int i = 0; i < AREA_BYTES; i++)
        strange += OF(1, &area[0])[i] != own;
    check(there == ranks && strange == 0, "no rank is there but this job's own, with what it has stored");
}

int main(int argc, char **argv)
{
    need(argc == 3, "two names");
    char done[32], others[32];
    snprintf(done, sizeof done, "%s.done", argv[1]);
    snprintf(others, sizeof others, "%s.done", argv[2]);
    device = open("/dev/xpmem", O_RDWR);
    begin_ranks();
    if (own_rank == 1)
        rank_1(argv[1]);
    meet(0);
    if (own_rank == 0) {
        struct told other = heard_of(argv[2]);
        reach_for(&other);
        look_at_all_slots(argv[1][0]);
        tell(done, &other);
        heard_of(others);
        look_at_all_slots(argv[1][0]);
    }
    meet(1);
    return end_ranks();
}
