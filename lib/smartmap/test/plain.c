/*
 * A program that includes smartmap.h and runs without a provider, as a static
 * one does, on Linux and on Margay: nothing is reachable, nothing hangs, and
 * the arithmetic is that of the address map.
 */
#include <stdio.h>

#include "smartmap.h"

int main(void)
{
    static int data;
    const int ok = !smartmap_available() && smartmap_rank() == -1 && smartmap_size() == 0 &&
                   smartmap_attach(0, 1) < 0 && smartmap_join(1000) < 0 &&
                   !smartmap_exports(&data, sizeof data) && !smartmap_keeps() &&
                   !smartmap_reachable(0, &data, sizeof data) && !smartmap_alive(0) &&
                   smartmap_remote(0, (void *)0x1234) == (void *)0x8000001234 &&
                   smartmap_remote(253, (void *)0x7fffffffff) == (void *)0x7f7fffffffff;
    printf("plain: %s\n", ok ? "right" : "wrong");
    return !ok;
}
