// Ranks that compute, about a millisecond at a time, and meet: until one of them gets SIGUSR1. Then each prints how often they met.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t signalled;

static void note_signal(int signo)
{
    (void)signo;
    signalled = 1;
}

static double compute(double x)
{
    for (int i = 0; i < 200000; i++)
        x = x * 0.999 + 0.001 * i;
    return x;
}

int main(int argc, char **argv)
{
    int rank, over = 0;
    long rounds = 0;
    double x = 0;
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d begins\n", rank);
    fflush(stdout);
    sigaction(SIGUSR1, &action, NULL);
    for (; !over; rounds++) {
        int mine = signalled;
        x = compute(x);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    printf("rank %d has met %ld times%s\n", rank, rounds, x < 0 ? "!" : "");
    MPI_Finalize();
    return 0;
}
