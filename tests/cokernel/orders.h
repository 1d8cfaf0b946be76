/* What device.c and node.c have in common: words of 8 bytes in the communication area, and what the node shows besides. */
#ifndef ORDERS_H
#define ORDERS_H

/* Word: what to do, taken by CPU 0 of the node after a doorbell. */
#define NODE_ORDER 0
#define NODE_END 1 /* with exit code 6 */
#define NODE_HANG 2 /* interrupts off */
#define NODE_TALK 3 /* more than the log holds */
#define NODE_WRITE 4 /* a word to each page shown: its number */
/* Words: doorbells that each CPU had. */
#define NODE_DOORBELLS 8
/* Its memory, and of that the pool. */
#define NODE_BYTES (64UL << 20)
#define POOL_BYTES (8UL << 20)
/* Two ranges, one behind the other, from the start of memory. */
#define NODE_SHOWN (16UL << 20)
#define NODE_SHOWN_BYTES (1UL << 20)

#endif
