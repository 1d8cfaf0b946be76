/* Memory that other processes may update while it is sent. */
#ifndef SMARTMAP_COMMON_EXPOSED_H
#define SMARTMAP_COMMON_EXPOSED_H

#include "ompi_config.h"

#include <stdbool.h>

#include "ompi/win/win.h"

/**
 * Has this process a window whose memory lies, or may lie, in its heap?  What it sends from there others may
 * update meanwhile (MPI 4.1, 12.4): then who reads it must not store what it has read.
 */
static inline bool smartmap_exposes(void)
{
    int first_of_users = 1; /* after MPI_WIN_NULL */
    if (OPAL_LIKELY(ompi_mpi_windows.size - ompi_mpi_windows.number_free <= first_of_users))
        return false;
    for (int i = first_of_users; i < ompi_mpi_windows.size; i++) {
        const ompi_win_t *win = opal_pointer_array_get_item(&ompi_mpi_windows, i);
        if (win && win->w_flavor != MPI_WIN_FLAVOR_SHARED)
            return true;
    }
    return false;
}

#endif
