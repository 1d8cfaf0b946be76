// MPI-IO: explicit offsets, views, shared pointers, collective and non-blocking access; what the file then holds. It leaves the
// files that it has written.
#include "conform.h"

#include <sys/stat.h>

enum { N = 4000 };
#define W MPI_COMM_WORLD
static int out[N], in[N * 32];

// Whether the file holds these integers of all ranks, in their order, as read by plain calls.
static int holds(const char *name, int each)
{
    int right = 1;
    MPI_Barrier(W);
    FILE *file = fopen(name, "rb");
    int *all = malloc(size * each * sizeof *all);
    right &= file && fread(all, sizeof *all, size * each, file) == (size_t)(size * each);
    for (int r = 0; right && r < size; r++)
        right &= is_from(all + r * each, each, r);
    if (file)
        fclose(file);
    free(all);
    return right;
}

static MPI_File opened(const char *name, int mode)
{
    MPI_File file = MPI_FILE_NULL;
    need(MPI_File_open(W, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS, name);
    return file;
}

static void by_offset(void)
{
    MPI_File file = opened("offsets", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset where = (MPI_Offset)rank * N * sizeof(int), bytes;
    MPI_Status status;
    MPI_Request request;
    int got = -1;
    fill(out, N, rank);
    MPI_File_write_at(file, where, out, N, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    MPI_File_sync(file);
    MPI_Barrier(W);
    MPI_File_sync(file);
    agree(got == N && holds("offsets", N), "write_at");
    MPI_File_read_at(file, (MPI_Offset)next * N * sizeof(int), in, N, MPI_INT, &status);
    agree(is_from(in, N, next), "read_at");
    MPI_File_write_at_all(file, where, out, N, MPI_INT, &status);
    memset(in, 0, sizeof in);
    MPI_File_read_at_all(file, where, in, N, MPI_INT, &status);
    agree(is_from(in, N, rank), "write_at_all and read_at_all");
    MPI_File_iread_at(file, where, in, N, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_File_iwrite_at(file, where, in, N, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    agree(is_from(in, N, rank) && got == N, "iread_at and iwrite_at");
    MPI_File_get_size(file, &bytes);
    MPI_File_read_at(file, bytes, in, 10, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    agree(bytes == (MPI_Offset)size * N * (int)sizeof(int) && got == 0, "the size, and nothing behind it");
    MPI_File_set_size(file, 4096);
    MPI_File_get_size(file, &bytes);
    agree(bytes == 4096, "set_size cuts");
    MPI_File_preallocate(file, 65536);
    MPI_File_get_size(file, &bytes);
    agree(bytes == 65536, "preallocate");
    MPI_File_seek(file, -40, MPI_SEEK_END);
    MPI_File_get_position(file, &where);
    agree(where == 65536 - 40, "seek from the end");
    MPI_File_close(&file);
}

// Each rank sees every size-th block of 100.
static void by_view(void)
{
    MPI_File file = opened("views", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Datatype mine;
    MPI_Status status;
    MPI_Offset position;
    int right = 1;
    MPI_Type_vector(N / 100, 100, 100 * size, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, (MPI_Offset)rank * 100 * sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
    fill(out, N, rank);
    MPI_File_write_all(file, out, N, MPI_INT, &status);
    MPI_File_get_position(file, &position);
    agree(position == N, "write_all through a view");
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    MPI_File_read_all(file, in, N, MPI_INT, &status);
    agree(is_from(in, N, rank), "read_all through a view");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, in, N * size, MPI_INT, &status);
    for (int i = 0; i < N * size; i++) {
        int block = i / 100, of = block % size;
        right &= in[i] == value(of, block / size * 100 + i % 100);
    }
    agree(right, "blocks of ranks take turns in the file");
    // A part of a square that lies across the file.
    int whole[] = {2 * size, 50}, part[] = {2, 50}, start[] = {2 * (size - 1 - rank), 0};
    MPI_Type_free(&mine);
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, 0, MPI_INT, mine, "native", MPI_INFO_NULL);
    MPI_File_write(file, out, 100, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(W);
    MPI_File_sync(file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, (MPI_Offset)100 * rank, in, 100, MPI_INT, &status);
    agree(is_from(in, 100, size - 1 - rank), "subarrays");
    MPI_Type_free(&mine);
    MPI_File_close(&file);
}

static void by_shared_pointer(void)
{
    MPI_File file = opened("ordered", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Status status;
    MPI_Offset position = -1;
    int right = 1, *seen = calloc(size, sizeof *seen);
    fill(out, 500, rank);
    MPI_File_write_ordered(file, out, 500, MPI_INT, &status);
    MPI_File_sync(file);
    agree(holds("ordered", 500), "write_ordered");
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered(file, in, 500, MPI_INT, &status);
    agree(is_from(in, 500, rank), "read_ordered");
    MPI_File_close(&file);
    // In whatever order: each record once.
    file = opened("shared", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 10; k++)
            out[k] = rank;
        MPI_File_write_shared(file, out, 10, MPI_INT, &status);
    }
    MPI_File_sync(file);
    MPI_Barrier(W);
    MPI_File_get_position_shared(file, &position);
    MPI_File_read_at(file, 0, in, 200 * size, MPI_INT, &status);
    for (int i = 0; i < 200 * size; i++)
        right &= in[i] >= 0 && in[i] < size && in[i] == in[i / 10 * 10] && ++seen[in[i]] <= 200;
    agree(right && position == 200 * size * (int)sizeof(int), "write_shared");
    free(seen);
    MPI_File_close(&file);
    struct stat left;
    MPI_Barrier(W);
    agree(stat("shared", &left) == -1 && errno == ENOENT, "delete_on_close");
}

static void modes(void)
{
    MPI_File file;
    int class, atomic = 0, mode = 0;
    class = class_of(MPI_File_open(W, "nowhere/file", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    agree(class == MPI_ERR_NO_SUCH_FILE, "no such directory");
    class = class_of(MPI_File_open(W, "missing", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    agree(class == MPI_ERR_NO_SUCH_FILE, "no such file");
    file = opened("offsets", MPI_MODE_RDONLY);
    class = class_of(MPI_File_write_at(file, 0, out, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_File_get_amode(file, &mode);
    agree(class != MPI_SUCCESS && mode == MPI_MODE_RDONLY, "nothing is written to what may only be read");
    MPI_File_close(&file);
    file = opened("atomic", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_EXCL);
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &atomic);
    if (rank == 0) {
        fill(out, 1000, 3);
        MPI_File_write_at(file, 0, out, 1000, MPI_INT, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(W);
    MPI_File_read_at(file, 0, in, 1000, MPI_INT, MPI_STATUS_IGNORE);
    agree(atomic && is_from(in, 1000, 3), "atomic mode");
    MPI_File_close(&file);
    file = MPI_FILE_NULL;
    class = MPI_File_open(MPI_COMM_SELF, "atomic", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_EXCL, MPI_INFO_NULL, &file);
    agree(class_of(class) == MPI_ERR_FILE_EXISTS, "a file that is there is not made again");
    MPI_Barrier(W);
    if (rank == 0)
        MPI_File_delete("atomic", MPI_INFO_NULL);
    MPI_Barrier(W);
    agree(access("atomic", F_OK) == -1, "delete");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    by_offset();
    by_view();
    by_shared_pointer();
    modes();
    return end();
}
