// Shared by the C programs of children/: children that end by themselves, and
// what they report.
#ifndef MARGAY_CHILDREN_H
#define MARGAY_CHILDREN_H

#include "parallel.h"

#include <sys/wait.h>

// A child that ends with this status.
CHECK_HELPER pid_t child(int code)
{
    pid_t pid = forked();
    if (pid == 0)
        _exit(code);
    return pid;
}

// Waits for it; its status is as wait(2) has it.
CHECK_HELPER int status_of(pid_t pid)
{
    int status;
    need(waitpid(pid, &status, 0) == pid, "waitpid");
    return status;
}

// Waits until it has ended, and leaves it to be waited for.
CHECK_HELPER void await_end(pid_t pid)
{
    siginfo_t info;
    need(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0, "waitid");
}

// Runs `body` in a child, whose exit status it returns; returns the child's status.
CHECK_HELPER int in_child(int (*body)(void))
{
    pid_t pid = forked();
    if (pid == 0)
        _exit(body());
    return status_of(pid);
}
#define IN_CHILD(text, body) check(in_child(body) == 0, text)

#endif
