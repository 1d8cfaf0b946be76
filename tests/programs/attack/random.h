// Random numbers that a seed repeats. Who includes this has a `next(below)` for PICK.
#ifndef MARGAY_RANDOM_H
#define MARGAY_RANDOM_H

#include <stdint.h>

// Knuth's generator (MMIX): its low bits are not random.
static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 32;
}
#define PICK(list) (list)[next(sizeof(list) / sizeof((list)[0]))]

#endif
