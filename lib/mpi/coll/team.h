/*
 * MPI collectives over peers' memory.
 *
 * The ranks of a communicator are a team.  Each owns one control block in its
 * arena; the others see it through their windows.  A word in it has one writer,
 * its owner.
 *
 *   slot[op % SLOTS]  what the owner contributes to collective number `op`:
 *                     small data itself, or where its buffer lies
 *   done              the last collective in which the owner has finished
 *                     reading from others, and putting
 *   stage             the last collective whose first half the owner finished
 *   failed            the last divided reduction in which the owner failed
 *   barriers          how many barriers the owner has entered
 *
 * A collective then is: post my slot; wait for the slots I read from, and
 * copy; store done; and, only if others read my user's buffer in place, or put
 * into it, wait for their done.  A slot is reused SLOTS collectives later, once
 * all peers' `done` shows that no rank can still be reading it.
 *
 * Nothing here knows which MPI it serves: port.h does, of openmpi/ or mpich/.
 */
#ifndef SMARTMAP_TEAM_H
#define SMARTMAP_TEAM_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mpi.h"

#include "place.h"
#include "port.h"
#include "smartmap.h"

#define likely(condition) __builtin_expect(condition, 1)
#define unlikely(condition) __builtin_expect(condition, 0)

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

/** What lies outside of the owner's arena: readers copy it by process_vm_readv. */
enum { FAR_DATA = 1, FAR_RESULT = 2 };

struct slot {
    _Atomic uint64_t op; /* written last: the collective this belongs to */
    uint32_t kind;
    uint16_t far;   /* FAR_DATA: entry[0] or all; FAR_RESULT: entry[1] of reductions */
    uint16_t fresh; /* the owner writes its data each time: who reads it shall keep its lines */
    union {
        struct entry entry[1];
        char data[1];
    };
};

struct control {
    _Alignas(LINE_BYTES) _Atomic uint64_t done;
    _Alignas(LINE_BYTES) _Atomic uint64_t stage;
    _Atomic uint64_t failed; /* written before `done`, once all others have posted */
    _Alignas(LINE_BYTES) _Atomic uint64_t barriers;
    _Alignas(LINE_BYTES) _Atomic uint32_t gone; /* the communicator is freed */
    _Alignas(LINE_BYTES) char slots[];
};

enum team_state { TEAM_UNTRIED, TEAM_READY, TEAM_FALLBACK };

struct team {
    enum team_state state;
    int rank, size;
    struct tunables use;
    bool crowded;            /* waits yield at once: fewer CPUs than processes */
    uint64_t op;             /* number of the current collective */
    uint64_t barriers;       /* of these, which take no slot */
    size_t slot_bytes;       /* from one slot to the next */
    size_t data_bytes;       /* capacity of slot.data */
    struct control *own;
    struct control **peer;   /* each rank's block as seen here */
    int *node_rank;          /* each rank's SMARTMAP rank */
    pid_t *pid;              /* each rank's process */
    uint64_t *seen_done;     /* last value read of each rank's `done` */
    struct sent_log *given;  /* what we let peers read in place; NULL: no peer may keep lines of it */
};

/** What a collective returns that this cannot do, alike on all ranks. */
enum { NOT_SERVED = INT_MIN };

/* table.c */
extern struct tunables smartmap_given; /* by variables; negative: the table's */
void smartmap_read_table(const char *path);
struct tunables smartmap_tunables(int ranks);

/* meet.c */
void team_start(struct team *t, int rank, int size);
void team_end(struct team *t);
/** Meet the peers at the first collective; false: another must serve them all. */
bool team_meet(struct team *t, port_comm_t comm);

static inline bool team_ready(struct team *t, port_comm_t comm)
{
    return likely(t->state == TEAM_READY) || team_meet(t, comm);
}

/* sync.c */
int smartmap_wait(struct team *t, int rank, const _Atomic uint64_t *word, uint64_t value);
int smartmap_wait_done(struct team *t, int rank, uint64_t op);
int smartmap_slot_open(struct team *t, struct slot **slot);
void smartmap_slot_post(struct team *t, struct slot *slot);
int smartmap_slot_read(struct team *t, int rank, const struct slot **slot);
void smartmap_done(struct team *t);
bool smartmap_fresh(const struct team *t, const struct entry *entry, int entries);
void smartmap_note_given(const struct team *t, const struct entry *entry, int entries);
int smartmap_fetch(struct team *t, int rank, void *to, const void *from, size_t bytes);

/** Address of another rank's object as seen here. */
static inline void *smartmap_view(const struct team *t, int rank, const void *address)
{
    return rank == t->rank ? (void *)address
                           : smartmap_remote((unsigned)t->node_rank[rank], address);
}

/* move.c: data that moves unchanged */
struct buffer {
    void *address;
    size_t count;
    port_type_t type;
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
int smartmap_exchange(struct team *t, const struct exchange *x);

/* pack.c */
/** Pack a buffer whose packed size is `bytes`. */
int smartmap_pack(const struct buffer *b, void *to, size_t bytes);
/** Unpack `bytes` into a buffer, and keep their lines; more than it holds is MPI_ERR_TRUNCATE. */
int smartmap_unpack(const struct buffer *b, const void *from, size_t bytes, bool keep);

/* types.c of the port: datatypes and operations as the MPI knows them */

/** How elements of a datatype lie in memory. */
struct shape {
    ptrdiff_t extent, true_lb, true_extent;
    bool dense; /* elements without gaps, in the order of their bytes */
};
struct shape smartmap_shape(port_type_t type);
size_t smartmap_packed_bytes(const struct buffer *b);
/** If the data lies in one piece, `start` is its first byte. */
bool smartmap_is_contiguous(const struct buffer *b, char **start);
/** For data in several pieces: as the functions of pack.c; some bytes, and no more than the buffer holds. */
int smartmap_pack_scattered(const struct buffer *b, void *to, size_t bytes);
int smartmap_unpack_scattered(const struct buffer *b, const void *from, size_t bytes);
/** Copy between buffers of the same signature. */
int smartmap_convert(const struct buffer *from, const struct buffer *to);
/** target = a op target. */
int smartmap_combine(port_op_t op, const void *a, void *target, size_t count, port_type_t type);
/** target = a op b; NOT_SERVED, with nothing done, where the MPI cannot. */
int smartmap_combine_three(port_op_t op, const void *a, const void *b, void *target,
                           size_t count, port_type_t type);

/* What else the port gives */

/** One line on stderr, from this rank. */
__attribute__((format(printf, 1, 2))) void smartmap_say(const char *format, ...);
/** Collect `bytes` of each rank by the MPI's own means. */
int smartmap_gather_plainly(struct team *t, port_comm_t comm, const void *mine, int bytes,
                            void *all);
/** End the job: peers would wait for us for ever. */
void smartmap_abort(port_comm_t comm);
/** Are there fewer CPUs than processes of this job here? */
bool smartmap_is_crowded(void);
/** Report that a communicator falls back, where that is wanted. */
void smartmap_report_fallback(port_comm_t comm);

/* data.c, sync.c, reduce.c, scan.c: the collectives */

/** Counts or displacements: of a call with int, or of one with 64 bits (MPI_Bcast_c). */
struct numbers {
    const void *array;
    bool wide;
};

static inline ptrdiff_t number(struct numbers n, int i)
{
    return n.wide ? (ptrdiff_t)((const int64_t *)n.array)[i] : ((const int *)n.array)[i];
}

int smartmap_barrier(struct team *t);
int smartmap_bcast(struct team *t, void *buffer, size_t count, port_type_t type, int root);
int smartmap_gather(struct team *t, const void *send, size_t scount, port_type_t stype,
                    void *receive, size_t rcount, port_type_t rtype, int root);
int smartmap_gatherv(struct team *t, const void *send, size_t scount, port_type_t stype,
                     void *receive, struct numbers rcounts, struct numbers displacements,
                     port_type_t rtype, int root);
int smartmap_scatter(struct team *t, const void *send, size_t scount, port_type_t stype,
                     void *receive, size_t rcount, port_type_t rtype, int root);
int smartmap_scatterv(struct team *t, const void *send, struct numbers scounts,
                      struct numbers displacements, port_type_t stype, void *receive,
                      size_t rcount, port_type_t rtype, int root);
int smartmap_allgather(struct team *t, const void *send, size_t scount, port_type_t stype,
                       void *receive, size_t rcount, port_type_t rtype);
int smartmap_allgatherv(struct team *t, const void *send, size_t scount, port_type_t stype,
                        void *receive, struct numbers rcounts, struct numbers displacements,
                        port_type_t rtype);
int smartmap_alltoall(struct team *t, const void *send, size_t scount, port_type_t stype,
                      void *receive, size_t rcount, port_type_t rtype);
int smartmap_alltoallv(struct team *t, const void *send, struct numbers scounts,
                       struct numbers sdisps, port_type_t stype, void *receive,
                       struct numbers rcounts, struct numbers rdisps, port_type_t rtype);
int smartmap_alltoallw(struct team *t, const void *send, struct numbers scounts,
                       struct numbers sdisps, const port_type_t *stypes, void *receive,
                       struct numbers rcounts, struct numbers rdisps,
                       const port_type_t *rtypes);
int smartmap_reduce(struct team *t, const void *send, void *receive, size_t count,
                    port_type_t type, port_op_t op, int root);
int smartmap_allreduce(struct team *t, const void *send, void *receive, size_t count,
                       port_type_t type, port_op_t op);
int smartmap_reduce_scatter(struct team *t, const void *send, void *receive,
                            struct numbers rcounts, port_type_t type, port_op_t op);
int smartmap_reduce_scatter_block(struct team *t, const void *send, void *receive,
                                  size_t rcount, port_type_t type, port_op_t op);
int smartmap_scan(struct team *t, const void *send, void *receive, size_t count,
                  port_type_t type, port_op_t op);
int smartmap_exscan(struct team *t, const void *send, void *receive, size_t count,
                    port_type_t type, port_op_t op);

#endif
