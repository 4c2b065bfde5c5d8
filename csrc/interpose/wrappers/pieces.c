#include "interpose/wrappers/pieces.h"

#include <stdlib.h>

#include "base/page.h"
#include "base/spans.h"
#include "driver/graph_order.h"
#include "driver/real.h"
#include "observe/trace.h"

/* A node. The leaves are the nodes that are no child graph's, by number: in an order in which they may run. */
struct item {
    CUgraphNode node;
    size_t first, end; /* the leaves that it is: one, or those of its graph */
    unsigned depth;    /* in so many child graphs */
    bool child;
    bool joined; /* a leaf: in one piece with the one before, which may not have ended when it begins */
};

/* What is in a graph, each child right before what is in that. */
struct items {
    struct item *at;
    size_t count, capacity;
};

static struct item *add(struct items *l, struct item item) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        struct item *at = realloc(l->at, capacity * sizeof *at);
        if (!at)
            return NULL;
        l->at = at;
        l->capacity = capacity;
    }
    l->at[l->count] = item;
    return &l->at[l->count++];
}

/* Adds what is in the graph; *leaves: how many leaves there are. */
static bool list(struct items *l, CUgraph graph, unsigned depth, size_t *leaves) {
    struct graph_order o;
    bool good = graph_order(graph, &o);
    size_t *place = good ? calloc(o.count + 1, sizeof *place) : NULL; /* among the items */
    good = place;
    for (size_t i = 0; good && i < o.count; i++) {
        CUgraph child = node_child(o.nodes[i]);
        place[i] = l->count;
        good = add(l, (struct item){.node = o.nodes[i], .first = *leaves, .depth = depth, .child = child});
        if (good && child)
            good = list(l, child, depth + 1, leaves);
        else
            ++*leaves;
        if (good)
            l->at[place[i]].end = *leaves;
    }
    for (size_t i = 0; good && i < o.count; i++)
        for (size_t e = o.first[i]; e < o.first[i + 1]; e++)
            for (size_t k = place[i] + 1; o.edges[e].programmatic && k <= place[o.edges[e].to]; k++)
                l->at[k].joined = true;
    free(place);
    graph_order_free(&o);
    return good;
}

/* Enters which node of a clone is which node's copy. The driver tells it, but not of nodes of child graphs: those go by
 * their places. */
static bool pair(CUgraph from, CUgraph to, CUgraph clone, struct hash *copies) {
    CUgraphNode *nodes, *placed, copy;
    size_t n, m;
    bool read = graph_nodes(from, &nodes, &n), good = graph_nodes(to, &placed, &m) && read && n == m;
    for (size_t i = 0; good && i < n; i++) {
        copy = placed[i];
        CUgraph child = node_child(nodes[i]);
        good = to != clone || REAL(cuGraphNodeFindInClone, 0)(&copy, nodes[i], clone) == CUDA_SUCCESS;
        CUgraph copied = good ? node_child(copy) : NULL;
        if (good)
            hash_put(copies, (uint64_t)(uintptr_t)nodes[i], copy, &good);
        good = good && !child == !copied && (!child || pair(child, copied, clone, copies));
    }
    free(nodes);
    free(placed);
    return good;
}

/* The same items of a clone. */
static bool find_copies(struct items *l, const struct items *of, CUgraph graph, CUgraph clone) {
    struct hash copies = {.count = 0};
    bool good = pair(graph, clone, clone, &copies);
    for (size_t i = 0; good && i < of->count; i++) {
        struct item item = of->at[i];
        item.node = hash_get(&copies, (uint64_t)(uintptr_t)item.node);
        good = item.node && add(l, item);
    }
    hash_delete(&copies);
    return good;
}

/* Leaves of a graph the leaves from number `first` to before `end` alone. */
static bool keep(struct items *l, size_t first, size_t end) {
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct item t = l->at[i];
        if (t.end > first && t.first < end) {
            l->at[kept++] = t;
            continue;
        }
        if (REAL(cuGraphDestroyNode, 0)(t.node) != CUDA_SUCCESS)
            return false;
        while (i + 1 < l->count && l->at[i + 1].depth > t.depth) /* with all that is in it */
            i++;
    }
    l->count = kept;
    return true;
}

/* Piece i is the leaves from number ends[i - 1] to before ends[i]. */
struct making {
    struct items items; /* of the graph */
    size_t leaves;
    const struct item **leaf; /* by number */
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
    return m->disabled->count && hash_get(m->disabled, (uint64_t)(uintptr_t)m->leaf[leaf]->node);
}

/* NULL: it does nothing. */
static const struct node *noted(const struct making *m, size_t leaf) {
    return is_disabled(m, leaf) ? NULL : node_noted(m->leaf[leaf]->node);
}

/* False: not all that the leaves touch is known. */
static bool number_leaves(struct making *m) {
    bool good = (m->leaf = calloc(m->leaves + 1, sizeof *m->leaf));
    for (size_t i = 0; good && i < m->items.count; i++)
        if (!m->items.at[i].child) {
            m->leaf[m->items.at[i].first] = &m->items.at[i];
            good = node_noted(m->items.at[i].node);
        }
    return good;
}

static bool disable(const struct making *m, CUgraphExec exec, const struct items *l) {
    bool good = true;
    for (size_t i = 0; good && i < l->count; i++)
        if (!l->at[i].child && is_disabled(m, l->at[i].first))
            good = REAL(cuGraphNodeSetEnabled, 0)(exec, l->at[i].node, 0) == CUDA_SUCCESS;
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
static bool add_piece(struct making *m, CUgraph graph, const struct items *l) {
    struct piece *p = &m->piece[m->pieces];
    if (REAL(cuGraphInstantiateWithFlags, 0)(&p->exec, graph, m->flags) != CUDA_SUCCESS)
        return false;
    p->sum = sum_leaves(m, begin_of(m, m->pieces), m->ends[m->pieces]);
    m->pieces++;
    if (p->sum && trace_on)
        trace_graph((uint64_t)(uintptr_t)p->exec, p->sum->kernels, p->sum->touches, p->sum->count);
    return p->sum && disable(m, p->exec, l);
}

static bool divide(struct making *m, CUgraph graph, struct items *l, size_t first, size_t end);

/* The same of a clone of the graph. */
static bool divide_clone(struct making *m, CUgraph graph, const struct items *l, size_t first, size_t end) {
    struct items own = {0};
    CUgraph clone;
    if (REAL(cuGraphClone, 0)(&clone, graph) != CUDA_SUCCESS)
        return false;
    bool good = find_copies(&own, l, graph, clone) && divide(m, clone, &own, first, end);
    REAL(cuGraphDestroy, 0)(clone);
    free(own.at);
    return good;
}

/* Makes the pieces from `first` to before `end` of a graph that has their leaves, and loses them. It is halved again
 * and again, so that the time grows little with the number of pieces. */
static bool divide(struct making *m, CUgraph graph, struct items *l, size_t first, size_t end) {
    size_t half = (first + end) / 2;
    if (!keep(l, begin_of(m, first), m->ends[end - 1]))
        return false;
    if (end - first == 1)
        return add_piece(m, graph, l);
    return divide_clone(m, graph, l, first, half) && divide(m, graph, l, half, end);
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
    for (size_t i = 0; i < m->leaves; i++) {
        const struct node *leaf = noted(m, i);
        uint64_t more = leaf ? cover(&pages, leaf) : 0;
        bytes += more;
        if (i > begin_of(m, n) && more && bytes > most && !m->leaf[i]->joined) {
            m->ends[n++] = i;
            pages.count = 0;
            bytes = leaf ? cover(&pages, leaf) : 0;
        }
    }
    free(pages.at);
    m->ends[n++] = m->leaves;
    return n;
}

static bool make(struct making *m, CUgraph graph, uint64_t most) {
    if (!list(&m->items, graph, 0, &m->leaves) || !number_leaves(m) ||
        !(m->ends = calloc(m->leaves + 1, sizeof *m->ends)))
        return false;
    size_t n = set_ends(m, most);
    return n > 1 && (m->piece = calloc(n, sizeof *m->piece)) && divide_clone(m, graph, &m->items, 0, n);
}

size_t pieces_make(CUgraph graph, struct hash *disabled, unsigned long long flags, uint64_t most, struct piece **out) {
    struct making m = {.disabled = disabled, .flags = flags};
    if (!make(&m, graph, most)) {
        pieces_free(m.piece, m.pieces);
        m.piece = NULL;
        m.pieces = 0;
    }
    free(m.items.at);
    free(m.leaf);
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
