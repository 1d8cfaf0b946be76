// Says where it runs: rank and size as a launcher gives them, process, CPU.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

// The first of some environment variables that is set.
static const char *first_of(const char *const *names)
{
    for (; *names; names++)
        if (getenv(*names))
            return getenv(*names);
    return NULL;
}

int main(void)
{
    // Ours first, then those of Open MPI, PMI and Slurm.
    static const char *const rank_names[] = {"MARGAY_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const size_names[] = {"MARGAY_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    const char *rank = first_of(rank_names), *size = first_of(size_names);
    struct utsname u;
    uname(&u);
    if (rank && size)
        printf("hello from rank %s of %s: ", rank, size);
    else
        printf("hello: ");
    printf("process %d on CPU %d, %s %s %s\n", (int)getpid(), sched_getcpu(), u.sysname, u.release, u.machine);
    return 0;
}
