#include "work.h"

#include "event.h"
#include "graph.h"
#include "launch.h"
#include "memory.h"
#include "plan.h"

#include <stdlib.h>

const char *work_name(const struct work *w) {
    static const char *const names[] = {
        [WORK_EMPTY] = "empty",      [WORK_COPY] = "copy",    [WORK_MEMSET] = "memset", [WORK_HOST] = "host",
        [WORK_MEMOPS] = "memop",     [WORK_STAMP] = "event",  [WORK_FREE] = "free",     [WORK_MOVE] = "prefetch",
        [WORK_GRAPH] = "graph",      [WORK_RECORD] = "event", [WORK_WAIT] = "event",    [WORK_AFTER] = "event",
        [WORK_ALLOC] = "allocation", [WORK_CHILD] = "graph",
    };
    return w->kind == WORK_KERNEL ? launch_name(w->launch) : names[w->kind];
}

void work_run(struct work *w, struct emu_launch *r) {
    switch (w->kind) {
    case WORK_KERNEL:
        launch_run(w->launch, r);
        break;
    case WORK_COPY:
        copy_run(&w->copy, r);
        break;
    case WORK_MEMSET:
        memset_run(&w->memset, r);
        break;
    case WORK_HOST:
        host_run(&w->host, r);
        break;
    case WORK_MEMOPS:
        memops_run(&w->memops, r);
        break;
    case WORK_STAMP:
        stamp_run(w->stamp, r);
        break;
    case WORK_FREE:
        memory_free(w->allocation.address, AREAS_FREED);
        break;
    case WORK_MOVE:
        move_run(&w->move, r);
        break;
    case WORK_GRAPH:
        plan_run(w->plan, r);
        break;
    case WORK_AFTER:
        stamp_await(w->stamp, r);
        break;
    case WORK_ALLOC:
        if (memory_back(r->context, &devices[w->allocation.params.poolProps.location.id], w->allocation.address,
                        w->allocation.bytes) != CUDA_SUCCESS)
            run_fail(r, CUDA_ERROR_OUT_OF_MEMORY);
        break;
    case WORK_EMPTY:
    case WORK_RECORD:
    case WORK_WAIT:
    case WORK_CHILD: /* its nodes stand in the plan */
        break;
    }
}

void work_release(struct work *w) {
    switch (w->kind) {
    case WORK_KERNEL:
        free(w->launch);
        break;
    case WORK_COPY:
        free(w->copy.staged);
        break;
    case WORK_MEMOPS:
        free(w->memops.ops);
        break;
    case WORK_STAMP:
    case WORK_AFTER:
        stamp_release(w->stamp);
        break;
    case WORK_MOVE:
        free(w->move.ranges);
        free(w->move.places);
        break;
    case WORK_GRAPH:
        plan_release(w->plan);
        break;
    case WORK_CHILD:
        graph_free(w->child);
        break;
    default:
        break;
    }
}
