/* Memory of one process in another: found again through the file of the process that made it. */
#include "memory.h"
#include "vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int32_t process, file, device;
    uint64_t offset, bytes;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "it has to fit");

static const char magic[8] = "EMU-IPC";

CALL(cuIpcGetMemHandle, CALL_CONTEXT, CUipcMemHandle *out, CUdeviceptr address) {
    struct area a;
    INVALID_IF(!out || !area_find(address, &a) || a.kind != AREA_PLAIN);
    struct handle h = {.process = getpid(),
                       .file = memory_file(),
                       .device = a.device->ordinal,
                       .offset = a.start - memory_base(),
                       .bytes = a.bytes};
    memcpy(h.magic, magic, sizeof magic);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

/* Of the file of all memory: nobody here reads it. */
CALL(cuMemGetHandleForAddressRange, CALL_CONTEXT, void *handle, CUdeviceptr start, size_t bytes,
     CUmemRangeHandleType type, unsigned long long flags) {
    struct area a;
    INVALID_IF(!handle || bytes == 0 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || !area_find(start, &a) ||
               bytes > a.start + a.bytes - start);
    if (a.kind == AREA_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    int file = dup(memory_file());
    memcpy(handle, &file, sizeof file);
    return file < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* --- what is open --- */

struct use {
    CUcontext context;
    struct handle handle;
    uint64_t start;
    unsigned count;
    struct use *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct use *uses;

/* The context has it open: it gets the same address, and has to close it once more. What went with an earlier context
 * of that number is not there any more. */
static bool use_again(CUcontext c, const struct handle *h, CUdeviceptr *out) {
    struct area a;
    pthread_mutex_lock(&lock);
    struct use *u = uses;
    while (u && (u->context != c || memcmp(&u->handle, h, sizeof *h) != 0 || !area_find(u->start, &a) ||
                 a.kind != AREA_IPC || a.context != c))
        u = u->next;
    if (u) {
        u->count++;
        *out = u->start;
    }
    pthread_mutex_unlock(&lock);
    return u != NULL;
}

static void opened(CUcontext c, const struct handle *h, uint64_t start) {
    struct use *u = malloc(sizeof *u);
    if (!u)
        return;
    pthread_mutex_lock(&lock);
    *u = (struct use){c, *h, start, 1, uses};
    uses = u;
    pthread_mutex_unlock(&lock);
}

/* True: it is used still. */
static bool is_used_still(CUcontext c, uint64_t start) {
    pthread_mutex_lock(&lock);
    struct use **at = &uses, *u;
    while ((u = *at) && (u->context != c || u->start != start))
        at = &u->next;
    bool used = u && --u->count > 0;
    if (u && !used) {
        *at = u->next;
        free(u);
    }
    pthread_mutex_unlock(&lock);
    return used;
}

CALL(cuIpcOpenMemHandle, CALL_CONTEXT, CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    struct handle h;
    memcpy(&h, &handle, sizeof h);
    INVALID_IF(!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(h.magic, magic, sizeof magic) != 0 ||
               !device_valid(h.device));
    if (h.process == getpid()) /* the driver refuses a process its own handle */
        return CUDA_ERROR_INVALID_CONTEXT;
    if (use_again(c, &h, out))
        return CUDA_SUCCESS;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.process, h.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_MAP_FAILED;
    /* The piece may begin inside a granule, and may share it. */
    uint64_t before = h.offset % GRANULE, whole = whole_granules(before + h.bytes);
    uint64_t start = memory_reserve(whole, GRANULE, 0);
    bool mapped = start && vmm_map_bytes(start, whole, file, h.offset - before);
    close(file);
    struct area a = {.start = start + before,
                     .bytes = h.bytes,
                     .kind = AREA_IPC,
                     .device = &devices[h.device],
                     .context = c,
                     .offset = before};
    if (mapped && area_add(&a)) {
        *out = a.start;
        opened(c, &h, a.start);
        return CUDA_SUCCESS;
    }
    if (mapped)
        vmm_unmap_bytes(start, whole);
    if (start)
        memory_unreserve(start, whole);
    return CUDA_ERROR_MAP_FAILED;
}
SAME(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle);

CALL(cuIpcCloseMemHandle, CALL_CONTEXT, CUdeviceptr address) {
    if (is_used_still(c, address))
        return CUDA_SUCCESS;
    INVALID_IF(!memory_free_drained(c, address, 1u << AREA_IPC));
    return CUDA_SUCCESS;
}
