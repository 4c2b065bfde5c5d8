/* Checkpoints: another process locks this one, whose calls then wait, and takes its memory from the devices. Its bytes
 * stay where they are. What must be known of it then lies in its own memory, too (saved.c): it may be written to a disk
 * and restarted. */
#include "call.h"
#include "context.h"
#include "shared.h"

#include <time.h>
#include <unistd.h>

enum { LOOK_US = 200 };

static bool still(struct shared_life *l) {
    return atomic_load(&l->calls) == 0 && atomic_load(&l->operations) == 0;
}

static bool runs(struct shared_life *l) {
    return !shared_is_away() && atomic_load(&l->state) == CU_PROCESS_STATE_RUNNING;
}

void checkpoint_pass(bool *inside) {
    bool nested = thread_self()->calls > 0;
    if (!shared_with_others())
        return;
    for (;; usleep(LOOK_US)) {
        struct shared_life *l = shared_life(); /* a restarted process has another one */
        if (!runs(l) && !nested)
            continue;
        atomic_fetch_add(&l->calls, 1);
        if (runs(l) || nested)
            break;
        atomic_fetch_sub(&l->calls, 1);
    }
    thread_self()->calls++;
    *inside = true;
}

void call_leave(const bool *inside) {
    if (!*inside)
        return;
    thread_self()->calls--;
    atomic_fetch_sub(&shared_life()->calls, 1);
}

static struct shared_life *life(int pid) {
    return shared_with_others() && pid != getpid() ? shared_life_of(pid) : NULL;
}

/* Of the process, in that state and no other: l. */
#define LIFE_OF(pid, is)                                                                                               \
    struct shared_life *l = life(pid);                                                                                 \
    INVALID_IF(!l);                                                                                                    \
    if (atomic_load(&l->state) != (is))                                                                                \
    return CUDA_ERROR_ILLEGAL_STATE

CALL(cuCheckpointProcessGetState, CALL_DRIVER, int pid, CUprocessState *state) {
    struct shared_life *l = life(pid);
    INVALID_IF(!l);
    TELL(state, (CUprocessState)atomic_load(&l->state));
}

CALL(cuCheckpointProcessLock, CALL_DRIVER, int pid, CUcheckpointLockArgs *args) {
    LIFE_OF(pid, CU_PROCESS_STATE_RUNNING);
    uint64_t left_us = args && args->timeoutMs ? args->timeoutMs * 1000ull : UINT64_MAX;
    atomic_store(&l->state, CU_PROCESS_STATE_LOCKED);
    while (!still(l)) {
        if (left_us < LOOK_US || life(pid) != l) {
            atomic_store(&l->state, CU_PROCESS_STATE_RUNNING);
            return CUDA_ERROR_NOT_READY;
        }
        usleep(LOOK_US);
        left_us -= LOOK_US;
    }
    return CUDA_SUCCESS;
}

CALL(cuCheckpointProcessCheckpoint, CALL_DRIVER, int pid, CUcheckpointCheckpointArgs *args) {
    LIFE_OF(pid, CU_PROCESS_STATE_LOCKED);
    if (atomic_load(&l->managed))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!shared_let_go(pid))
        return CUDA_ERROR_OPERATING_SYSTEM;
    return CUDA_SUCCESS;
}

CALL(cuCheckpointProcessRestore, CALL_DRIVER, int pid, CUcheckpointRestoreArgs *args) {
    LIFE_OF(pid, CU_PROCESS_STATE_CHECKPOINTED);
    if (atomic_load(&l->on_host))
        return CUDA_ERROR_UNKNOWN;
    if (atomic_load(&l->stuck))
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!shared_hold_again(pid, devices[0].memory)) {
        atomic_store(&l->stuck, true);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CALL(cuCheckpointProcessUnlock, CALL_DRIVER, int pid, CUcheckpointUnlockArgs *args) {
    LIFE_OF(pid, CU_PROCESS_STATE_LOCKED);
    atomic_store(&l->state, CU_PROCESS_STATE_RUNNING);
    return CUDA_SUCCESS;
}
