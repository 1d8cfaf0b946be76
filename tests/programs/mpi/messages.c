// Point to point: modes of sending, wildcards, order, probes, requests, persistent and partitioned ones, cancelling.
#include "conform.h"

enum { LARGEST = 1 << 20, TAG = 5 };
static int out[LARGEST], in[LARGEST];

// Whether what the rank before sends to us by `send` arrives, from nothing to 4 MiB.
static int around(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm))
{
    static const int counts[] = {0, 1, 2, 1000, 1024, 16384, 16385, 100000, LARGEST};
    int right = 1;
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
        int count = counts[c], got = -1;
        MPI_Status status;
        MPI_Request request;
        fill(out, count, rank);
        memset(in, 0, count * sizeof *in);
        MPI_Irecv(in, count, MPI_INT, last, TAG, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        send(out, count, MPI_INT, next, TAG, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        right &= got == count && is_from(in, count, last) && status.MPI_SOURCE == last && status.MPI_TAG == TAG;
    }
    return right;
}

static void modes(void)
{
    int bytes = (LARGEST + 1000) * sizeof(int);
    char *buffer = malloc(bytes + MPI_BSEND_OVERHEAD);
    agree(around(MPI_Send), "standard sends, 0 to 4 MiB");
    agree(around(MPI_Ssend), "synchronous sends");
    agree(around(MPI_Rsend), "ready sends");
    MPI_Buffer_attach(buffer, bytes + MPI_BSEND_OVERHEAD);
    agree(around(MPI_Bsend), "buffered sends");
    MPI_Buffer_detach(&buffer, &bytes);
    free(buffer);
    fill(out, 50000, rank);
    MPI_Sendrecv(out, 50000, MPI_INT, next, 1, in, 50000, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    agree(is_from(in, 50000, last), "sendrecv");
    MPI_Sendrecv_replace(out, 50000, MPI_INT, next, 2, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    agree(is_from(out, 50000, last), "sendrecv_replace");
    MPI_Status status;
    int got = -1;
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    agree(got == 0 && status.MPI_SOURCE == MPI_PROC_NULL, "nothing comes of no process");
    MPI_Request self;
    MPI_Irecv(in, 3000, MPI_INT, rank, 4, MPI_COMM_WORLD, &self);
    fill(out, 3000, rank);
    MPI_Send(out, 3000, MPI_INT, rank, 4, MPI_COMM_WORLD);
    MPI_Wait(&self, MPI_STATUS_IGNORE);
    agree(is_from(in, 3000, rank), "a message to oneself");
}

// Rank 0 takes whatever comes: each message once, those of one sender in their order.
static void wildcards(void)
{
    enum { EACH = 200 };
    int right = 1;
    if (rank != 0) {
        for (int i = 0; i < EACH; i++) {
            int count = i % 20 == 0 ? 20000 : i % 7;
            out[0] = i;
            MPI_Send(out, 1 + count, MPI_INT, 0, 100 + i % 3, MPI_COMM_WORLD);
        }
    } else {
        int *seen = calloc(size, sizeof *seen), *others = malloc(32768 * sizeof *others);
        for (int i = 0; i < EACH * (size - 1); i++) {
            MPI_Status status;
            MPI_Recv(others, 32768, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            int from = status.MPI_SOURCE, number = seen[from]++;
            right &= others[0] == number && status.MPI_TAG == 100 + number % 3;
        }
        free(seen);
        free(others);
    }
    agree(right, "any source and any tag, in the order of each sender");
    // The last tag first: messages are matched, not queued.
    MPI_Request sends[8];
    for (int i = 0; i < 8; i++) {
        out[i] = value(rank, i);
        MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &sends[i]);
    }
    for (int i = 7; i >= 0; i--) {
        MPI_Recv(in, 1, MPI_INT, last, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right &= in[0] == value(last, i);
    }
    MPI_Waitall(8, sends, MPI_STATUSES_IGNORE);
    agree(right, "tags in the reverse order");
}

static void probes(void)
{
    static const int counts[] = {0, 3, 5000, 200000};
    int right = 1, matched = 1, flag = 1;
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    agree(!flag, "iprobe finds nothing where there is nothing");
    for (int c = 0; c < 4; c++) {
        int got = -1;
        fill(out, counts[c], rank);
        MPI_Isend(out, counts[c], MPI_INT, next, 8, MPI_COMM_WORLD, &request);
        if (c % 2)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        else
            for (flag = 0; !flag;)
                MPI_Iprobe(last, 8, MPI_COMM_WORLD, &flag, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        right &= got == counts[c] && status.MPI_SOURCE == last;
        MPI_Recv(in, got, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right &= is_from(in, got, last);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out, counts[c], MPI_INT, next, 9, MPI_COMM_WORLD, &request);
        if (c % 2)
            MPI_Mprobe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        else
            for (flag = 0; !flag;)
                MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, &message, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        MPI_Mrecv(in, got, MPI_INT, &message, &status);
        matched &= got == counts[c] && is_from(in, got, last) && message == MPI_MESSAGE_NULL;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    agree(right, "probe and iprobe");
    agree(matched, "mprobe, improbe and mrecv");
}

// Starts 16 messages each way, of which every fourth is large.
static void exchange(MPI_Request *requests)
{
    for (int i = 0; i < 16; i++) {
        int count = i % 4 ? 10 : 20000;
        MPI_Irecv(in + i * 20000, count, MPI_INT, last, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < 16; i++) {
        int count = i % 4 ? 10 : 20000;
        fill(out + i * 20000, count, rank + i);
        MPI_Isend(out + i * 20000, count, MPI_INT, next, i, MPI_COMM_WORLD, &requests[16 + i]);
    }
}

static int exchanged(void)
{
    int right = 1;
    for (int i = 0; i < 16; i++) {
        right &= is_from(in + i * 20000, i % 4 ? 10 : 20000, last + i);
        in[i * 20000] = 0;
    }
    return right;
}

static void requests(void)
{
    MPI_Request all[32];
    int which[32], done, flag, count;
    exchange(all);
    MPI_Waitall(32, all, MPI_STATUSES_IGNORE);
    agree(exchanged(), "waitall");
    exchange(all);
    for (int i = 0; i < 32; i++)
        MPI_Waitany(32, all, &done, MPI_STATUS_IGNORE);
    MPI_Waitany(32, all, &done, MPI_STATUS_IGNORE);
    agree(exchanged() && done == MPI_UNDEFINED, "waitany");
    exchange(all);
    for (int left = 32; left > 0; left -= count)
        MPI_Waitsome(32, all, &count, which, MPI_STATUSES_IGNORE);
    agree(exchanged(), "waitsome");
    exchange(all);
    for (flag = 0; !flag;)
        MPI_Testall(32, all, &flag, MPI_STATUSES_IGNORE);
    agree(exchanged(), "testall");
    exchange(all);
    for (int left = 32; left > 0; left -= flag)
        MPI_Testany(32, all, &done, &flag, MPI_STATUS_IGNORE);
    agree(exchanged(), "testany");
    exchange(all);
    for (int left = 32; left > 0; left -= count)
        MPI_Testsome(32, all, &count, which, MPI_STATUSES_IGNORE);
    agree(exchanged(), "testsome");
    MPI_Status status;
    MPI_Irecv(in, 1, MPI_INT, last, 999, MPI_COMM_WORLD, all);
    MPI_Cancel(all);
    MPI_Wait(all, &status);
    MPI_Test_cancelled(&status, &flag);
    agree(flag, "a receive is cancelled");
}

static void persistent(void)
{
    MPI_Request both[2];
    int right = 1;
    MPI_Recv_init(in, 30000, MPI_INT, last, 11, MPI_COMM_WORLD, &both[0]);
    MPI_Send_init(out, 30000, MPI_INT, next, 11, MPI_COMM_WORLD, &both[1]);
    for (int i = 0; i < 20; i++) {
        fill(out, 30000, rank + i);
        MPI_Startall(2, both);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        right &= is_from(in, 30000, last + i);
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
    agree(right, "persistent requests");
#if MPI_VERSION >= 4
    enum { PARTS = 8, OF = 3000 };
    MPI_Precv_init(in, PARTS, OF, MPI_INT, last, 12, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
    MPI_Psend_init(out, PARTS, OF, MPI_INT, next, 12, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
    for (int i = 0; i < 5; i++) {
        MPI_Startall(2, both);
        fill(out, PARTS * OF, rank + 100 + i);
        for (int part = PARTS - 1; part >= 0; part--)
            MPI_Pready(part, both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        right &= is_from(in, PARTS * OF, last + 100 + i);
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
    agree(right, "partitioned messages");
#endif
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    modes();
    wildcards();
    probes();
    requests();
    persistent();
    return end();
}
