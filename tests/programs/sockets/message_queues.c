// System V message queues of one process, and POSIX ones that signal: order, kinds and lengths of messages, calls that would wait,
// that a signal ends, and the order of errors.
//
// Regression: there were no System V queues, and none that signal (ENOSYS).
#include "../common/check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/time.h>

static struct message {
    long kind;
    char text[64];
} in, out;

static int id;

static int sends(long kind, const char *text)
{
    out.kind = kind;
    strcpy(out.text, text);
    return msgsnd(id, &out, strlen(text), 0);
}

// The message that msgrcv takes; "" for none.
static const char *taken(long kind, int flags)
{
    memset(&in, 0, sizeof in);
    ssize_t got = msgrcv(id, &in, sizeof in.text - 1, kind, flags | IPC_NOWAIT);
    return got >= 0 && got == (ssize_t)strlen(in.text) ? in.text : "";
}

static void messages(void)
{
    need(sends(3, "three") == 0 && sends(1, "one") == 0 && sends(2, "two") == 0 && sends(1, "last") == 0, "msgsnd");
    check(strcmp(taken(2, 0), "two") == 0 && in.kind == 2, "by its kind");
    check(strcmp(taken(-2, 0), "one") == 0, "the least kind");
    check(strcmp(taken(0, 0), "three") == 0, "the first");
    check(strcmp(taken(3, MSG_EXCEPT), "last") == 0, "any other kind");
    check_fails(msgrcv(id, &in, 64, 0, IPC_NOWAIT), ENOMSG, "there is none");
    need(sends(1, "a long one") == 0, "msgsnd");
    check_fails(msgrcv(id, &in, 4, 0, 0), E2BIG, "too long for the buffer");
    memset(in.text, '-', sizeof in.text);
    check(msgrcv(id, &in, 4, 0, MSG_NOERROR) == 4 && memcmp(in.text, "a lo-", 5) == 0, "cut, and nothing behind is written");
    need(msgsnd(id, &out, 0, 0) == 0, "msgsnd");
    check(msgrcv(id, &in, 0, 0, 0) == 0 && in.kind == 1, "an empty one");
}

static void errors(void)
{
    out.kind = 0;
    check_fails(msgsnd(id, &out, 1, 0), EINVAL, "no kind");
    check_fails(msgsnd(id, (void *)8, 1, 0), EFAULT, "a bad pointer to send from");
    check_fails(syscall(SYS_msgsnd, id, &out, -1, 0), EINVAL, "less than nothing");
    check_fails(msgsnd(id, &out, 1 << 30, 0), EINVAL, "too much");
    check_fails(msgsnd(-1, &out, 1, 0), EINVAL, "no queue");
    need(sends(1, "x") == 0, "msgsnd");
    check_fails(msgrcv(id, (void *)8, 64, 0, 0), EFAULT, "a bad pointer to receive to");
    struct msqid_ds about;
    check(msgctl(id, IPC_STAT, &about) == 0 && about.msg_qnum == 0, "that took the message");
    about.msg_qbytes = 8;
    check(msgctl(id, IPC_SET, &about) == 0 && msgctl(id, IPC_STAT, &about) == 0 && about.msg_qbytes == 8, "a small queue");
    check_fails(msgctl(id, IPC_STAT, (void *)8), EFAULT, "a bad pointer to say it to");
    need(sends(1, "12345678") == 0, "msgsnd");
    check_fails(msgsnd(id, &out, 8, IPC_NOWAIT), EAGAIN, "a full queue");
}

static volatile sig_atomic_t caught, value, code;
static void on_alarm(int signo) { (void)signo; }
static void on_message(int signo, siginfo_t *info, void *context)
{
    (void)context;
    caught = signo, value = info->si_value.sival_int, code = info->si_code;
}

static void waits(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval alarm = {.it_value.tv_usec = 20000};
    need(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &alarm, NULL) == 0, "alarm");
    check_fails(msgsnd(id, &out, 8, 0), EINTR, "a full queue, and a signal whose handler restarts calls");
    need(strcmp(taken(0, 0), "12345678") == 0 && setitimer(ITIMER_REAL, &alarm, NULL) == 0, "alarm");
    check_fails(msgrcv(id, &in, 64, 0, 0), EINTR, "an empty one");
}

// A message that comes to an empty queue signals who wants that, once.
static void notified(void)
{
    struct sigaction action = {.sa_sigaction = on_message, .sa_flags = SA_SIGINFO};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 16};
    char name[64], text[16];
    snprintf(name, sizeof name, "/margay-%d", getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
    need(queue >= 0 && mq_unlink(name) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "mq_open");
    check(mq_notify(queue, &event) == 0, "a signal is wanted");
    check_fails(mq_notify(queue, &event), EBUSY, "twice");
    need(mq_send(queue, "x", 1, 0) == 0, "mq_send");
    check(caught == SIGUSR1 && value == 42 && code == SI_MESGQ, "it has come when the message is sent");
    caught = 0;
    need(mq_receive(queue, text, sizeof text, NULL) == 1 && mq_send(queue, "y", 1, 0) == 0, "mq_send");
    check(caught == 0, "and comes once");
    event.sigev_notify = SIGEV_NONE;
    check(mq_notify(queue, &event) == 0 && mq_notify(queue, NULL) == 0, "none is wanted");
    event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = 65;
    check_fails(mq_notify(queue, &event), EINVAL, "no signal");
    event.sigev_notify = SIGEV_THREAD, event.sigev_signo = queue;
    check_fails(syscall(SYS_mq_notify, queue, &event), EFAULT, "no cookie");
    check_fails(syscall(SYS_mq_notify, queue, 8), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_mq_notify, 99, NULL), EBADF, "no queue");
}

int main(void)
{
    id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    need(id >= 0, "msgget");
    messages();
    errors();
    waits();
    check(msgctl(id, IPC_RMID, NULL) == 0, "removed");
    check_fails(msgget(0x4d617267, 0), ENOENT, "a key that no queue has");
    notified();
    return check_done();
}
