// Files that many threads read, write, append to and make at once: each gets what is there, whole. One case per run.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { FILE_BLOCKS = 64, BLOCK = 4096 };
static int file;
static atomic_int wrong;
static void *read_blocks(void *arg)
{
    static char buffers[4][BLOCK];
    char *buffer = buffers[(intptr_t)arg];
    for (int i = 0; i < 100; i++) {
        int block = (i * 37 + (int)(intptr_t)arg * 11) % FILE_BLOCKS;
        wrong += pread(file, buffer, BLOCK, (off_t)block * BLOCK) != BLOCK || !all_bytes(buffer, block, BLOCK);
    }
    return NULL;
}
static void file_make(void)
{
    char buffer[BLOCK];
    file = open("blocks", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < FILE_BLOCKS; i++) {
        memset(buffer, i, BLOCK);
        need(write(file, buffer, BLOCK) == BLOCK, "write");
    }
}
static void preads(void)
{
    pthread_t threads[4];
    wrong = 0;
    file_make();
    for (intptr_t i = 0; i < 4; i++)
        threads[i] = start(read_blocks, (void *)i);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    check(wrong == 0, "400 blocks read by four threads, each the right one");
    close(file);
    unlink("blocks");
}

// One offset for all: each record is read once.
static atomic_int blocks_seen[FILE_BLOCKS];
static void *read_next(void *arg)
{
    char *buffer = malloc(BLOCK);
    while (read(file, buffer, BLOCK) == BLOCK) {
        wrong += !all_bytes(buffer, buffer[0], BLOCK);
        blocks_seen[(unsigned char)buffer[0] % FILE_BLOCKS]++;
    }
    free(buffer);
    return arg;
}
static void common_offset(void)
{
    pthread_t threads[4];
    int once = 1;
    wrong = 0;
    memset(blocks_seen, 0, sizeof blocks_seen);
    file_make();
    need(lseek(file, 0, SEEK_SET) == 0, "lseek");
    for (int i = 0; i < 4; i++)
        threads[i] = start(read_next, NULL);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    for (int i = 0; i < FILE_BLOCKS; i++)
        once &= blocks_seen[i] == 1;
    check(wrong == 0 && once, "%d blocks read by four threads from one offset, each once", FILE_BLOCKS);
    close(file);
    unlink("blocks");
}

static void *append(void *arg)
{
    for (int i = 0; i < 50; i++) {
        char line[32];
        int length = snprintf(line, sizeof line, "%d %04d\n", (int)(intptr_t)arg, i);
        wrong += write(file, line, (size_t)length) != length;
    }
    return NULL;
}
static void appends(void)
{
    pthread_t threads[4];
    int next[4] = {0}, right = 1, thread, number, lines = 0;
    wrong = 0;
    file = open("log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    for (intptr_t i = 0; i < 4; i++)
        threads[i] = start(append, (void *)i);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    FILE *log = fopen("log", "r");
    for (; fscanf(log, "%d %d", &thread, &number) == 2; lines++)
        right &= thread >= 0 && thread < 4 && next[thread]++ == number;
    check(wrong == 0 && right && lines == 200, "200 lines appended by four threads, whole, each thread's in order");
    fclose(log);
    close(file);
    unlink("log");
}

static void *print_lines(void *arg)
{
    for (int i = 0; i < 50; i++)
        fprintf((FILE *)arg, "%s %s %s\n", "one", "whole", "line");
    return NULL;
}
static void prints(void)
{
    pthread_t threads[4];
    char line[64];
    int right = 1, lines = 0;
    FILE *out = fopen("lines", "w+");
    setvbuf(out, NULL, _IOLBF, 128);
    for (int i = 0; i < 4; i++)
        threads[i] = start(print_lines, out);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    rewind(out);
    for (; fgets(line, sizeof line, out); lines++)
        right &= strcmp(line, "one whole line\n") == 0;
    check(right && lines == 200, "200 lines printed by four threads, all of them whole");
    fclose(out);
    unlink("lines");
}

static void *own_files(void *arg)
{
    char name[32];
    snprintf(name, sizeof name, "file%d", (int)(intptr_t)arg);
    for (int i = 0; i < 25; i++) {
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        struct stat stat;
        wrong += fd < 0 || write(fd, name, 5) != 5 || fstat(fd, &stat) != 0 || stat.st_size != 5 || close(fd) != 0 ||
                 unlink(name) != 0;
    }
    return NULL;
}
static void opens(void)
{
    pthread_t threads[8];
    wrong = 0;
    for (intptr_t i = 0; i < 8; i++)
        threads[i] = start(own_files, (void *)i);
    for (int i = 0; i < 8; i++)
        joined(threads[i]);
    check(wrong == 0, "200 files made, written and removed by eight threads");
    int fd = open("/dev/null", O_RDONLY);
    check(fd == 3, "no descriptor is left");
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(preads), CASE(common_offset), CASE(appends), CASE(prints), CASE(opens),
    };
    return RUN_CASES(cases);
}
