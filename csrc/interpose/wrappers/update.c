/* The calls that make executable graphs, change and destroy them: each tells graph.c. */
#include "driver/real.h"
#include "interpose/record/parameters.h"
#include "interpose/wrappers/graph.h"

CUresult custom_cuGraphExecDestroy(int variant, CUgraphExec hGraphExec) {
    struct exec *e = exec_take(hGraphExec); /* before another thread's may have its handle */
    CUresult status = REAL(cuGraphExecDestroy, variant)(hGraphExec);
    exec_destroyed(e, status, hGraphExec);
    return status;
}
