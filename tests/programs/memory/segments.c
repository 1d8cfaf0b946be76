// System V shared memory: segments are made, attached, seen twice, detached
// and removed.
#include "../common/check.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { BYTES = 2 * PAGE_BYTES + 100, PAGES_BYTES = 3 * PAGE_BYTES };

static char *attach(int id, const void *at, int flags)
{
    char *p = shmat(id, at, flags);
    need(p != (char *)-1, "shmat");
    return p;
}

static void memory_is_one(int id)
{
    char *p = attach(id, NULL, 0), *q = attach(id, NULL, SHM_RDONLY);
    check(all_bytes(p, 0, PAGES_BYTES), "zeros, in whole pages");
    strcpy(p + PAGE_BYTES, "stored");
    check(strcmp(q + PAGE_BYTES, "stored") == 0 && !can_write(q), "attached again it shows the same, as it may");
    check_fails(mprotect(q, PAGE_BYTES, PROT_READ | PROT_WRITE), EACCES, "made writable later");
    check(shmdt(p) == 0 && !can_read(p) && strcmp(q + PAGE_BYTES, "stored") == 0, "detached, the other stays");
    check(shmdt(q) == 0 && !can_read(q + 2 * PAGE_BYTES), "detached, too");
    p = attach(id, NULL, 0);
    check(strcmp(p + PAGE_BYTES, "stored") == 0, "it holds what was stored");
    check(munmap(p, PAGE_BYTES) == 0 && shmdt(p) == 0 && !can_read(p + PAGE_BYTES), "shmdt after a part was unmapped");
}

static void places(int id)
{
    char *at = mmap(NULL, 8 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    check_fails((long)shmat(id, at, 0), EINVAL, "where something is");
    check(shmat(id, at, SHM_REMAP) == at && can_write(at), "with SHM_REMAP, in its place");
    need(shmdt(at) == 0 && munmap(at, 8 * PAGE_BYTES) == 0, "unmap");
    check(shmat(id, at + 5, SHM_RND) == at && shmdt(at) == 0, "with SHM_RND, rounded down");
    check_fails((long)shmat(id, at + 5, 0), EINVAL, "at no page");
    check_fails((long)shmat(id, NULL, SHM_REMAP), EINVAL, "SHM_REMAP nowhere");
    check_fails((long)shmat(-1, NULL, 0), EINVAL, "no segment");
    check_fails(shmdt(at), EINVAL, "shmdt where nothing is");
    char *p = attach(id, NULL, 0);
    check_fails(shmdt(p + PAGE_BYTES), EINVAL, "shmdt in the middle");
    check_fails(shmdt(p + 1), EINVAL, "shmdt at no page");
    need(shmdt(p) == 0, "shmdt");
}

static void control(int id)
{
    struct shmid_ds status;
    char *p = attach(id, NULL, 0);
    check(shmctl(id, IPC_STAT, &status) == 0 && status.shm_segsz == BYTES && status.shm_nattch == 1 &&
              (status.shm_perm.mode & 0777) == 0600 && status.shm_cpid == getpid(), "IPC_STAT");
    status.shm_perm.mode = 0640;
    check(shmctl(id, IPC_SET, &status) == 0 && shmctl(id, IPC_STAT, &status) == 0 &&
              (status.shm_perm.mode & 0777) == 0640, "IPC_SET");
    struct shminfo limits;
    struct shm_info used;
    check(shmctl(0, IPC_INFO, (void *)&limits) >= 0 && limits.shmmin == 1, "IPC_INFO");
    check(shmctl(0, SHM_INFO, (void *)&used) >= 0 && used.used_ids > 0, "SHM_INFO");
    check_fails(shmctl(id, 999, NULL), EINVAL, "an unknown command");
    check_fails(shmctl(id, IPC_STAT, (void *)8), EFAULT, "nowhere to write");
    strcpy(p, "kept");
    check(shmctl(id, IPC_RMID, NULL) == 0 && strcmp(p, "kept") == 0, "removed, it stays where it is attached");
    check(shmctl(id, IPC_STAT, &status) == 0 && (status.shm_perm.mode & SHM_DEST), "and says so");
    check(shmdt(p) == 0, "detached");
    check_fails(shmctl(id, IPC_STAT, &status), EINVAL, "then it is gone");
    check_fails((long)shmat(id, NULL, 0), EINVAL, "for shmat, too");
}

static void keys(void)
{
    key_t key = (key_t)(0x4d000000 | (getpid() & 0xffffff));
    int id = shmget(key, PAGE_BYTES, IPC_CREAT | IPC_EXCL | 0600);
    check(id >= 0 && shmget(key, PAGE_BYTES, 0) == id, "found by its key");
    check_fails(shmget(key, PAGE_BYTES, IPC_CREAT | IPC_EXCL | 0600), EEXIST, "made once");
    check_fails(shmget(key, 2 * PAGE_BYTES, 0), EINVAL, "larger than it is");
    check(shmctl(id, IPC_RMID, NULL) == 0, "removed");
    check_fails(shmget(key, PAGE_BYTES, 0), ENOENT, "not found any more");
    check_fails(shmget(IPC_PRIVATE, 0, 0600), EINVAL, "of no bytes");
}

int main(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    need(id >= 0, "shmget");
    memory_is_one(id);
    places(id);
    control(id);
    keys();
    return check_done();
}
