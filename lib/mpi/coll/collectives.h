/*
 * The collectives that are served: COLLECTIVES(X) is X(name, Name, parameters,
 * arguments, what the team's function is called with) for each.  Who includes
 * this says what TYPE, OP, TYPES, COUNT, COUNTS and DISPLACEMENTS are, and how
 * to say an array of counts (MANY).  A barrier has no parameters; it is served as well.
 */
#ifndef SMARTMAP_COLLECTIVES_H
#define SMARTMAP_COLLECTIVES_H

#define LIST(...) __VA_ARGS__

#define COLLECTIVES(X) MOVING_COLLECTIVES(X) REDUCTIONS(X)

#define MOVING_COLLECTIVES(X)                                                             \
    X(bcast, Bcast, LIST(void *buffer, COUNT count, TYPE type, int root),                 \
      LIST(buffer, count, type, root), LIST(buffer, (size_t)count, type, root))           \
    X(gather, Gather,                                                                     \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNT rcount,       \
           TYPE rtype, int root),                                                         \
      LIST(send, scount, stype, receive, rcount, rtype, root),                            \
      LIST(send, (size_t)scount, stype, receive, (size_t)rcount, rtype, root))            \
    X(gatherv, Gatherv,                                                                   \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNTS rcounts,     \
           DISPLACEMENTS rdisps, TYPE rtype, int root),                                   \
      LIST(send, scount, stype, receive, rcounts, rdisps, rtype, root),                   \
      LIST(send, (size_t)scount, stype, receive, MANY(rcounts), MANY(rdisps), rtype, root)) \
    X(scatter, Scatter,                                                                   \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNT rcount,       \
           TYPE rtype, int root),                                                         \
      LIST(send, scount, stype, receive, rcount, rtype, root),                            \
      LIST(send, (size_t)scount, stype, receive, (size_t)rcount, rtype, root))            \
    X(scatterv, Scatterv,                                                                 \
      LIST(const void *send, COUNTS scounts, DISPLACEMENTS sdisps, TYPE stype,            \
           void *receive, COUNT rcount, TYPE rtype, int root),                            \
      LIST(send, scounts, sdisps, stype, receive, rcount, rtype, root),                   \
      LIST(send, MANY(scounts), MANY(sdisps), stype, receive, (size_t)rcount, rtype, root)) \
    X(allgather, Allgather,                                                               \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNT rcount,       \
           TYPE rtype),                                                                   \
      LIST(send, scount, stype, receive, rcount, rtype),                                  \
      LIST(send, (size_t)scount, stype, receive, (size_t)rcount, rtype))                  \
    X(allgatherv, Allgatherv,                                                             \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNTS rcounts,     \
           DISPLACEMENTS rdisps, TYPE rtype),                                             \
      LIST(send, scount, stype, receive, rcounts, rdisps, rtype),                         \
      LIST(send, (size_t)scount, stype, receive, MANY(rcounts), MANY(rdisps), rtype))     \
    X(alltoall, Alltoall,                                                                 \
      LIST(const void *send, COUNT scount, TYPE stype, void *receive, COUNT rcount,       \
           TYPE rtype),                                                                   \
      LIST(send, scount, stype, receive, rcount, rtype),                                  \
      LIST(send, (size_t)scount, stype, receive, (size_t)rcount, rtype))                  \
    X(alltoallv, Alltoallv,                                                               \
      LIST(const void *send, COUNTS scounts, DISPLACEMENTS sdisps, TYPE stype,            \
           void *receive, COUNTS rcounts, DISPLACEMENTS rdisps, TYPE rtype),              \
      LIST(send, scounts, sdisps, stype, receive, rcounts, rdisps, rtype),                \
      LIST(send, MANY(scounts), MANY(sdisps), stype, receive, MANY(rcounts),              \
           MANY(rdisps), rtype))                                                          \
    X(alltoallw, Alltoallw,                                                               \
      LIST(const void *send, COUNTS scounts, DISPLACEMENTS sdisps, TYPES stypes,          \
           void *receive, COUNTS rcounts, DISPLACEMENTS rdisps, TYPES rtypes),            \
      LIST(send, scounts, sdisps, stypes, receive, rcounts, rdisps, rtypes),              \
      LIST(send, MANY(scounts), MANY(sdisps), stypes, receive, MANY(rcounts),             \
           MANY(rdisps), rtypes))

#define REDUCTIONS(X)                                                                     \
    X(reduce, Reduce,                                                                     \
      LIST(const void *send, void *receive, COUNT count, TYPE type, OP op, int root),     \
      LIST(send, receive, count, type, op, root),                                         \
      LIST(send, receive, (size_t)count, type, op, root))                                 \
    X(allreduce, Allreduce,                                                               \
      LIST(const void *send, void *receive, COUNT count, TYPE type, OP op),               \
      LIST(send, receive, count, type, op), LIST(send, receive, (size_t)count, type, op)) \
    X(reduce_scatter, Reduce_scatter,                                                     \
      LIST(const void *send, void *receive, COUNTS rcounts, TYPE type, OP op),            \
      LIST(send, receive, rcounts, type, op),                                             \
      LIST(send, receive, MANY(rcounts), type, op))                                       \
    X(reduce_scatter_block, Reduce_scatter_block,                                         \
      LIST(const void *send, void *receive, COUNT rcount, TYPE type, OP op),              \
      LIST(send, receive, rcount, type, op),                                              \
      LIST(send, receive, (size_t)rcount, type, op))                                      \
    X(scan, Scan, LIST(const void *send, void *receive, COUNT count, TYPE type, OP op),   \
      LIST(send, receive, count, type, op), LIST(send, receive, (size_t)count, type, op)) \
    X(exscan, Exscan, LIST(const void *send, void *receive, COUNT count, TYPE type, OP op), \
      LIST(send, receive, count, type, op), LIST(send, receive, (size_t)count, type, op))

#endif
