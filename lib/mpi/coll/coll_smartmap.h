/*
 * coll/smartmap: MPI collectives over peers' memory, for Open MPI 4.1 and 5.0.
 *
 * Every rank of a communicator owns one control block in its arena; the others
 * see it through their windows.  A word in it has one writer, its owner.
 *
 *   slot[op % SLOTS]  what the owner contributes to collective number `op`:
 *                     small data itself, or where its buffer lies
 *   done              the last collective in which the owner has finished
 *                     reading from others, and putting
 *   stage             the last collective whose first half the owner finished
 *   barriers          how many barriers the owner has entered
 *
 * A collective then is: post my slot; wait for the slots I read from, and
 * copy; store done; and, only if others read my user's buffer in place, or put
 * into it, wait for their done.  A slot is reused SLOTS collectives later, once
 * all peers' `done` shows that nobody can still be reading it.
 */
#ifndef COLL_SMARTMAP_H
#define COLL_SMARTMAP_H

#include "ompi_config.h"

#include <stdatomic.h>
#include <stdint.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"

#include "card.h"
#include "place.h"
#include "smartmap.h"

/** Collectives this component serves. */
#define SMARTMAP_COLLECTIVES(X) \
    X(allgather) X(allgatherv) X(allreduce) X(alltoall) X(alltoallv) X(alltoallw) \
    X(barrier) X(bcast) X(exscan) X(gather) X(gatherv) X(reduce) X(reduce_scatter) \
    X(reduce_scatter_block) X(scan) X(scatter) X(scatterv)

enum { SLOTS = 16, MAX_SLOT_BYTES = 1 << 20 };

/** Which way a collective goes; all ranks of a communicator use the same. */
struct tunables {
    int32_t inline_bytes;   /* up to here data travels in the slot */
    int32_t one_way_bytes;  /* the same for ranks that only give */
    int32_t parallel_bytes; /* from here ranks reduce pieces in parallel */
    int32_t put_bytes;      /* from here allgather puts instead of taking */
};

/** How a rank's contribution to one collective is to be read. */
enum slot_kind {
    SLOT_SAME,  /* entry[0] is for every reader */
    SLOT_TABLE, /* entry[r] is for rank r */
    SLOT_GIVES, /* as SLOT_SAME; who gives, too, may put its piece at entry[1 + r] */
    SLOT_TAKES, /* the owner gives nothing; rank r may put its piece at entry[r] */
    SLOT_PUT,   /* the owner has put its piece where the reader wanted it */
    SLOT_ERROR, /* it has none: the owner is out of memory */
};

struct entry {
    const void *address; /* in the owner's address space */
    size_t bytes;
};

/** What lies outside of the owner's arena: readers ask Linux for it. */
enum { FAR_DATA = 1, FAR_RESULT = 2 };

struct slot {
    _Atomic uint64_t op; /* written last: the collective this belongs to */
    uint32_t kind;
    uint32_t far; /* FAR_DATA: entry[0] or all; FAR_RESULT: entry[1] of reductions */
    union {
        struct entry entry[1];
        char data[1];
    };
};

struct control {
    _Alignas(LINE_BYTES) _Atomic uint64_t done;
    _Alignas(LINE_BYTES) _Atomic uint64_t stage;
    _Alignas(LINE_BYTES) _Atomic uint64_t barriers;
    _Alignas(LINE_BYTES) _Atomic uint32_t gone; /* the communicator is freed */
    _Alignas(LINE_BYTES) char slots[];
};

enum module_state { MODULE_UNTRIED, MODULE_READY, MODULE_FALLBACK };

typedef struct smartmap_module {
    mca_coll_base_module_t super;
    enum module_state state;
    int rank, size;
    struct tunables use;
    bool crowded;            /* waits yield at once, see common/card.h */
    uint64_t op;             /* number of the current collective */
    uint64_t barriers;       /* of these, which take no slot */
    size_t slot_bytes;       /* from one slot to the next */
    size_t data_bytes;       /* capacity of slot.data */
    struct control *own;
    struct control **peer;   /* each rank's block as seen here */
    int *node_rank;          /* each rank's SMARTMAP rank */
    pid_t *pid;              /* each rank's process */
    uint64_t *seen_done;     /* last value read of each rank's `done` */
    mca_coll_base_comm_coll_t previous; /* who serves what we do not */
} smartmap_module_t;

OBJ_CLASS_DECLARATION(smartmap_module_t);

struct smartmap_component {
    mca_coll_base_component_t super;
    int priority;
    int verbose;
    char *table;           /* a file that replaces the built-in table, or NULL */
    struct tunables given; /* by variables; negative: the table's */
};
OMPI_DECLSPEC extern struct smartmap_component mca_coll_smartmap_component;

/* table.c */
void smartmap_read_table(const char *path);
struct tunables smartmap_tunables(int ranks);

/* module.c */
mca_coll_base_module_t *smartmap_comm_query(ompi_communicator_t *comm, int *priority);
/** Make the module ready at its first collective; false: use `previous`. */
bool smartmap_prepare(smartmap_module_t *m, ompi_communicator_t *comm);

static inline bool smartmap_ready(smartmap_module_t *m, ompi_communicator_t *comm)
{
    return OPAL_LIKELY(m->state == MODULE_READY) || smartmap_prepare(m, comm);
}

/* sync.c */
int smartmap_wait(smartmap_module_t *m, int rank, const _Atomic uint64_t *word,
                  uint64_t value);
int smartmap_wait_done(smartmap_module_t *m, int rank, uint64_t op);
int smartmap_slot_open(smartmap_module_t *m, struct slot **slot);
void smartmap_slot_post(smartmap_module_t *m, struct slot *slot);
int smartmap_slot_read(smartmap_module_t *m, int rank, const struct slot **slot);
void smartmap_done(smartmap_module_t *m);
int smartmap_fetch(smartmap_module_t *m, int rank, void *to, const void *from, size_t bytes);

/** Address of another rank's object as seen here. */
static inline void *smartmap_view(const smartmap_module_t *m, int rank, const void *address)
{
    return rank == m->rank ? (void *)address
                           : smartmap_remote((unsigned)m->node_rank[rank], address);
}

/* move.c: data that moves unchanged */
struct buffer {
    void *address;
    size_t count;
    ompi_datatype_t *type;
};

enum { ALL_RANKS = -1, NO_RANK = -2 };

/** Who sends what to whom in one collective, as one rank sees it. */
struct exchange {
    const struct buffer *out; /* 1 (out_same) or `size` buffers; NULL: none */
    bool out_same;
    bool out_copied;  /* take a copy: `in` overwrites the same memory */
    int reader;       /* ALL_RANKS, or the one that reads `out` */
    const struct buffer *in; /* `size` buffers by source, or NULL: none */
    bool own_in_place;       /* our own piece is where it belongs already */
    int writer;       /* ALL_RANKS, or NO_RANK, or the one that `in` reads */
};
int smartmap_exchange(smartmap_module_t *m, const struct exchange *x);

/* types.c */
size_t smartmap_packed_bytes(const struct buffer *b);
bool smartmap_is_contiguous(const struct buffer *b, char **start);
int smartmap_pack(const struct buffer *b, void *to, size_t bytes);
int smartmap_unpack(const struct buffer *b, const void *from, size_t bytes);

int smartmap_barrier(ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_bcast(void *, int, ompi_datatype_t *, int, ompi_communicator_t *,
                   mca_coll_base_module_t *);
int smartmap_gather(const void *, int, ompi_datatype_t *, void *, int, ompi_datatype_t *,
                    int, ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_gatherv(const void *, int, ompi_datatype_t *, void *, const int *, const int *,
                     ompi_datatype_t *, int, ompi_communicator_t *,
                     mca_coll_base_module_t *);
int smartmap_scatter(const void *, int, ompi_datatype_t *, void *, int, ompi_datatype_t *,
                     int, ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_scatterv(const void *, const int *, const int *, ompi_datatype_t *, void *, int,
                      ompi_datatype_t *, int, ompi_communicator_t *,
                      mca_coll_base_module_t *);
int smartmap_allgather(const void *, int, ompi_datatype_t *, void *, int,
                       ompi_datatype_t *, ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_allgatherv(const void *, int, ompi_datatype_t *, void *, const int *,
                        const int *, ompi_datatype_t *, ompi_communicator_t *,
                        mca_coll_base_module_t *);
int smartmap_alltoall(const void *, int, ompi_datatype_t *, void *, int, ompi_datatype_t *,
                      ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_alltoallv(const void *, const int *, const int *, ompi_datatype_t *, void *,
                       const int *, const int *, ompi_datatype_t *, ompi_communicator_t *,
                       mca_coll_base_module_t *);
int smartmap_alltoallw(const void *, const int *, const int *, ompi_datatype_t *const *,
                       void *, const int *, const int *, ompi_datatype_t *const *,
                       ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_reduce(const void *, void *, int, ompi_datatype_t *, ompi_op_t *, int,
                    ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_allreduce(const void *, void *, int, ompi_datatype_t *, ompi_op_t *,
                       ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_reduce_scatter(const void *, void *, const int *, ompi_datatype_t *,
                            ompi_op_t *, ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_reduce_scatter_block(const void *, void *, int, ompi_datatype_t *,
                                  ompi_op_t *, ompi_communicator_t *,
                                  mca_coll_base_module_t *);
int smartmap_scan(const void *, void *, int, ompi_datatype_t *, ompi_op_t *,
                  ompi_communicator_t *, mca_coll_base_module_t *);
int smartmap_exscan(const void *, void *, int, ompi_datatype_t *, ompi_op_t *,
                    ompi_communicator_t *, mca_coll_base_module_t *);

/** Hand a collective to the component that would have served it. */
#define SMARTMAP_PREVIOUS(m, name, ...) \
    (m)->previous.coll_##name(__VA_ARGS__, (m)->previous.coll_##name##_module)

#endif
