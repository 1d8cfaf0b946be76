// getpid and its kin: one thread whose id is the process's, ids that stay the
// same, sets of user and group ids that agree, and uname's fixed fields. A
// group or session whose leader is outside the pid namespace, as in a
// container that was entered, has the id 0 (pid_namespaces(7)).
#include "../common/check.h"
#include <sys/syscall.h>
#include <sys/utsname.h>

int main(void)
{
    struct utsname u;
    pid_t pid = getpid();
    check(pid > 1, "getpid gives a pid");
    check(syscall(SYS_gettid) == pid, "gettid gives the same: this is thread 0");
    check(syscall(SYS_getpid) == pid, "as a system call too");
    check(getppid() > 0 && getppid() != pid, "there is a parent");
    check(getpgrp() >= 0 && getpgid(0) == getpgrp() && getpgid(pid) == getpgrp(), "a process group");
    check(getsid(0) >= 0 && getsid(pid) == getsid(0), "a session");
    int same = 0;
    for (int i = 0; i < 10000; i++)
        same += syscall(SYS_getpid) == pid && syscall(SYS_gettid) == pid;
    check(same == 10000, "10,000 times the same");

    uid_t r, e, s;
    gid_t gr, ge, gs;
    check(getresuid(&r, &e, &s) == 0 && r == getuid() && e == geteuid() && s == e, "user ids agree");
    check(getresgid(&gr, &ge, &gs) == 0 && gr == getgid() && ge == getegid() && gs == ge, "group ids agree");
    int groups = getgroups(0, NULL);
    gid_t list[256];
    check(groups >= 0 && (groups > 256 || getgroups(256, list) == groups), "supplementary groups");
    check(kill(pid, 0) == 0, "the pid is that of a process");
    check(kill(getppid(), 0) == 0 || errno == EPERM, "and so is its parent's");
    check(syscall(SYS_set_tid_address, &r) == pid, "set_tid_address gives the thread's id");

    check(uname(&u) == 0, "uname");
    check(strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0, "Linux, x86_64");
    int major = atoi(u.release);
    check(major >= 3 && strchr(u.release, '.') != NULL, "a release that libraries can parse");
    check(u.nodename[0] != 0 && u.version[0] != 0, "a node name and a version");
    char host[256];
    check(gethostname(host, sizeof host) == 0 && strcmp(host, u.nodename) == 0, "gethostname agrees");
    check_fails(syscall(SYS_uname, 8), EFAULT, "a bad pointer");
    return check_done();
}
