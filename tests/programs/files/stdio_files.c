// The C library's streams over files: formatted output and input, seeking,
// ungetc, appending, update mode, all three kinds of buffering, line reading.
#include "../common/check.h"

static void formatted(void)
{
    FILE *f = fopen("table", "w");
    need(f != NULL, "fopen");
    for (int i = 0; i < 1000; i++)
        fprintf(f, "%d %.3f %s\n", i, i / 8.0, i % 2 ? "odd" : "even");
    check(fclose(f) == 0, "1000 lines written");
    f = fopen("table", "r");
    need(f != NULL, "fopen");
    int n, lines = 0, right = 0;
    double x;
    char word[8];
    while (fscanf(f, "%d %lf %7s", &n, &x, word) == 3) {
        right += n == lines && x == lines / 8.0 && word[0] == (lines % 2 ? 'o' : 'e');
        lines++;
    }
    check(lines == 1000 && right == 1000, "and read back with fscanf");
    check(feof(f) && !ferror(f), "up to the end of the file");
    fclose(f);
}

static void seeking(void)
{
    char buf[32];
    FILE *f = fopen("table", "r+");
    need(f != NULL, "fopen");
    check(fseek(f, 0, SEEK_END) == 0, "to the end");
    long size = ftell(f);
    printf("     the table has %ld bytes\n", size);
    rewind(f);
    check(fgets(buf, sizeof buf, f) && strcmp(buf, "0 0.000 even\n") == 0, "the first line");
    long second = ftell(f);
    check(second == 13, "ftell is 13");
    int c = getc(f);
    check(c == '1' && ungetc('X', f) == 'X' && getc(f) == 'X' && getc(f) == ' ', "ungetc");
    fseek(f, second, SEEK_SET);
    check(fputc('7', f) == '7' && fflush(f) == 0, "a byte changed in update mode");
    fseek(f, second, SEEK_SET);
    check(fgets(buf, sizeof buf, f) && buf[0] == '7', "and read back");
    check(fseek(f, -1, SEEK_SET) == -1 && errno == EINVAL, "a seek to -1 is refused");
    fclose(f);
}

static void buffering(void)
{
    static const int modes[] = {_IONBF, _IOLBF, _IOFBF};
    static const char *const names[] = {"unbuffered", "by line", "by block"};
    for (int m = 0; m < 3; m++) {
        char buf[512], back[64] = "";
        FILE *f = fopen("buffered", "w+");
        need(f != NULL && setvbuf(f, buf, modes[m], sizeof buf) == 0, "setvbuf");
        fputs("one\ntwo", f);
        FILE *reader = fopen("buffered", "r");
        need(reader != NULL, "fopen");
        size_t n = fread(back, 1, sizeof back, reader);
        fclose(reader);
        // Standard C libraries differ in how a line buffer treats the rest of
        // a string, so only what all promise is looked at.
        int early = modes[m] == _IONBF ? n == 7 : modes[m] == _IOLBF ? n >= 4 : n == 0;
        check(early, "%s: what another reader sees before fclose", names[m]);
        fclose(f);
    }
    FILE *f = fopen("buffered", "a+");
    fputs(" three\n", f);
    rewind(f);
    char *line = NULL;
    size_t room = 0;
    check(getline(&line, &room, f) == 4 && getline(&line, &room, f) == 10, "getline: 4 and 10 bytes");
    check(strcmp(line, "two three\n") == 0, "the appended text is at the end");
    check(getline(&line, &room, f) == -1, "then the end");
    free(line);
    fclose(f);
}

int main(void)
{
    formatted();
    seeking();
    buffering();
    check(fopen("absent/x", "w") == NULL && errno == ENOENT, "fopen below nothing");
    check(remove("buffered") == 0 && rename("table", "kept") == 0, "remove and rename");
    return check_done();
}
