// Code that was mapped at an address before does not run there again: that of another file, for which the pool has room only
// when the first one's is gone, and of the same file before it was changed. Runs on a node only, with --shared-memory 8M.
// As text; shared, with `shared` as argument; made executable later, with `later`.
#include "../common/text.h"

enum { ROUNDS = 6, PAGE = 4096 };
static int sharing = MAP_PRIVATE, later;

// Functions at the start of each page that return a number: mov eax, NUMBER; ret.
static void make_code(const char *name, char number)
{
    static char bytes[TEXT_BYTES];
    for (size_t at = 0; at < sizeof bytes; at += PAGE)
        memcpy(bytes + at, (char[]){(char)0xb8, number, 0, 0, 0, (char)0xc3}, 6);
    int fd = open(name, O_CREAT | O_RDWR, 0700);
    need(fd >= 0 && write_all(fd, bytes, sizeof bytes), name);
    close(fd);
}

// Whether all functions of a file, mapped at `at`, return its number.
static int all_return(const char *name, char *at, char number)
{
    int fd = open(name, O_RDONLY), good = 1;
    char *p = mmap(at, TEXT_BYTES, later ? PROT_READ : PROT_READ | PROT_EXEC, sharing | MAP_FIXED, fd, 0);
    need(p == at && (!later || mprotect(p, TEXT_BYTES, PROT_READ | PROT_EXEC) == 0), name);
    close(fd);
    for (size_t page = 0; page < TEXT_BYTES; page += PAGE) {
        int (*function)(void);
        char *start = p + page;
        memcpy(&function, &start, sizeof function);
        good &= function() == number;
    }
    need(mmap(at, TEXT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at, "mmap");
    return good;
}

int main(int argc, char **argv)
{
    later = argc > 1 && strcmp(argv[1], "later") == 0;
    sharing = argc > 1 ? MAP_SHARED : MAP_PRIVATE;
    char *at = mmap(NULL, TEXT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    make_code("first", 1);
    make_code("second", 2);
    settle("second");
    int good = 1;
    for (int round = 0; round < ROUNDS; round++)
        good &= all_return("first", at, 1) & all_return("second", at, 2);
    check(good, "the code of another file runs");
    make_code("second", 3);
    check(all_return("second", at, 3), "code that was changed runs");
    make_code("second", 4);
    settle("second");
    check(all_return("second", at, 4) && all_return("second", at, 4), "and again, which others find, too");
    return check_done();
}
