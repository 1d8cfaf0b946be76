// A thread that has ended has no directory in /proc, by whatever name.
//
// Regression: calls that name the directory itself found that of the thread that had served it.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/stat.h>

static pid_t tid;
static void *say_tid(void *arg)
{
    tid = (pid_t)syscall(SYS_gettid);
    return arg;
}

int main(void)
{
    char path[64];
    struct stat stat_of;
    joined(start(say_tid, NULL));
    snprintf(path, sizeof path, "/proc/%d/task/%d", getpid(), tid);
    AWAIT(access(path, R_OK) != 0); // Linux takes it away after the thread has been joined
    check_fails(stat(path, &stat_of), ENOENT, "its directory");
    snprintf(path, sizeof path, "/proc/self/task/%d", tid);
    check_fails(access(path, F_OK), ENOENT, "by another name");
    snprintf(path, sizeof path, "/proc/%d", tid);
    check_fails(stat(path, &stat_of), ENOENT, "by its number alone");
    int tasks = open("/proc/self/task", O_DIRECTORY);
    snprintf(path, sizeof path, "%d", tid);
    check_fails(faccessat(tasks, path, F_OK, 0), ENOENT, "from the directory that it was in");
    snprintf(path, sizeof path, "%d", getpid());
    check(faccessat(tasks, path, F_OK, 0) == 0, "where the first thread's is");
    return check_done();
}
