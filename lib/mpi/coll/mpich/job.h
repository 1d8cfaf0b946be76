/* The library coll/smartmap for programs of MPICH's ABI, as its files see each other. */
#ifndef SMARTMAP_MPICH_JOB_H
#define SMARTMAP_MPICH_JOB_H

#include "real.h"
#include "team.h"

/* job.c */
/** Are all members processes of this job, which is served? */
bool job_has_all_of(MPI_Comm comm);

/* comm.c */
/** Its team, which may still have to meet; NULL: not ours. */
struct team *comm_team(MPI_Comm comm);
/** It is never ours, whatever its members are. */
void comm_refuse(MPI_Comm comm);

#endif
