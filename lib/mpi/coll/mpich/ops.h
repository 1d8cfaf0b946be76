/* Reductions of C's arithmetic types, for which MPI has no call with three buffers. */
#ifndef SMARTMAP_MPICH_OPS_H
#define SMARTMAP_MPICH_OPS_H

#include <stddef.h>

#include "mpi.h"

enum kind { KIND_OTHER, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, KINDS };

/** What C calls an MPI datatype; KIND_OTHER: nothing that is folded here. */
enum kind ops_kind(MPI_Datatype type);

/** to = a op b, element by element; `to` may be `b`. */
typedef void ops_fold(const void *a, const void *b, void *to, size_t count);

/** NULL: left to PMPI_Reduce_local. */
ops_fold *ops_find(MPI_Op op, enum kind kind);

#endif
