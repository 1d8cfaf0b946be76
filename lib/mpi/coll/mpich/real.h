/*
 * The MPI that the program runs with, by the names that MPI keeps for those who
 * define its functions anew (MPI 15.2).  They are looked up when they are first
 * needed: this library is preloaded before any MPI is there, and into programs
 * that have none.
 */
#ifndef SMARTMAP_MPICH_REAL_H
#define SMARTMAP_MPICH_REAL_H

#include <stdbool.h>

#include "mpi.h"

#include "collectives.h"

/** Functions besides the collectives. */
#define REAL_FUNCTIONS(X)                                                                 \
    X(Init) X(Init_thread) X(Finalize) X(Abort) X(Barrier) X(Comm_create_from_group)      \
    X(Comm_rank) X(Comm_size) X(Comm_group) X(Comm_test_inter) X(Comm_get_parent)         \
    X(Comm_get_name) X(Comm_create_keyval) X(Comm_set_attr) X(Comm_call_errhandler)       \
    X(Group_translate_ranks) X(Group_free) X(Type_size_x) X(Type_get_extent_x)            \
    X(Type_get_true_extent_x) X(Type_create_keyval) X(Type_set_attr) X(Pack) X(Unpack)    \
    X(Reduce_local) X(Grequest_start) X(Grequest_complete) X(Test) X(Wait)                \
    X(Status_set_elements) X(Status_set_cancelled)

struct real {
    bool found;
#define DECLARE(name) __typeof__(PMPI_##name) *name;
    REAL_FUNCTIONS(DECLARE)
#undef DECLARE
#define DECLARE(name, Name, ...) __typeof__(PMPI_##Name) *Name; __typeof__(PMPI_##Name##_c) *Name##_c;
    COLLECTIVES(DECLARE)
#undef DECLARE
};
extern struct real real;

/** Find them for whoever called from there. */
void real_find(const void *caller);

/** At the beginning of every function that a program calls. */
#define REAL_NEEDED()                                       \
    do {                                                    \
        if (__builtin_expect(!real.found, 0))               \
            real_find(__builtin_return_address(0));         \
    } while (0)

#endif
