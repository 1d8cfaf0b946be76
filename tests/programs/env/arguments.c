// Prints its arguments byte for byte (also empty, long, with spaces and not in
// ASCII), and the environment variables whose names begin with MARGAY_TEST_.
#include "../common/check.h"

extern char **environ;

static void quoted(const char *text)
{
    putchar('[');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~' || c == '\\')
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    puts("]");
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    printf("%d arguments\n", argc);
    quoted(slash ? slash + 1 : argv[0]);
    for (int i = 1; i < argc; i++) {
        printf("%zu bytes ", strlen(argv[i]));
        quoted(argv[i]);
    }
    check(argv[argc] == NULL, "a NULL after the last");
    check(environ == argv + argc + 1, "the environment follows");
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MARGAY_TEST_", 12) == 0)
            quoted(*e);
    const char *value = getenv("MARGAY_TEST_VALUE");
    printf("MARGAY_TEST_VALUE is %s\n", value ? value : "not set");
    argv[1 < argc ? 1 : 0][0] = '#';
    check(argv[1 < argc ? 1 : 0][0] == '#', "arguments can be written to");
    return check_done();
}
