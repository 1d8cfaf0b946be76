// fwrite and fread of the numbered stream in records of 24 bytes through the C
// library's buffers, small and large. Argument: size.
#include "../common/check.h"

static void roundtrip(size_t records, size_t buffer_bytes)
{
    uint64_t record[3];
    struct sums sums = {0};
    char *buffer = malloc(buffer_bytes);
    FILE *f = fopen("stream", "w+b");
    need(buffer != NULL && f != NULL && setvbuf(f, buffer, _IOFBF, buffer_bytes) == 0, "set-up");
    for (size_t i = 0; i < records; i++) {
        seq_fill(record, i * 3, 3);
        if (fwrite(record, sizeof record, 1, f) != 1)
            break;
    }
    check(!ferror(f) && ftell(f) == (long)(records * 24), "%zu records, buffer of %zu bytes", records, buffer_bytes);
    rewind(f);
    int right = 1;
    while (fread(record, sizeof record, 1, f) == 1) {
        right &= seq_matches(record, sums.words, 3);
        sums_add(&sums, record, 3);
    }
    check(right && sums.words == records * 3, "read back");
    sums_print(&sums, "file");
    fclose(f);
    free(buffer);
    remove("stream");
}

int main(int argc, char **argv)
{
    // One eighth of the size through each buffer: this is slow under emulation.
    size_t records = size_arg(argc, argv, 1, 4 << 20) / 8 / 24;
    roundtrip(records, 1000);
    roundtrip(records, 1 << 20);
    return check_done();
}
