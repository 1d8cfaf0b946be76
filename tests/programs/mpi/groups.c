// Groups, communicators, topologies, attributes and info; which ranks share a node.
#include "conform.h"

static void groups(void)
{
    MPI_Group world, evens, rest, all, none;
    int members[32], count = 0, mine, translated[1], zero[] = {0}, n;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int r = 0; r < size; r += 2)
        members[count++] = r;
    MPI_Group_incl(world, count, members, &evens);
    MPI_Group_excl(world, count, members, &rest);
    MPI_Group_rank(evens, &mine);
    agree(mine == (rank % 2 ? MPI_UNDEFINED : rank / 2), "incl");
    MPI_Group_translate_ranks(rest, 1, zero, world, translated);
    agree(translated[0] == 1, "excl and translate_ranks");
    MPI_Group_union(rest, evens, &all);
    MPI_Group_intersection(rest, evens, &none);
    int same, empty;
    MPI_Group_compare(all, world, &same);
    MPI_Group_compare(none, MPI_GROUP_EMPTY, &empty);
    agree(same == MPI_SIMILAR && empty == MPI_IDENT, "union, intersection and compare");
    MPI_Group_free(&all);
    MPI_Group_difference(world, evens, &all);
    MPI_Group_size(all, &n);
    int range[][3] = {{size - 1, 0, -1}};
    MPI_Group backwards;
    MPI_Group_range_incl(world, 1, range, &backwards);
    MPI_Group_rank(backwards, &mine);
    agree(n == size - count && mine == size - 1 - rank, "difference and range_incl");
    MPI_Comm comm, created;
    MPI_Comm_create(MPI_COMM_WORLD, backwards, &comm);
    MPI_Comm_rank(comm, &mine);
    agree(mine == size - 1 - rank, "comm_create");
    int right = 1, sum = 0;
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, evens, 3, &created);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, created);
        right = sum == count * (count - 1);
        MPI_Comm_free(&created);
    }
    agree(right, "comm_create_group of some ranks");
    MPI_Comm_free(&comm);
    MPI_Group *made[] = {&world, &evens, &rest, &all, &none, &backwards};
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++)
        if (*made[i] != MPI_GROUP_EMPTY)
            MPI_Group_free(made[i]);
}

static int copied, deleted, key;
static int copy(MPI_Comm comm, int which, void *extra, void *from, void *to, int *flag)
{
    (void)comm, (void)which, (void)extra;
    copied++;
    *(void **)to = (char *)from + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete(MPI_Comm comm, int which, void *value, void *extra)
{
    (void)comm, (void)which, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void communicators(void)
{
    static char place[2];
    MPI_Comm dup, later, half;
    MPI_Request request;
    int result, n, mine, flag;
    void *found = NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_compare(MPI_COMM_WORLD, dup, &result);
    agree(result == MPI_CONGRUENT, "dup");
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_set_attr(dup, key, place);
    MPI_Comm_idup(dup, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_get_attr(later, key, &found, &flag);
    MPI_Comm_delete_attr(dup, key);
    agree(flag && found == place + 1 && copied == 1 && deleted == 1, "idup, and attributes that it copies");
    // Messages on one are not taken for those on the other.
    int to[2] = {1, 2}, from[2];
    MPI_Request sends[2];
    MPI_Isend(&to[0], 1, MPI_INT, next, 1, dup, &sends[0]);
    MPI_Isend(&to[1], 1, MPI_INT, next, 1, later, &sends[1]);
    MPI_Recv(&from[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, later, MPI_STATUS_IGNORE);
    MPI_Recv(&from[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    agree(from[0] == 1 && from[1] == 2, "communicators keep messages apart");
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_set_name(dup, "of the test");
    MPI_Comm_get_name(dup, name, &n);
    agree(strcmp(name, "of the test") == 0, "names");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 1, -rank, &half);
    if (half != MPI_COMM_NULL) {
        MPI_Comm_size(half, &n);
        MPI_Comm_rank(half, &mine);
        MPI_Comm_free(&half);
    }
    agree(rank % 2 ? half == MPI_COMM_NULL : n == (size + 1) / 2 && mine == n - 1 - rank / 2, "split, with keys");
    MPI_Comm_free(&dup);
    MPI_Comm_free(&later);
    MPI_Comm_free_keyval(&key);
}

// What Open MPI distinguishes ranks by; whom of them the launcher has put where is its own to say.
static const struct {
    int type;
    const char *name;
} types[] = {
    {MPI_COMM_TYPE_SHARED, "memory"},
#ifdef OPEN_MPI // they are no macros
    {OMPI_COMM_TYPE_HWTHREAD, "a hardware thread"}, {OMPI_COMM_TYPE_CORE, "a core"}, {OMPI_COMM_TYPE_L1CACHE, "an L1 cache"},
    {OMPI_COMM_TYPE_L2CACHE, "an L2 cache"}, {OMPI_COMM_TYPE_L3CACHE, "an L3 cache"}, {OMPI_COMM_TYPE_SOCKET, "a socket"},
    {OMPI_COMM_TYPE_NUMA, "a NUMA domain"}, {OMPI_COMM_TYPE_BOARD, "a board"}, {OMPI_COMM_TYPE_HOST, "a host"},
    {OMPI_COMM_TYPE_CU, "a unit"}, {OMPI_COMM_TYPE_CLUSTER, "a cluster"},
#endif
};

// How many ranks each rank finds that share it, itself among them.
static void sharing(int type, const char *name)
{
    MPI_Comm shared;
    int n = 0, *all = malloc(size * sizeof *all);
    MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, MPI_INFO_NULL, &shared);
    if (shared != MPI_COMM_NULL) {
        MPI_Comm_size(shared, &n);
        MPI_Comm_free(&shared);
    }
    MPI_Gather(&n, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("     ranks that share %s:", name);
        for (int r = 0; r < size; r++)
            printf(" %d", all[r]);
        printf("\n");
    }
    free(all);
}

// All ranks are on one node.
static void node(void)
{
    MPI_Comm shared;
    int n, mine, length, flag, *bound = NULL;
    char name[2][MPI_MAX_PROCESSOR_NAME];
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &n);
    MPI_Comm_rank(shared, &mine);
    agree(n == size && mine == rank, "split_type: all ranks share memory");
    MPI_Comm_free(&shared);
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        sharing(types[i].type, types[i].name);
    memset(name, 0, sizeof name);
    MPI_Get_processor_name(name[0], &length);
    MPI_Sendrecv(name[0], sizeof name[0], MPI_CHAR, next, 5, name[1], sizeof name[1], MPI_CHAR, last, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    agree(length > 0 && strcmp(name[0], name[1]) == 0, "processor names agree");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    agree(flag && *bound >= 32767, "the largest tag");
    double before = MPI_Wtime();
    agree(MPI_Wtime() >= before && MPI_Wtick() > 0, "time goes on");
}

static void topologies(void)
{
    MPI_Comm grid, row, graph, ring;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, at[2], where, up, down, left, right, n;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, at);
    MPI_Cart_rank(grid, at, &where);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    agree(dims[0] * dims[1] == size && where == rank && (at[1] > 0 || left == MPI_PROC_NULL)
              && down == (rank + dims[1]) % size,
          "cart: coordinates and neighbours");
    int keep[2] = {1, 0};
    MPI_Cart_sub(grid, keep, &row);
    MPI_Comm_size(row, &n);
    agree(n == dims[0], "cart_sub");
    int *index = malloc(size * sizeof *index), *edges = malloc(2 * size * sizeof *edges), its[2];
    for (int r = 0; r < size; r++) {
        index[r] = 2 * (r + 1);
        edges[2 * r] = (r + size - 1) % size;
        edges[2 * r + 1] = (r + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
    MPI_Graph_neighbors(graph, rank, 2, its);
    agree(its[0] == last && its[1] == next, "graph");
    int sources, destinations, weighted, weights[1] = {5}, from[1], to[1], in[1], out[1], got = -1, kind;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, weights, 1, &next, weights, MPI_INFO_NULL, 0, &ring);
    MPI_Dist_graph_neighbors_count(ring, &sources, &destinations, &weighted);
    MPI_Dist_graph_neighbors(ring, 1, from, in, 1, to, out);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, ring);
    MPI_Topo_test(ring, &kind);
    agree(sources == 1 && destinations == 1 && weighted && from[0] == last && to[0] == next && in[0] == 5 && got == last
              && kind == MPI_DIST_GRAPH,
          "dist_graph");
    free(index);
    free(edges);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&row);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&ring);
}

static void two_groups(void)
{
    MPI_Comm half, inter, merged;
    int remote, flag, mine, token = -1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 9, &inter);
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_remote_size(inter, &remote);
    agree(flag && remote == (rank % 2 ? (size + 1) / 2 : size / 2), "intercomm_create");
    if (rank < 2)
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 2, &token, 1, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE);
    agree(rank > 1 || token == 1 - rank, "messages between groups");
    MPI_Intercomm_merge(inter, rank % 2 == 0, &merged);
    MPI_Comm_rank(merged, &mine);
    agree(mine == (rank % 2 ? rank / 2 : size / 2 + rank / 2), "intercomm_merge");
    MPI_Comm_free(&half);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&merged);
}

static void infos(void)
{
    MPI_Info info, dup;
    char text[16];
    int flag, keys;
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "green");
    MPI_Info_set(info, "size", "7");
    MPI_Info_dup(info, &dup);
    MPI_Info_delete(info, "size");
    MPI_Info_get_nkeys(info, &keys);
    MPI_Info_get(dup, "size", 15, text, &flag);
    agree(keys == 1 && flag && strcmp(text, "7") == 0, "info");
    MPI_Info_free(&info);
    MPI_Info_free(&dup);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    groups();
    communicators();
    node();
    topologies();
    two_groups();
    infos();
    return end();
}
