/*
 * Cases that the MPI library under test gets wrong by itself, without us; part
 * of model.h.  mpich_faults.c shows each with the smallest program, and
 * test/run fails when one of them has been repaired, so that this list shrinks.
 */
#ifndef LEFT_OUT_H
#define LEFT_OUT_H

static int left_out(const struct params *p, int size)
{
#ifdef MPICH_NUMVERSION
    int bytes = p->count * operand_layout(p->operation)->n * (int)sizeof(int32_t);
    /* reduce-in-place: MPIDI_Reduce_intra_composition_alpha gives MPI_IN_PLACE
     * to a reduction whose root is another rank, and that one reads from it. */
    if (p->what == REDUCE && p->in_place && p->root != 0 && p->operation < AFFINE &&
        bytes > 2048)
        return 1;
    /* reduce-scatter-block: MPIR_Reduce_scatter_block_intra_noncommutative
     * strides by the true extent instead of the extent. */
    if (p->what == REDUCE_SCATTER_BLOCK && p->operation == AFFINE_GAPS &&
        (size & (size - 1)) == 0)
        return 1;
#else
    (void)p, (void)size;
#endif
    return 0;
}

#endif
