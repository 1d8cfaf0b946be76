/*
 * Debian's libopenmpi-dev packages ompi/op/op.h, which includes this header,
 * but not the header itself.  Of it op.h uses one macro; Fortran's INTEGER and
 * C's int are the same in Debian's x86-64 build (mpif-sizeof.h, ompi_info).
 */
#ifndef SMARTMAP_COMPAT_FINT_2_INT_H
#define SMARTMAP_COMPAT_FINT_2_INT_H

#include "ompi_config.h"

_Static_assert(OMPI_SIZEOF_FORTRAN_INTEGER == sizeof(int), "Fortran INTEGER is C int");
#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))

#endif
