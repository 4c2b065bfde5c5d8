/* A gate: streams wait there until the host writes 1. */
#ifndef PROGRAM_GATE_H
#define PROGRAM_GATE_H

#include "must.h"

USE(cuMemHostAlloc)
USE(cuStreamWaitValue32_v2)

static inline void wait_at(volatile unsigned *gate, CUstream s) {
    MUST(cuStreamWaitValue32_v2(s, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

/* One of its own. */
static inline volatile unsigned *close_gate(CUstream s) {
    unsigned *gate;
    MUST(cuMemHostAlloc((void **)&gate, sizeof *gate, 0));
    *gate = 0;
    wait_at(gate, s);
    return gate;
}

#endif
