#include "graph.h"

#include "launch.h"

#include <stdlib.h>
#include <string.h>

bool work_copy(const struct work *w, struct work *out) {
    *out = *w;
    switch (w->kind) {
    case WORK_KERNEL:
        return (out->launch = launch_copy(w->launch)) != NULL;
    case WORK_MEMOPS:
        return memops_copy(&out->memops, w->memops.ops, w->memops.count);
    case WORK_CHILD:
        out->child = graph_clone(w->child);
        if (out->child)
            out->child->child = true;
        return out->child != NULL;
    default:
        return true;
    }
}

CUgraph graph_new(void) {
    CUgraph g = calloc(1, sizeof *g);
    if (g)
        g->last = &g->first;
    return g;
}

/* --- those that live: a program may name one that does not any more --- */

static pthread_mutex_t living_lock = PTHREAD_MUTEX_INITIALIZER;
static CUgraphNode living;
static CUgraphNode dead; /* whose addresses the next ones get: who keeps a handle for too long is to see it */

static CUgraphNode node_memory(void) {
    pthread_mutex_lock(&living_lock);
    CUgraphNode n = dead;
    if (n)
        dead = n->next;
    pthread_mutex_unlock(&living_lock);
    return n ? memset(n, 0, sizeof *n) : calloc(1, sizeof *n);
}

static void come_alive(CUgraphNode n) {
    static uint64_t last_id;
    pthread_mutex_lock(&living_lock);
    n->id = ++last_id;
    n->living_next = living;
    n->living_at = &living;
    if (living)
        living->living_at = &n->living_next;
    living = n;
    pthread_mutex_unlock(&living_lock);
}

static void live_no_more(CUgraphNode n) {
    pthread_mutex_lock(&living_lock);
    *n->living_at = n->living_next;
    if (n->living_next)
        n->living_next->living_at = n->living_at;
    n->next = dead;
    dead = n;
    pthread_mutex_unlock(&living_lock);
}

uint64_t node_living(const struct CUgraphNode_st *n) {
    pthread_mutex_lock(&living_lock);
    CUgraphNode at = living;
    while (at && at != n)
        at = at->living_next;
    uint64_t id = at ? at->id : 0;
    pthread_mutex_unlock(&living_lock);
    return id;
}

/* --- nodes --- */

bool node_add_edge(CUgraphNode to, CUgraphNode from, const CUgraphEdgeData *data) {
    struct edge *more = realloc(to->after, (to->after_count + 1) * sizeof *more);
    if (!more)
        return false;
    to->after = more;
    more[to->after_count++] = (struct edge){from, data ? *data : (CUgraphEdgeData){0}};
    return true;
}

bool node_has_edge(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from) {
    for (size_t i = 0; i < to->after_count; i++)
        if (to->after[i].from == from)
            return true;
    return false;
}

CUresult node_new(CUgraph g, CUgraphNodeType type, struct work *w, const CUgraphNode *after,
                  const CUgraphEdgeData *edges, size_t n, CUgraphNode *out) {
    CUgraphNode node = node_memory();
    bool good = node != NULL;
    for (size_t i = 0; good && i < n; i++)
        good = node_add_edge(node, after[i], edges ? &edges[i] : NULL);
    if (!good) {
        work_release(w);
        if (node)
            free(node->after);
        free(node);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->graph = g;
    node->type = type;
    node->work = *w;
    come_alive(node);
    *g->last = node;
    g->last = &node->next;
    g->count++;
    *out = node;
    return CUDA_SUCCESS;
}

static void dispose(CUgraphNode n) {
    work_release(&n->work);
    free(n->after);
    free(n->view);
    live_no_more(n);
}

void node_remove_edge(CUgraphNode to, const struct CUgraphNode_st *from) {
    size_t kept = 0;
    for (size_t i = 0; i < to->after_count; i++)
        if (to->after[i].from != from)
            to->after[kept++] = to->after[i];
    to->after_count = kept;
}

void node_free(CUgraphNode n) {
    CUgraph g = n->graph;
    CUgraphNode *at = &g->first;
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    if (g->last == &n->next)
        g->last = at;
    g->count--;
    for (CUgraphNode other = g->first; other; other = other->next)
        node_remove_edge(other, n);
    dispose(n);
}

void graph_free(CUgraph g) {
    while (g->first) {
        CUgraphNode n = g->first;
        g->first = n->next;
        dispose(n);
    }
    free(g);
}

CUgraph graph_clone(CUgraph original) {
    CUgraph g = graph_new();
    CUgraphNode *copies = calloc(original->count + 1, sizeof *copies);
    bool good = g && copies;
    long i = 0;
    for (CUgraphNode n = original->first; good && n; n = n->next, i++) {
        struct work w;
        good = work_copy(&n->work, &w) && node_new(g, n->type, &w, NULL, NULL, 0, &copies[i]) == CUDA_SUCCESS;
        if (good)
            copies[i]->copy_of = n;
        n->index = i;
    }
    for (CUgraphNode n = original->first; good && n; n = n->next)
        for (size_t k = 0; good && k < n->after_count; k++)
            good = node_add_edge(copies[n->index], copies[n->after[k].from->index], &n->after[k].data);
    free(copies);
    if (good) {
        g->copy_of = original;
        return g;
    }
    if (g)
        graph_free(g);
    return NULL;
}

static bool is_ready(const struct CUgraphNode_st *n) {
    for (size_t i = 0; i < n->after_count; i++)
        if (n->after[i].from->index < 0)
            return false;
    return true;
}

CUgraphNode *graph_order(CUgraph g) {
    CUgraphNode *order = calloc(g->count + 1, sizeof *order);
    size_t done = 0;
    for (CUgraphNode n = g->first; n; n = n->next)
        n->index = -1;
    for (bool went = true; order && went && done < g->count;) {
        went = false;
        for (CUgraphNode n = g->first; n; n = n->next) {
            if (n->index >= 0 || !is_ready(n))
                continue;
            n->index = (long)done;
            order[done++] = n;
            went = true;
        }
    }
    if (order && done == g->count)
        return order;
    free(order);
    return NULL;
}
