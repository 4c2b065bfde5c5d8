/* Pages are copied to the file and back through pieces of pinned memory: what the file is written from the driver does
 * not know, and neither does the kernel know the memory of frames. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/vmm/vmm.h"
#include "base/larger.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { STAGE_MOST = 8 << 20, PORTABLE = 1, TRIES = 3 };

#define UNUSED_NS 1000000000ull

static struct lock lock;  /* of the next two */
static void *idle;        /* each begins with the address of the next */
static uint64_t given_ns; /* when the last one became idle */

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
    given_ns = clock_ns();
    lock_drop(&lock);
}

bool vmm_stages_unused(void) {
    lock_take(&lock);
    bool unused = idle && clock_ns() > given_ns + UNUSED_NS;
    lock_drop(&lock);
    return unused;
}

/* Trap: what the driver still knows is not unmapped. */
void vmm_stages_end(void) {
    lock_take(&lock);
    void **stage = idle;
    idle = NULL;
    lock_drop(&lock);
    for (void **next; stage; stage = next) {
        next = *stage;
        CUresult status = REAL(cuMemHostUnregister, 0)(stage);
        if (status == CUDA_SUCCESS || status == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
            munmap(stage, stage_bytes());
        else
            stage_give(stage);
    }
}

static CUresult issue(void *stage, addr_t alias, bool in, uint64_t bytes, CUstream stream) {
    return in ? REAL(cuMemcpyHtoDAsync_v2, 0)(alias, stage, bytes, stream)
              : REAL(cuMemcpyDtoHAsync_v2, 0)(stage, alias, bytes, stream);
}

/* Trap: an alias is an address of the device, wherever its frame lies: a copy that finds out itself where that is may
 * be left to the processor, which has no access. And a stage that the driver may still use is nobody's any more. */
static bool copy(void **stage, addr_t alias, bool in, uint64_t bytes, CUstream stream) {
    bool issued = false, done = false;
    for (int i = 0; i < TRIES && !issued; i++)
        issued = issue(*stage, alias, in, bytes, stream) == CUDA_SUCCESS;
    for (int i = 0; i < TRIES && issued && !done; i++)
        done = vmm_wait(stream);
    if (issued && !done)
        *stage = NULL;
    return done;
}

void vmm_file_fails(struct vmm *v, bool reads, const char *why) {
    if (!reads)
        __atomic_store_n(&v->unfiled, why, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&v->file_tells[reads], true, __ATOMIC_RELAXED))
        return;
    if (reads)
        log_error("device %d: pages cannot be read from their file (%s): what uses them is refused as out of memory",
                  v->device, why);
    else
        log_warn("device %d: no more pages go to a file (%s): they stay where they are", v->device, why);
}

uint32_t vmm_file_take(struct vmm *v) {
    uint32_t slot = page_file_take(v->file);
    if (slot == NO_SLOT)
        vmm_file_fails(v, false, strerror(errno));
    return slot;
}

/* Nothing else holds what it reads: an error may be of the moment. */
static bool read_patiently(const struct vmm *v, uint32_t slot, uint64_t at, void *to, uint64_t bytes) {
    bool good = false;
    for (int i = 0; i < TRIES && !good; i++)
        good = page_file_read(v->file, slot, at, to, bytes);
    return good;
}

/* All of a slot, in pieces. */
static bool pass(struct vmm *v, bool in, uint32_t slot, addr_t alias, CUstream stream) {
    void *stage = stage_take();
    uint64_t n = stage_bytes(), at = 0;
    const char *why = stage ? NULL : strerror(ENOMEM);
    while (!why && at < page_bytes) {
        if (in && !read_patiently(v, slot, at, stage, n))
            why = strerror(errno);
        else if (!copy(&stage, alias + at, in, n, stream))
            why = "the driver refuses a copy";
        else if (!in && !page_file_write(v->file, slot, at, stage, n))
            why = strerror(errno);
        at += why ? 0 : n;
    }
    if (why)
        vmm_file_fails(v, in, why);
    if (stage)
        stage_give(stage);
    stats_add(in ? COUNT_file_in_bytes : COUNT_file_out_bytes, at);
    return !why;
}

bool vmm_file_write(struct vmm *v, uint32_t slot, addr_t from, CUstream stream) {
    return pass(v, false, slot, from, stream);
}

bool vmm_file_read(struct vmm *v, uint32_t slot, addr_t to, CUstream stream) {
    return pass(v, true, slot, to, stream);
}
