// What wrong calls return, handlers of errors, and names of errors.
#include "conform.h"

#define W MPI_COMM_WORLD

static int handled, handled_class;
static void handler(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    handled++;
    handled_class = class_of(*error);
}

static void arguments(void)
{
    int token = 0;
    agree(class_of(MPI_Send(&token, 1, MPI_INT, size, 0, W)) == MPI_ERR_RANK, "a rank that there is not");
    agree(class_of(MPI_Send(&token, 1, MPI_INT, next, -5, W)) == MPI_ERR_TAG, "a tag below 0");
    agree(class_of(MPI_Send(&token, -1, MPI_INT, next, 0, W)) == MPI_ERR_COUNT, "a count below 0");
    agree(class_of(MPI_Send(&token, 1, MPI_DATATYPE_NULL, next, 0, W)) == MPI_ERR_TYPE, "no datatype");
    agree(class_of(MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_NULL)) == MPI_ERR_COMM, "no communicator");
    agree(class_of(MPI_Bcast(&token, 1, MPI_INT, size, W)) == MPI_ERR_ROOT, "a root that there is not");
    agree(class_of(MPI_Allreduce(&token, &token, 1, MPI_INT, MPI_OP_NULL, W)) == MPI_ERR_OP, "no operation");
}

// More comes than there is room for; what comes afterwards is right.
static void truncated(int count)
{
    static int out[100000], in[100000];
    MPI_Request request;
    MPI_Status status;
    char name[60];
    fill(out, count, rank);
    memset(in, 0, sizeof in);
    MPI_Isend(out, count, MPI_INT, next, 1, W, &request);
    // Open MPI writes behind the half, natively, too.
    int class = class_of(MPI_Recv(in, count / 2, MPI_INT, last, 1, W, &status));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, count, MPI_INT, next, 2, in, count, MPI_INT, last, 2, W, &status);
    snprintf(name, sizeof name, "%d integers where there is room for half", count);
    agree(class == MPI_ERR_TRUNCATE && is_from(in, count, last), name);
}

static void handlers(void)
{
    MPI_Errhandler ours;
    MPI_Comm comm;
    int token = 0, class, code, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_dup(W, &comm);
    MPI_Comm_create_errhandler(handler, &ours);
    MPI_Comm_set_errhandler(comm, ours);
    MPI_Send(&token, 1, MPI_INT, size + 3, 0, comm);
    agree(handled == 1 && handled_class == MPI_ERR_RANK, "a handler of ours");
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "of the test");
    MPI_Error_string(code, text, &length);
    MPI_Comm_call_errhandler(comm, code);
    agree(handled == 2 && handled_class == class && strcmp(text, "of the test") == 0, "errors of ours");
    MPI_Errhandler_free(&ours);
    MPI_Comm_free(&comm);
    MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
    agree(length > 0 && (int)strlen(text) == length, "errors have names");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    arguments();
    truncated(10);
    truncated(50000);
    handlers();
    return end();
}
