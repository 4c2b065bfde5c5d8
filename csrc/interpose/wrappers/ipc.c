#define _GNU_SOURCE
#include "interpose/replace/ipc.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/replace/provide.h"

static const char magic[8] = "ulms-ipc";

/* Whether the handle is one of ours. */
static bool ipc_read(struct ipc_handle *out, const CUipcMemHandle *handle) {
    memcpy(out, handle, sizeof *out);
    return memcmp(out->magic, magic, sizeof magic) == 0 && out->version == 1;
}

/* Without a file that could stay behind; whoever knows the name and is the same user may ask. */
socklen_t ipc_address(struct sockaddr_un *out, uint64_t session) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "ulms-ipc-%016llx", (unsigned long long)session);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool ipc_peer_is_ours(int file, pid_t *pid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    *pid = peer.pid;
    return peer.uid == geteuid();
}

/* --- the program's calls --- */

static void tell_refused(void) {
    static bool told;
    if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        return;
    if (session.backend->share)
        log_error("cuIpcGetMemHandle: this memory cannot be shared with another process: set ULMS_BACKEND=observe, or "
                  "name the library that allocates it in ULMS_PLAIN");
    else
        log_error("cuIpcGetMemHandle: managed memory cannot be shared with another process: set ULMS_BACKEND=vmm in "
                  "both processes, or name the library that allocates it in ULMS_PLAIN");
}

/* The driver gives no handle of what comes from a pool or lies behind a handle. */
bool ipc_can_share(const struct allocation *a) {
    return session.backend->share && (a->kind == MEMORY_PLAIN || a->kind == MEMORY_PITCH);
}

CUresult custom_cuIpcGetMemHandle(int variant, CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    struct allocation a;
    bool moves = pHandle && provided_at(dptr, &a);
    if (moves && context_current() && ipc_can_share(&a) && ipc_export(&a, pHandle))
        return CUDA_SUCCESS;
    CUresult status = REAL(cuIpcGetMemHandle, variant)(pHandle, dptr);
    if (status != CUDA_SUCCESS && moves)
        tell_refused();
    return status;
}

static bool is_ours(struct ipc_handle *h, const CUdeviceptr *out, const CUipcMemHandle *handle, unsigned int flags) {
    return session_on && out && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS && ipc_read(h, handle);
}

static CUresult open_ours(CUdeviceptr *out, const struct ipc_handle *h) {
    gate_enter(&session.foreign, 1);
    CUresult status = ipc_open(out, h);
    gate_leave(&session.foreign, status != CUDA_SUCCESS);
    return status;
}

CUresult custom_cuIpcOpenMemHandle(int variant, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    struct ipc_handle ours;
    if (is_ours(&ours, pdptr, &handle, Flags))
        return open_ours(pdptr, &ours);
    CUresult status = REAL(cuIpcOpenMemHandle, variant)(pdptr, handle, Flags);
    if (status == CUDA_SUCCESS)
        memory_note_imported(*pdptr);
    return status;
}

CUresult custom_cuIpcOpenMemHandle_v2(int variant, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    struct ipc_handle ours;
    if (is_ours(&ours, pdptr, &handle, Flags))
        return open_ours(pdptr, &ours);
    CUresult status = REAL(cuIpcOpenMemHandle_v2, variant)(pdptr, handle, Flags);
    if (status == CUDA_SUCCESS)
        memory_note_imported(*pdptr);
    return status;
}

CUresult custom_cuIpcCloseMemHandle(int variant, CUdeviceptr dptr) {
    struct dealloc p;
    if (ipc_close(dptr))
        return CUDA_SUCCESS;
    dealloc_open(&p, dptr);
    return dealloc_close(&p, REAL(cuIpcCloseMemHandle, variant)(dptr));
}
