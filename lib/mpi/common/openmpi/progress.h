/* What waits of Open MPI's components do for what else is under way. */
#ifndef SMARTMAP_PROGRESS_H
#define SMARTMAP_PROGRESS_H

#include "ompi_config.h"

#include "opal/class/opal_object.h"
#include "opal/prefetch.h"
#include "opal/runtime/opal_progress.h"

static inline void make_progress(void) { opal_progress(); }

#endif
