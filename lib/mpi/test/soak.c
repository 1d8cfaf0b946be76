/*
 * soak CALLS [SEED [SECONDS]]: random collectives with random parameters on
 * random communicators, each compared with the model.  With SECONDS it stops
 * at the first hundred that ends after so long: a library that never yields
 * would take minutes where ranks outnumber CPUs.
 */
#include "model.h"

enum { HUNDRED = 100 };

static int time_is_up(double start, double seconds)
{
    int up = seconds > 0 && MPI_Wtime() - start > seconds;
    MPI_Bcast(&up, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return up;
}

static struct params draw(unsigned *seed, int size)
{
    struct params p = {
        .what = rand_r(seed) % COLLECTIVES, .root = rand_r(seed) % size,
        .in_place = rand_r(seed) % 3 == 0, .send = rand_r(seed) % LAYOUTS,
        .receive = rand_r(seed) % LAYOUTS, .operation = rand_r(seed) % OPERATIONS,
        .where = rand_r(seed) % 6 == 0,
    };
    static const int limits[] = { 3, 20, 300, 300, 2000 };
    int limit = rand_r(seed) % 100 == 0 ? 20000 : limits[rand_r(seed) % 5];
    p.count = rand_r(seed) % limit;
    return p;
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3];
    int rank, size, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long calls = argc > 1 ? atol(argv[1]) : 1000, done = 0;
    double seconds = argc > 3 ? atof(argv[3]) : 0, start = MPI_Wtime();
    const unsigned first_seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    unsigned seed = first_seed;
    model_start();
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    for (int i = 0; i < 3; i++)
        MPI_Barrier(comms[i]); /* ranks meet by the MPI's own means, which may wait for the dead */
    if (rank == 0)
        fprintf(stderr, "soak: running\n");
    while (done < calls) {
        struct params p = draw(&seed, size);
        run_case(&p, comms[rand_r(&seed) % 3]);
        if (++done % HUNDRED == 0 && time_is_up(start, seconds))
            break;
    }
    model_stop();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("soak: %d ranks, %ld collectives, seed %u: %d wrong\n", size, done, first_seed,
               all);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    MPI_Finalize();
    return all != 0;
}
