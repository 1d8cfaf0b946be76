/*
 * What MPICH's ABI calls the things that collectives are about
 * (mpich.org/abi): MPICH from 3.1, Intel MPI, and others built from them.
 */
#ifndef SMARTMAP_PORT_H
#define SMARTMAP_PORT_H

#include "mpi.h"

typedef MPI_Comm port_comm_t;
typedef MPI_Datatype port_type_t;
typedef MPI_Op port_op_t;

/** Windows of MPI are not seen here, and through them others may update what peers read. */
#define PORT_KEEPS false

/** Elements of one reduction: PMPI_Reduce_local takes them in blocks. */
#define PORT_MAX_COUNT PTRDIFF_MAX

#endif
