/* What Open MPI 4.1 and 5.0 call the things that collectives are about. */
#ifndef SMARTMAP_PORT_H
#define SMARTMAP_PORT_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"

#include "exposed.h"

typedef ompi_communicator_t *port_comm_t;
typedef ompi_datatype_t *port_type_t;
typedef ompi_op_t *port_op_t;

/** Is what peers read in place known to be updated by no other process?  Then they may keep its lines. */
#define PORT_KEEPS (!smartmap_exposes())

/** Elements of one reduction: as many as Open MPI converts. */
#define PORT_MAX_COUNT INT32_MAX

#endif
