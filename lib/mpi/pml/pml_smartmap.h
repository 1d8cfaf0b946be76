/*
 * pml/smartmap: MPI's messages over peers' memory, for Open MPI 4.1 and 5.0.
 *
 * Every process owns one block in its arena; peers write into it through their
 * windows.  It holds a channel for each of them: a ring of cache lines, where
 * each message has its flag, and a ring of bytes for what these cannot take.
 *
 *   short   the data in the line, and in up to three that follow it
 *   medium  the data in the ring of bytes, which may still be written when the line
 *           is there; as a short one it is gone from the sender's buffer when the
 *           send returns
 *   long    the address of the data: the receiver copies it and answers DONE.
 *           Where it cannot read it, or both sides wait, it may answer CLEAR (to send) and gets
 *           the data in PIECES
 *
 * Which of several ways the data goes is the message's route (route.h).
 *
 * A process empties its channels into its receives, or into memory (unexpected
 * messages), whatever its own state, and what it cannot write because a channel
 * is full waits in a queue of requests.  So a full channel always empties.
 *
 * The module interposes on ob1, which keeps the communicators that have other
 * members than the processes of this job, or all where these cannot reach each
 * other.  All members of a communicator decide that alike: see job.c.
 */
#ifndef PML_SMARTMAP_H
#define PML_SMARTMAP_H

#include "ompi_config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/request/request.h"
#include "opal/datatype/opal_convertor.h"

#include "match.h"
#include "place.h"
#include "route.h"
#include "sent.h"
#include "smartmap.h"
#include "strided.h"

enum {
    PROTOCOL = 12, /* processes must agree on it before they share memory */
    FETCHED_BYTES = 1024, /* of a buffer, at once: about as many lines as a core can await */
    COMMUNICATORS = 65536, /* ob1's limit for 4.1, which we keep */
};

/** How data is written into the ring of bytes (stores.c). */
enum {
    STORES_PAST_CACHES = 1, /* by non-temporal stores */
    STORES_TIMED = 2,       /* both sides measure what it costs them */
};

enum line_kind { LINE_MESSAGE, LINE_DONE, LINE_CLEAR, LINE_PIECE };

/** One message or answer in a channel; the further lines of a short message are all data. */
struct line {
    _Atomic uint32_t written; /* set last; the reader clears it, of every line */
    int32_t tag;
    uint16_t communicator, source; /* the sender's rank in it */
    uint8_t kind, route; /* enum line_kind, and enum route */
    uint8_t short_bytes; /* as ROUTE_LINES: so many in this line and those that follow */
    uint8_t stores;      /* of data in the ring of bytes, STORES_ flags */
    union {
        char data[LINE_DATA_BYTES]; /* and on through the lines that follow */
        struct {
            uint64_t bytes;
            uint64_t sender;   /* the sender's request; 0: wants no answer */
            uint64_t receiver; /* the receiver's request, in answers and pieces */
            uint64_t address;  /* as route_has_address, or 0 */
            uint64_t head;     /* as route_has_head: so many of its first bytes are in the ring of bytes */
            uint64_t at;       /* the position of what is there */
        };
    };
};
_Static_assert(sizeof(struct line) == LINE_BYTES, "a line of a channel is one of the cache");
_Static_assert(SHORT_BYTES <= UINT8_MAX, "short_bytes holds it");

/** How many lines a short message takes. */
static inline unsigned short_lines(size_t bytes)
{
    return (unsigned)((bytes + sizeof(struct line) - LINE_DATA_BYTES + LINE_BYTES - 1) / LINE_BYTES);
}

/** What every line has. */
static inline void line_name(struct line *l, enum line_kind kind, enum route way)
{
    l->kind = (uint8_t)kind;
    l->route = (uint8_t)way;
}

/** From one sender to one receiver, in the receiver's block. */
struct channel {
    _Alignas(LINE_BYTES) _Atomic uint64_t lines_read; /* the receiver's words */
    _Atomic uint64_t bytes_read;
    _Atomic uint32_t read_cost[2]; /* by STORES_PAST_CACHES, as channel_end.write_cost */
    _Alignas(LINE_BYTES) _Atomic uint64_t bytes_written; /* of data that follows: see channel_follow */
    _Alignas(LINE_BYTES) struct line line[]; /* then the ring of bytes */
};

/** Sizes that all processes of a job must share; both rings' are powers of 2. */
struct sizes {
    uint32_t processes, lines, ring_bytes, medium_bytes;
};

enum verdict { VERDICT_NONE, VERDICT_YES, VERDICT_NO };

struct block {
    uint32_t protocol;
    struct sizes sizes;
    _Atomic uint32_t verdict; /* can the owner reach all others? */
    uint32_t cpus[32];        /* where the owner may run */
    _Alignas(LINE_BYTES) char channels[];
};

/** One end of a channel. */
struct channel_end {
    struct channel *channel;
    char *ring;
    uint64_t line, byte;            /* the next to use */
    uint64_t room;                  /* the writer's: where channel_room was, from `byte` on */
    uint64_t followed;              /* the writer's: what it wrote, or saw, as bytes_written */
    unsigned waits;                 /* job.waits when it last wrote into the ring of bytes */
    uint64_t lines_read, bytes_read; /* as last read of the receiver's words; the reader's: as last published there */
    uint64_t written_past;           /* the reader's: lines before it are given back as they are */
    /* The writer's (stores.c): */
    uint32_t write_cost[2]; /* by STORES_PAST_CACHES, ticks of 16 lines; 0: not known */
    uint64_t long_bytes;    /* written in messages and pieces that are long enough to be timed */
    unsigned timed;         /* the last round in which something was */
    unsigned stores;        /* STORES_PAST_CACHES, or 0 */
};

struct request;

struct peer {
    struct channel_end in, out;
    struct request *first, *last; /* what waits for room in `out` */
    int smartmap_rank;
    pid_t pid;
    const struct block *block;
    struct request *awaiting;  /* requests that wait for this process's answer */
    unsigned direct_sends;     /* that need not go through the ring of bytes */
    uint64_t lines_met;        /* in.line when it was last sent medium data of OFFERED_LEAST_BYTES or more */
    bool silent, lost;         /* has died; and what it wrote before is read */
};

/** A communicator that this module serves. */
struct comm {
    ompi_communicator_t *ompi;
    uint16_t id, rank;
    int size;
    uint16_t node[]; /* of each rank to send to: its index in job.peer */
};

/** What a request is to write into its peer's channel next. */
enum step { STEP_SEND, STEP_DONE, STEP_CLEAR, STEP_PIECES };

struct request {
    ompi_request_t super;
    struct match_item match; /* of a receive, while it is posted */
    struct request *next;    /* in a queue */
    struct request *before, *after; /* in peer.awaiting */
    enum step step;
    bool receive, posted;
    bool awaits;      /* it is in peer.awaiting */
    bool borrowed;    /* of a blocking call: holds no references */
    bool finished;    /* we are done with it (not: the user) */
    bool free_called; /* released as soon as it is finished */
    bool prepared;    /* the convertor is in use */
    bool by_blocks;   /* the data lies as `blocks` has it */
    mca_pml_base_send_mode_t mode;
    void *buffer;
    size_t count;
    ompi_datatype_t *type;
    struct comm *comm;
    int rank, tag;    /* the other side's, or wildcards */
    int node;         /* its index in job.peer */
    char *start;      /* where the data begins if it lies in one piece, or NULL */
    size_t bytes;     /* to move */
    size_t moved;     /* of these, in pieces */
    uint64_t partner; /* the other side's request */
    void *copy;       /* part of the user's buffer for MPI_Bsend, to give back */
    struct strided blocks;
    opal_convertor_t convertor;
};
OBJ_CLASS_DECLARATION(smartmap_request_t);
typedef struct request smartmap_request_t;

/** A message as it comes out of a channel or out of the unexpected ones. */
struct incoming {
    struct match_key key;
    int node;
    enum route route;
    unsigned stores; /* not of a message that is kept in memory */
    size_t bytes, head;
    uint64_t sender, address;
    const char *data; /* of short and medium ones, and the head of long ones */
};

/** An unexpected message, with its data. */
struct arrival {
    struct match_item match;
    struct incoming message;
    char data[];
};

struct job {
    bool ready;    /* set once: processes reach each other */
    bool any_lost; /* a peer has died */
    bool crowded;  /* more processes than CPUs: waits yield at once */
    opal_jobid_t id;
    int self;      /* our index */
    struct sizes sizes;
    struct block *block;
    struct peer *peer;
    struct line **awaited;   /* the next from each of them */
    bool queued;             /* something may wait for room in a channel to one of them */
    bool unnotified;         /* something is read that its sender has not been notified of */
    unsigned waits;          /* how often we have begun to find nothing */
    bool waiting;            /* we have found nothing since */
    struct match_table posted, unexpected;
    struct sent_log sent;    /* long data, and medium data that might be offered, which others reach */
    struct request *deferred; /* finished, with something to do without the lock */
    opal_free_list_t requests;
    struct comm *comm[COMMUNICATORS];
    pthread_mutex_t lock; /* guards all of this where threads are in use */
};
extern struct job job;

struct smartmap_pml_component {
    mca_pml_base_component_t super;
    bool enable;
    int verbose;
    int medium_bytes;
    bool active;                  /* it interposes */
    mca_pml_base_component_t base_component;
    mca_pml_base_module_t base;   /* ob1 */
};
OMPI_DECLSPEC extern struct smartmap_pml_component mca_pml_smartmap_component;
#define BASE (mca_pml_smartmap_component.base)


/* job.c */
void job_leave_card(void);
void job_meet(ompi_communicator_t *world);
void job_leave(void);

/* lost.c */
void job_find_lost(void);
void job_watch_windows(void);
bool job_is_dead(const struct peer *p, unsigned polls);
bool job_lost_source(const struct comm *c, int rank);

/* comm.c */
int smartmap_add_comm(ompi_communicator_t *comm);
int smartmap_del_comm(ompi_communicator_t *comm);
#if OMPI_MAJOR_VERSION >= 5
#define COMM_INDEX(comm) ((comm)->c_index)
#else
#define COMM_INDEX(comm) ((comm)->c_contextid)
#endif

/** Our record of a communicator, or NULL if it is ob1's. */
static inline struct comm *comm_of(const ompi_communicator_t *comm)
{
    uint32_t id = COMM_INDEX(comm);
    return OPAL_LIKELY(id < COMMUNICATORS) ? job.comm[id] : NULL;
}

/* progress.c */
int smartmap_progress(void);
void smartmap_wait_for(struct request *r);
void smartmap_run_deferred(struct request *list);

static inline void enter(void)
{
    if (OPAL_UNLIKELY(opal_using_threads()))
        pthread_mutex_lock(&job.lock);
}

/** Completion callbacks run here: they may call the module again. */
static inline void leave(void)
{
    struct request *list = job.deferred;
    job.deferred = NULL;
    if (OPAL_UNLIKELY(opal_using_threads()))
        pthread_mutex_unlock(&job.lock);
    if (OPAL_UNLIKELY(list != NULL))
        smartmap_run_deferred(list);
}

/* channel.c: room is found first, so what begins can be finished */
bool channel_adjoins(const struct channel_end *out, unsigned lines);
struct line *channel_lines(struct channel_end *out, unsigned lines);
char *channel_message_room(struct channel_end *out, size_t bytes);
char *channel_room(struct channel_end *out, size_t bytes);
void channel_post(struct channel_end *out, struct line *line, unsigned lines, size_t ring_bytes);
bool channel_follow(struct channel_end *out, char *room, const char *data, size_t bytes, size_t part, unsigned stores);
bool channel_is_copied(struct channel_end *out);
size_t channel_written(const struct channel_end *in, size_t bytes, size_t first);
bool channel_claim(struct channel_end *in);
void channel_copied(struct channel_end *in);
const char *channel_take(struct channel_end *in, const struct line *line, size_t bytes);
void channel_clear(struct line *line, unsigned lines);
void channel_own(const struct channel_end *in, size_t bytes);
void channel_free(struct channel_end *in);
size_t channel_bytes(const struct sizes *sizes);
struct channel_end channel_end(struct block *block, int index, const struct sizes *sizes);

/** The next line to read or to write. */
static inline struct line *channel_next(const struct channel_end *end)
{
    return &end->channel->line[end->line & (job.sizes.lines - 1)];
}

/* stores.c */
unsigned stores_now(const struct channel_end *out);
bool stores_take_turn(struct peer *p);
bool stores_are_timed(const struct channel_end *out, size_t bytes);
unsigned stores_choose(struct channel_end *out, size_t bytes);
void stores_weigh(struct channel_end *out);
void stores_copy(char *to, const char *from, size_t bytes, unsigned stores);
uint64_t stores_begin(unsigned stores);
void stores_written(struct channel_end *out, size_t bytes, unsigned stores, uint64_t began);
void stores_read(struct channel_end *in, size_t bytes, unsigned stores, uint64_t began);

/* request.c */
struct request *request_new(void);
void request_retain(struct request *r, bool persistent);
void request_release(struct request *r);
void request_await(struct request *r);
void request_answered(struct request *r);
void request_finish(struct request *r, int error);
int smartmap_request_free(ompi_request_t **request);
void request_prepare(struct request *r, bool send);
size_t request_pack(struct request *r, char *to, size_t bytes, unsigned stores);
void request_unpack(struct request *r, const char *from, size_t bytes);
void request_activate(struct request *r);
int smartmap_start(size_t count, ompi_request_t **requests);

/* send.c */
int send_start(struct request *r);
void send_queue(struct request *r, enum step step);
void send_queued(struct peer *peer);
int smartmap_isend_init(const void *, size_t, ompi_datatype_t *, int, int,
                        mca_pml_base_send_mode_t, ompi_communicator_t *, ompi_request_t **);
int smartmap_isend(const void *, size_t, ompi_datatype_t *, int, int,
                   mca_pml_base_send_mode_t, ompi_communicator_t *, ompi_request_t **);
int smartmap_send(const void *, size_t, ompi_datatype_t *, int, int,
                  mca_pml_base_send_mode_t, ompi_communicator_t *);

/* write.c */
bool write_data(struct peer *p, const struct comm *c, int tag, const char *start, size_t bytes, struct request *r,
                uint64_t sender);
bool write_long(struct peer *p, struct request *r);

/* pieces.c */
bool pieces_write(struct peer *p, struct request *send);
void pieces_cleared(struct request *send);
bool pieces_read(struct request *r, const char *data, size_t bytes);

/* receive.c */
int receive_start(struct request *r);
bool receive_line(int node, const struct line *line);
int smartmap_irecv_init(void *, size_t, ompi_datatype_t *, int, int, ompi_communicator_t *,
                        ompi_request_t **);
int smartmap_irecv(void *, size_t, ompi_datatype_t *, int, int, ompi_communicator_t *,
                   ompi_request_t **);
int smartmap_recv(void *, size_t, ompi_datatype_t *, int, int, ompi_communicator_t *,
                  ompi_status_public_t *);
struct request *receive_new(struct comm *c, void *buffer, size_t count, ompi_datatype_t *type,
                            int rank, int tag);
void receive_take(struct request *r, struct arrival *a);
int smartmap_cancel(ompi_request_t *request, int flag);

/* probe.c */
int smartmap_iprobe(int, int, ompi_communicator_t *, int *, ompi_status_public_t *);
int smartmap_probe(int, int, ompi_communicator_t *, ompi_status_public_t *);
int smartmap_improbe(int, int, ompi_communicator_t *, int *, ompi_message_t **,
                     ompi_status_public_t *);
int smartmap_mprobe(int, int, ompi_communicator_t *, ompi_message_t **,
                    ompi_status_public_t *);
int smartmap_imrecv(void *, size_t, ompi_datatype_t *, ompi_message_t **, ompi_request_t **);
int smartmap_mrecv(void *, size_t, ompi_datatype_t *, ompi_message_t **,
                   ompi_status_public_t *);
int smartmap_dump(ompi_communicator_t *comm, int verbose);

#endif
