#include "plan.h"

#include <stdlib.h>
#include <string.h>

static size_t steps_of(CUgraph g) {
    size_t n = g->count;
    for (CUgraphNode node = g->first; node; node = node->next)
        if (node->work.kind == WORK_CHILD)
            n += steps_of(node->work.child);
    return n;
}

static struct plan *plan_empty(size_t count) {
    struct plan *p = calloc(1, sizeof *p + count * sizeof *p->step);
    if (p)
        atomic_store(&p->refs, 1);
    return p;
}

static bool add_after(struct plan_step *s, size_t step) {
    size_t *more = realloc(s->after, (s->after_count + 1) * sizeof *more);
    if (!more)
        return false;
    s->after = more;
    more[s->after_count++] = step;
    return true;
}

static bool add_step(struct plan *p, CUgraphNode n) {
    struct plan_step *s = &p->step[p->count];
    *s = (struct plan_step){.origin = n, .origin_id = n->id, .type = n->type, .enabled = true};
    if (n->work.kind == WORK_CHILD) /* the steps of the child follow; the graph itself may go */
        s->work.kind = WORK_EMPTY;
    else if (!work_copy(&n->work, &s->work))
        return false;
    p->count++;
    return true;
}

/* The child's steps come before the step of its node, which so comes after all of them. */
static bool add_graph(struct plan *p, CUgraph g) {
    CUgraphNode *order = graph_order(g);
    size_t *step = calloc(g->count + 1, sizeof *step);
    bool good = order && step;
    for (size_t i = 0; good && i < g->count; i++) {
        CUgraphNode n = order[i];
        size_t first = p->count;
        good = (n->work.kind != WORK_CHILD || add_graph(p, n->work.child)) && add_step(p, n);
        step[i] = p->count - 1;
        for (size_t k = 0; good && k < n->after_count; k++)
            good = add_after(&p->step[step[i]], step[n->after[k].from->index]);
        for (size_t k = first; good && k < step[i]; k++)
            good = add_after(&p->step[step[i]], k);
    }
    free(order);
    free(step);
    return good;
}

struct plan *plan_new(CUgraph g) {
    struct plan *p = plan_empty(steps_of(g));
    if (!p || add_graph(p, g))
        return p;
    plan_release(p);
    return NULL;
}

struct plan *plan_copy(const struct plan *from) {
    struct plan *p = plan_empty(from->count);
    for (size_t i = 0; p && i < from->count; i++) {
        const struct plan_step *s = &from->step[i];
        struct plan_step *to = &p->step[i];
        *to = *s;
        to->after = calloc(s->after_count + 1, sizeof *to->after);
        if (!to->after || !work_copy(&s->work, &to->work)) {
            free(to->after);
            plan_release(p);
            return NULL;
        }
        if (s->after_count)
            memcpy(to->after, s->after, s->after_count * sizeof *to->after);
        p->count++;
    }
    return p;
}

struct plan *plan_hold(struct plan *p) {
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void plan_release(struct plan *p) {
    if (atomic_fetch_sub(&p->refs, 1) > 1)
        return;
    for (size_t i = 0; i < p->count; i++) {
        work_release(&p->step[i].work);
        free(p->step[i].after);
    }
    free(p);
}

struct plan_step *plan_find(struct plan *p, const struct CUgraphNode_st *origin) {
    uint64_t id = node_living(origin);
    for (size_t i = 0; id && i < p->count; i++)
        if (p->step[i].origin_id == id)
            return &p->step[i];
    return NULL;
}

static CUgraphExecUpdateResult compare(const struct plan_step *a, size_t a_first, const struct plan_step *b) {
    if (a->type != b->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a->after_count != b->after_count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < a->after_count; i++)
        if (a->after[i] != b->after[i] + a_first)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    bool memory = a->work.kind == WORK_ALLOC || a->work.kind == WORK_FREE;
    return memory && a->work.allocation.address != b->work.allocation.address
               ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
               : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult plan_update(struct plan *p, size_t first, size_t count, struct plan *other,
                                    struct plan_step **wrong) {
    *wrong = NULL;
    if (other->count != count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < count; i++) {
        CUgraphExecUpdateResult result = compare(&p->step[first + i], first, &other->step[i]);
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            *wrong = &other->step[i];
            return result;
        }
    }
    for (size_t i = 0; i < count; i++) { /* exchanged: `other` releases the old ones */
        struct work old = p->step[first + i].work;
        p->step[first + i].work = other->step[i].work;
        other->step[i].work = old;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void plan_run(struct plan *p, struct emu_launch *r) {
    for (size_t i = 0; i < p->count && !atomic_load(&r->context->error); i++)
        if (p->step[i].enabled)
            r->clock = stream_execute(r->stream, &p->step[i].work, r->operation + 1 + i, r->clock);
}
