// Keys and rings of them (add_key, request_key, keyctl): what is put in comes out, by number and by name; rings of thread and process;
// keys that are changed, found, revoked; errors. unshare of what a process with one thread shares with no other.
//
// Regression: ENOSYS, EPERM.
#include "../common/check.h"
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/syscall.h>

#define KEYCTL(...) syscall(SYS_keyctl, __VA_ARGS__)

typedef int32_t serial;

static serial add(const char *kind, const char *name, const void *value, size_t bytes, serial ring)
{
    return (serial)syscall(SYS_add_key, kind, name, value, bytes, ring);
}

static void in_and_out(serial ring)
{
    char value[64], about[200], wanted[200];
    serial key = add("user", "margay:one", "secret", 6, ring);
    check(key > 0, "a key");
    memset(value, 'x', sizeof value);
    check(KEYCTL(KEYCTL_READ, key, value, sizeof value) == 6 && memcmp(value, "secretx", 7) == 0, "its value, and nothing behind");
    memset(value, 'x', sizeof value);
    check(KEYCTL(KEYCTL_READ, key, value, 3) == 6, "where there is too little room, how long it is");
    check(KEYCTL(KEYCTL_READ, key, NULL, 0) == 6, "and where there is none");
    check(KEYCTL(KEYCTL_UPDATE, key, "another", 7) == 0 && KEYCTL(KEYCTL_READ, key, value, sizeof value) == 7 &&
              memcmp(value, "another", 7) == 0,
          "another value");
    long length = KEYCTL(KEYCTL_DESCRIBE, key, about, sizeof about);
    snprintf(wanted, sizeof wanted, "user;%d;%d;", (int)getuid(), (int)getgid());
    check(length > 0 && strncmp(about, wanted, strlen(wanted)) == 0 && strstr(about, ";margay:one") != NULL, "what it is");
    check(KEYCTL(KEYCTL_SEARCH, ring, "user", "margay:one", 0) == key, "found by its name");
    check(syscall(SYS_request_key, "user", "margay:one", NULL, 0) == key, "and by request_key");
    check(add("user", "margay:one", "third", 5, ring) == key, "added again it is the same");
    check(KEYCTL(KEYCTL_SETPERM, key, 0x3f3f0000) == 0, "its rights");
    check(KEYCTL(KEYCTL_UNLINK, key, ring) == 0, "taken out");
    check_fails(syscall(SYS_request_key, "user", "margay:one", NULL, 0), ENOKEY, "it is found no more");
}

static void rings(void)
{
    serial process = (serial)KEYCTL(KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1);
    serial thread = (serial)KEYCTL(KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 1);
    check(process > 0 && thread > 0 && process != thread, "a ring of the process, one of the thread");
    serial ring = add("keyring", "margay:ring", NULL, 0, process), key = add("user", "margay:two", "2", 1, thread);
    check(ring > 0 && key > 0, "a ring in one, a key in the other");
    check(KEYCTL(KEYCTL_LINK, key, ring) == 0, "the key in both");
    serial keys[4] = {0};
    check(KEYCTL(KEYCTL_READ, ring, keys, sizeof keys) == sizeof keys[0] && keys[0] == key, "the ring has it");
    check(KEYCTL(KEYCTL_CLEAR, ring) == 0 && KEYCTL(KEYCTL_READ, ring, keys, sizeof keys) == 0, "and is cleared");
    check(KEYCTL(KEYCTL_REVOKE, key) == 0, "revoked");
    check_fails(KEYCTL(KEYCTL_READ, key, keys, sizeof keys), EKEYREVOKED, "it is read no more");
}

static void refused(void)
{
    char *volatile nowhere = (char *)8;
    char value[8];
    check_fails(add("user", "margay:bad", nowhere, 5, KEY_SPEC_PROCESS_KEYRING), EFAULT, "a bad value");
    check_fails(add("user", nowhere, "x", 1, KEY_SPEC_PROCESS_KEYRING), EFAULT, "a bad name");
    check_fails(add(nowhere, "margay:bad", "x", 1, KEY_SPEC_PROCESS_KEYRING), EFAULT, "a bad kind");
    check_fails(add("no such kind", "margay:bad", "x", 1, KEY_SPEC_PROCESS_KEYRING), ENODEV, "no kind");
    check_fails(add("user", "", "x", 1, KEY_SPEC_PROCESS_KEYRING), EINVAL, "no name");
    check_fails(add("user", "margay:bad", "x", (size_t)2 << 20, KEY_SPEC_PROCESS_KEYRING), EINVAL, "much too long a value");
    check_fails(KEYCTL(KEYCTL_READ, 0x7fffffff, value, sizeof value), ENOKEY, "no key");
    check_fails(KEYCTL(KEYCTL_JOIN_SESSION_KEYRING, nowhere), EFAULT, "a bad name of a ring");
    check_fails(KEYCTL(9999), EOPNOTSUPP, "no command");
}

static void taken_apart(void)
{
    check(unshare(0) == 0 && unshare(CLONE_FILES | CLONE_FS) == 0, "descriptors and folder, which no other shares");
    check(unshare(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM) == 0, "as a thread that is alone");
    check_fails(unshare(CLONE_PTRACE), EINVAL, "nothing that can be taken apart");
}

int main(void)
{
    in_and_out(KEY_SPEC_PROCESS_KEYRING);
    rings();
    refused();
    taken_apart();
    return check_done();
}
