/* Pages are copied to the file and back through pieces of pinned memory: what the file is written from the driver does
 * not know, and neither does the kernel know the memory of frames. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/vmm/vmm.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { STAGE_MOST = 8 << 20, PORTABLE = 1 };

static struct lock lock;
static void *idle; /* each begins with the address of the next. Under the lock */

static uint64_t stage_bytes(void) {
    return smaller(page_bytes, STAGE_MOST);
}

/* Trap: a fork would have the next write of ours go to a copy, beside what the device uses. Where it is not pinned
 * copies are slower, and as good. */
static void *stage_new(void) {
    void *stage = mmap(NULL, stage_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED)
        return NULL;
    madvise(stage, stage_bytes(), MADV_DONTFORK);
    REAL(cuMemHostRegister_v2, 0)(stage, stage_bytes(), PORTABLE);
    return stage;
}

static void *stage_take(void) {
    lock_take(&lock);
    void **stage = idle;
    idle = stage ? *stage : NULL;
    lock_drop(&lock);
    return stage ? stage : stage_new();
}

static void stage_give(void *stage) {
    lock_take(&lock);
    *(void **)stage = idle;
    idle = stage;
    lock_drop(&lock);
}

/* Trap: an alias is an address of the device, wherever its frame lies: a copy that finds out itself where that is may
 * be left to the processor, which has no access. And a stage that the driver may still use is nobody's any more. */
static bool copy(void **stage, addr_t alias, bool in, uint64_t bytes, CUstream stream) {
    CUresult status = in ? REAL(cuMemcpyHtoDAsync_v2, 0)(alias, *stage, bytes, stream)
                         : REAL(cuMemcpyDtoHAsync_v2, 0)(*stage, alias, bytes, stream);
    bool done = status == CUDA_SUCCESS && vmm_wait(stream);
    if (!done)
        *stage = NULL;
    return done;
}

static void tell(struct vmm *v, bool reads) {
    if (__atomic_exchange_n(&v->file_tells[reads], true, __ATOMIC_RELAXED))
        return;
    if (reads)
        log_error("device %d: pages cannot be read from their file (%s): what uses them is refused as out of memory",
                  v->device, strerror(errno));
    else
        log_warn("device %d: no more pages go to a file (%s): they stay where they are", v->device, strerror(errno));
}

uint32_t vmm_file_take(struct vmm *v) {
    uint32_t slot = page_file_take(&v->file);
    if (slot == NO_SLOT)
        tell(v, false);
    return slot;
}

/* All of a slot, in pieces. */
static bool pass(struct vmm *v, bool in, uint32_t slot, addr_t alias, CUstream stream) {
    void *stage = stage_take();
    uint64_t n = stage_bytes(), at = 0;
    bool filed = true, good = stage != NULL;
    while (good && at < page_bytes) {
        if (in)
            good = (filed = page_file_read(&v->file, slot, at, stage, n)) && copy(&stage, alias + at, true, n, stream);
        else
            good =
                copy(&stage, alias + at, false, n, stream) && (filed = page_file_write(&v->file, slot, at, stage, n));
        at += good ? n : 0;
    }
    if (!filed)
        tell(v, in);
    if (stage)
        stage_give(stage);
    stats_add(in ? COUNT_file_in_bytes : COUNT_file_out_bytes, at);
    return good;
}

bool vmm_file_write(struct vmm *v, uint32_t slot, addr_t from, CUstream stream) {
    return pass(v, false, slot, from, stream);
}

bool vmm_file_read(struct vmm *v, uint32_t slot, addr_t to, CUstream stream) {
    return pass(v, true, slot, to, stream);
}
