// stdout and stderr side by side: 2000 lines each with write(2) and with the C
// library; each stream keeps its own order. Ends by closing both and exiting 7.
#include "../common/check.h"

int main(void)
{
    char line[64];
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(line, sizeof line, "out %d%s\n", i, i % 100 ? "" : " --------------------");
        need(write_all(1, line, (size_t)n), "stdout");
        n = snprintf(line, sizeof line, "err %d\n", i * i);
        need(write_all(2, line, (size_t)n), "stderr");
    }
    for (int i = 1000; i < 2000; i++) {
        printf("buffered %d\n", i);
        fprintf(stderr, "unbuffered %d", i);
        fputc('\n', stderr);
    }
    need(fflush(stdout) == 0, "fflush");
    check(write(2, "", 0) == 0 && write(1, "\0\xff\x80\r\n", 5) == 5, "an empty write and odd bytes");
    printf("no newline at the end");
    if (fclose(stdout) != 0 || fclose(stderr) != 0)
        return 1;
    return write(1, "x", 1) == -1 && errno == EBADF ? 7 : 1;
}
