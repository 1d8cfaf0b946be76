#define _GNU_SOURCE
#include "real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "team.h"

struct real real;

/** In what all may use, else in what the caller was linked with (a module of Python). */
static void *find(void *callers, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found || !callers ? found : dlsym(callers, name);
}

void real_find(const void *caller)
{
    Dl_info info;
    void *callers = dladdr(caller, &info) && info.dli_fname
                        ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    if (find(callers, "ompi_mpi_comm_world")) {
        smartmap_say("this program is linked with Open MPI: start it by mpirun.openmpi, or with "
                     "SMARTMAP_DISABLE=1");
        exit(EXIT_FAILURE);
    }
    struct real r = { .found = true };
    /* ISO C has no conversion from void * to functions; dlsym(3) shows how. */
#define FIND(name) *(void **)&r.name = find(callers, "PMPI_" #name);
    REAL_FUNCTIONS(FIND)
#undef FIND
#define FIND(name, Name, ...)                              \
    *(void **)&r.Name = find(callers, "PMPI_" #Name);      \
    *(void **)&r.Name##_c = find(callers, "PMPI_" #Name "_c");
    COLLECTIVES(FIND)
#undef FIND
    if (!r.Init) {
        smartmap_say("found no MPI that this program is linked with");
        exit(EXIT_FAILURE);
    }
    real = r;
}
