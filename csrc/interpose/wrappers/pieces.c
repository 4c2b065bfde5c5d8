#include "interpose/wrappers/pieces.h"

#include <stdlib.h>

#include "base/page.h"
#include "base/spans.h"
#include "driver/graph_order.h"
#include "driver/real.h"
#include "observe/trace.h"

/* A node that is no child graph's. */
struct leaf {
    CUgraphNode node;
    bool joined; /* in one piece with the one before: that may not have ended when it begins */
};

/* The leaves of a graph and its children, in an order in which they may run: the same in each copy. */
struct leaves {
    struct leaf *at;
    size_t count, capacity;
};

static bool add_leaf(struct leaves *l, CUgraphNode node) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        struct leaf *at = realloc(l->at, capacity * sizeof *at);
        if (!at)
            return false;
        l->at = at;
        l->capacity = capacity;
    }
    l->at[l->count++] = (struct leaf){.node = node};
    return true;
}

static bool list_leaves(struct leaves *l, CUgraph graph) {
    struct graph_order o;
    bool good = graph_order(graph, &o);
    size_t *begins = good ? calloc(o.count + 1, sizeof *begins) : NULL;
    good = begins;
    for (size_t i = 0; good && i < o.count; i++) {
        CUgraph child = node_child(o.nodes[i]);
        begins[i] = l->count;
        good = child ? list_leaves(l, child) : add_leaf(l, o.nodes[i]);
    }
    for (size_t i = 0; good && i < o.count; i++)
        for (size_t e = o.first[i]; e < o.first[i + 1]; e++)
            for (size_t k = begins[i] + 1; o.edges[e].programmatic && k <= begins[o.edges[e].to]; k++)
                l->at[k].joined = true;
    free(begins);
    graph_order_free(&o);
    return good;
}

/* Leaves of the graph those from number `first` to before `end` alone. *at is the number of its first leaf; then that
 * behind its last. */
static bool keep_leaves(CUgraph graph, size_t *at, size_t first, size_t end) {
    struct graph_order o;
    bool good = graph_order(graph, &o);
    for (size_t i = 0; good && i < o.count; i++) {
        CUgraph child = node_child(o.nodes[i]);
        size_t begins = *at;
        if (child)
            good = keep_leaves(child, at, first, end);
        else
            ++*at;
        if (good && (*at <= first || begins >= end))
            good = REAL(cuGraphDestroyNode, 0)(o.nodes[i]) == CUDA_SUCCESS;
    }
    graph_order_free(&o);
    return good;
}

/* Piece i is the leaves from number ends[i - 1] to before ends[i]. */
struct making {
    struct leaves leaves; /* of the graph */
    struct hash *disabled;
    unsigned long long flags;
    size_t *ends;
    struct piece *piece;
    size_t pieces;
};

static size_t begin_of(const struct making *m, size_t piece) {
    return piece ? m->ends[piece - 1] : 0;
}

static bool is_disabled(const struct making *m, size_t leaf) {
    return m->disabled->count && hash_get(m->disabled, (uint64_t)(uintptr_t)m->leaves.at[leaf].node);
}

/* NULL: it does nothing. */
static const struct node *noted(const struct making *m, size_t leaf) {
    return is_disabled(m, leaf) ? NULL : node_noted(m->leaves.at[leaf].node);
}

static bool all_noted(const struct making *m) {
    size_t i = 0;
    while (i < m->leaves.count && node_noted(m->leaves.at[i].node))
        i++;
    return i == m->leaves.count;
}

/* `graph` has those leaves alone. */
static bool disable(const struct making *m, CUgraphExec exec, CUgraph graph, size_t first, size_t end) {
    struct leaves own = {0};
    bool good = !m->disabled->count || list_leaves(&own, graph);
    for (size_t i = 0; good && i < own.count && first + i < end; i++)
        good = !is_disabled(m, first + i) || REAL(cuGraphNodeSetEnabled, 0)(exec, own.at[i].node, 0) == CUDA_SUCCESS;
    free(own.at);
    return good;
}

static struct node *sum_leaves(const struct making *m, size_t first, size_t end) {
    const struct node **all = calloc(end - first + 1, sizeof *all);
    for (size_t i = first; all && i < end; i++)
        all[i - first] = noted(m, i);
    struct node *sum = all ? node_sum(all, end - first) : NULL;
    free(all);
    return sum;
}

/* The pieces come in order. */
static bool add_piece(struct making *m, CUgraph graph) {
    size_t first = begin_of(m, m->pieces), end = m->ends[m->pieces];
    struct piece *p = &m->piece[m->pieces];
    if (REAL(cuGraphInstantiateWithFlags, 0)(&p->exec, graph, m->flags) != CUDA_SUCCESS)
        return false;
    m->pieces++;
    p->sum = sum_leaves(m, first, end);
    if (p->sum && trace_on)
        trace_graph((uint64_t)(uintptr_t)p->exec, p->sum->kernels, p->sum->touches, p->sum->count);
    return p->sum && disable(m, p->exec, graph, first, end);
}

/* Of a graph that has the leaves of the pieces from `first` to before `end` alone, and may lose them. Halved again and
 * again, so that the time grows little with the number of pieces. */
static bool divide(struct making *m, CUgraph graph, size_t first, size_t end) {
    size_t half = (first + end) / 2, at = begin_of(m, first), again = at;
    CUgraph other;
    if (end - first == 1)
        return add_piece(m, graph);
    if (REAL(cuGraphClone, 0)(&other, graph) != CUDA_SUCCESS)
        return false;
    bool good = keep_leaves(other, &at, begin_of(m, first), begin_of(m, half)) && divide(m, other, first, half);
    REAL(cuGraphDestroy, 0)(other);
    return good && keep_leaves(graph, &again, begin_of(m, half), m->ends[end - 1]) && divide(m, graph, half, end);
}

/* How many bytes more that is, in whole pages. */
static uint64_t cover(struct spans *pages, const struct node *n) {
    uint64_t more = 0;
    for (const struct touch *t = n->touches; t < n->touches + n->count; t++)
        if (t->bytes)
            more += spans_cover(pages, t->start / page_bytes * page_bytes, whole_pages(t->start + t->bytes));
    return more;
}

uint64_t pieces_bytes(const struct node *n) {
    struct spans pages = {0};
    uint64_t bytes = cover(&pages, n);
    free(pages.at);
    return bytes;
}

/* How many pieces there are, of about so many bytes each. */
static size_t set_ends(struct making *m, uint64_t most) {
    struct spans pages = {0};
    uint64_t bytes = 0;
    size_t n = 0;
    for (size_t i = 0; i < m->leaves.count; i++) {
        const struct node *leaf = noted(m, i);
        uint64_t more = leaf ? cover(&pages, leaf) : 0;
        bytes += more;
        if (i > begin_of(m, n) && more && bytes > most && !m->leaves.at[i].joined) {
            m->ends[n++] = i;
            pages.count = 0;
            bytes = leaf ? cover(&pages, leaf) : 0;
        }
    }
    free(pages.at);
    m->ends[n++] = m->leaves.count;
    return n;
}

static bool make(struct making *m, CUgraph graph, uint64_t most) {
    CUgraph copy;
    if (!list_leaves(&m->leaves, graph) || !all_noted(m) || !(m->ends = calloc(m->leaves.count + 1, sizeof *m->ends)))
        return false;
    size_t n = set_ends(m, most);
    if (n == 1 || !(m->piece = calloc(n, sizeof *m->piece)) || REAL(cuGraphClone, 0)(&copy, graph) != CUDA_SUCCESS)
        return false;
    bool made = divide(m, copy, 0, n);
    REAL(cuGraphDestroy, 0)(copy);
    return made;
}

size_t pieces_make(CUgraph graph, struct hash *disabled, unsigned long long flags, uint64_t most, struct piece **out) {
    struct making m = {.disabled = disabled, .flags = flags};
    if (!make(&m, graph, most)) {
        pieces_free(m.piece, m.pieces);
        m.piece = NULL;
        m.pieces = 0;
    }
    free(m.leaves.at);
    free(m.ends);
    *out = m.piece;
    return m.pieces;
}

void pieces_free(struct piece *piece, size_t n) {
    for (size_t i = 0; i < n; i++) {
        REAL(cuGraphExecDestroy, 0)(piece[i].exec);
        free(piece[i].sum);
    }
    free(piece);
}
