/* The component coll/smartmap of Open MPI 4.1 and 5.0. */
#ifndef COLL_SMARTMAP_COMPONENT_H
#define COLL_SMARTMAP_COMPONENT_H

#include "team.h"

#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"

#include "card.h"

struct smartmap_component {
    mca_coll_base_component_t super;
    int priority;
    int verbose;
    char *table; /* a file that replaces the built-in table, or NULL */
};
OMPI_DECLSPEC extern struct smartmap_component mca_coll_smartmap_component;

mca_coll_base_module_t *smartmap_comm_query(ompi_communicator_t *comm, int *priority);

#endif
