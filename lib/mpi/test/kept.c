/*
 * kept: what is known of a handle is not made twice (coll/mpich/handles.h).
 *
 * A search without the lock finds nothing when it stands on a node that another
 * thread takes out, though what it searches lies behind.  Where nodes are made
 * the search was one of these, too: a communicator in use got a second team, for
 * which this rank waited alone.
 *
 * Here a node is hidden, and there again as soon as a lock is taken: the other
 * thread then has done its work.  The MPI's functions are this file's.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int take_lock(pthread_mutex_t *mutex);
#define pthread_mutex_lock take_lock
#include "../coll/mpich/comm.c"
#include "../coll/mpich/handles.c"
#undef pthread_mutex_lock

enum { COMM = 0x44001234 };

struct real real;
static struct handle *hidden;
static int attributes, ended;

static struct handle *_Atomic *bucket(void) { return &all.bucket[COMM & (BUCKETS - 1)]; }

static int take_lock(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_lock(mutex);
    if (mutex == &all.lock && hidden) {
        atomic_store(bucket(), hidden);
        hidden = NULL;
    }
    return error;
}

static int no_inter(MPI_Comm comm, int *flag) { return *flag = 0, MPI_SUCCESS; }
static int two(MPI_Comm comm, int *size) { return *size = 2, MPI_SUCCESS; }
static int first(MPI_Comm comm, int *rank) { return *rank = 0, MPI_SUCCESS; }
static int set_attribute(MPI_Comm comm, int key, void *value) { return attributes++, MPI_SUCCESS; }
static int create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *drop,
                         int *key, void *extra)
{
    return *key = 1, MPI_SUCCESS;
}

bool job_has_all_of(MPI_Comm comm) { return true; }
void smartmap_abort(port_comm_t comm) { abort(); }
void team_start(struct team *t, int rank, int size) { *t = (struct team){ .rank = rank, .size = size }; }
void team_end(struct team *t) { ended++; }

int main(void)
{
    real = (struct real){ .found = true, .Comm_test_inter = no_inter, .Comm_size = two, .Comm_rank = first,
                          .Comm_create_keyval = create_keyval, .Comm_set_attr = set_attribute };
    struct team *made = comm_team(COMM);
    hidden = atomic_load(bucket());
    atomic_store(bucket(), NULL);
    struct team *found = comm_team(COMM);
    int wrong = !made || found != made || attributes != 1 || hidden != NULL || ended != 0;
    printf("kept: %d wrong\n", wrong);
    return wrong;
}
