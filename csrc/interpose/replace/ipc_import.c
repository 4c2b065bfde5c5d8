/* The importing process: what another one exported, mapped here piece by piece. Its memory stays there as long as it is
 * mapped here, whatever becomes of the other process. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/memory.h"
#include "interpose/replace/ipc.h"

#define LOOK_US 100000

struct import {
    struct ipc_handle handle;
    uint64_t context;
    addr_t base; /* what is mapped */
    uint64_t bytes, mapped;
    addr_t start;  /* the allocation */
    unsigned uses; /* how often it was opened, and not closed; 0: to be unmapped once nothing runs */
    struct import *next;
};

static struct lock lock;
static struct import *list;

static bool has_imports(void) {
    return __atomic_load_n(&list, __ATOMIC_ACQUIRE);
}

/* --- what the exporter says --- */

static int connected(uint64_t session, pid_t *pid) {
    struct sockaddr_un address;
    socklen_t size = ipc_address(&address, session);
    struct timeval look = {.tv_usec = LOOK_US};
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (file < 0)
        return -1;
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
    if (connect(file, (struct sockaddr *)&address, size) == 0 && ipc_peer_is_ours(file, pid))
        return file;
    close(file);
    return -1;
}

/* A child of the exporter may hold the socket open when that is gone. */
static ssize_t receive(int from, pid_t pid, struct msghdr *m) {
    struct patience patience = {.what = PATIENCE_NEED};
    ssize_t n;
    do
        n = recvmsg(from, m, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EAGAIN || errno == EINTR) && patience_left(&patience, 0) > 0 &&
           !(kill(pid, 0) && errno == ESRCH));
    return n;
}

struct answer {
    struct ipc_reply reply;
    int file[BACKEND_PIECES];
};

static void close_files(const struct answer *a, size_t from) {
    for (size_t i = from; i < a->reply.count; i++)
        close(a->file[i]);
}

/* False: there is nothing, and no file is left open. */
static bool exporter_ask(int exporter, pid_t pid, const struct ipc_request *q, struct answer *a) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * BACKEND_PIECES)];
        struct cmsghdr align;
    } control;
    struct iovec part = {&a->reply, sizeof a->reply};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (send(exporter, q, sizeof *q, MSG_NOSIGNAL) != (ssize_t)sizeof *q)
        return false;
    ssize_t n = receive(exporter, pid, &m);
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
    bool files = c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
    size_t count = files ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (files)
        memcpy(a->file, CMSG_DATA(c), count * sizeof(int));
    bool good = n == (ssize_t)sizeof a->reply && !a->reply.refused && a->reply.count == count && count > 0;
    a->reply.count = (uint32_t)count;
    if (!good)
        close_files(a, 0);
    return good;
}

/* --- mapping --- */

/* False: the driver would not; what is left is as it was. */
static bool unmap(struct import *i) {
    if (i->mapped && REAL(cuMemUnmap, 0)(i->base, i->mapped) != CUDA_SUCCESS)
        return false;
    i->mapped = 0;
    return !i->base || REAL(cuMemAddressFree, 0)(i->base, i->bytes) == CUDA_SUCCESS;
}

static bool map_file(struct import *i, int file, uint64_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (bytes > i->bytes - i->mapped ||
        REAL(cuMemImportFromShareableHandle, 0)(&handle, (void *)(intptr_t)file, type) != CUDA_SUCCESS)
        return false;
    bool mapped = REAL(cuMemMap, 0)(i->base + i->mapped, bytes, 0, handle, 0) == CUDA_SUCCESS;
    REAL(cuMemRelease, 0)(handle); /* it stays as long as it is mapped */
    i->mapped += mapped ? bytes : 0;
    return mapped;
}

static bool map_files(struct import *i, const struct answer *a) {
    bool good = true;
    for (size_t k = 0; k < a->reply.count; k++) {
        good = good && map_file(i, a->file[k], a->reply.piece[k]);
        close(a->file[k]);
    }
    return good;
}

static bool reserve(struct import *i, const struct ipc_reply *r) {
    CUdeviceptr base = 0;
    bool sane = r->lead < r->bytes && i->handle.bytes <= r->bytes - r->lead;
    if (!sane || REAL(cuMemAddressReserve, 0)(&base, r->bytes, PAGE_LEAST, 0, 0) != CUDA_SUCCESS)
        return false;
    i->base = base;
    i->bytes = r->bytes;
    i->start = base + r->lead;
    return true;
}

static bool receive_all(struct import *i, int exporter, pid_t pid) {
    struct ipc_request q = {.handle = i->handle};
    struct answer a;
    for (uint64_t all = 1; q.first < all; q.first += a.reply.count) {
        if (!exporter_ask(exporter, pid, &q, &a))
            return false;
        if (q.first == 0 && !reserve(i, &a.reply)) {
            close_files(&a, 0);
            return false;
        }
        if (!map_files(i, &a))
            return false;
        all = a.reply.all;
    }
    return i->mapped == i->bytes;
}

static bool allow(const struct import *i) {
    CUmemAccessDesc here = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, context_device()},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return REAL(cuMemSetAccess, 0)(i->base, i->bytes, &here, 1) == CUDA_SUCCESS;
}

/* NULL: refused. */
static struct import *import_new(const struct ipc_handle *h, uint64_t context) {
    struct import *i = calloc(1, sizeof *i);
    pid_t pid;
    if (!i)
        return NULL;
    *i = (struct import){.handle = *h, .context = context, .uses = 1};
    int exporter = connected(h->session, &pid);
    bool good = exporter >= 0 && receive_all(i, exporter, pid) && allow(i);
    if (exporter >= 0)
        close(exporter);
    if (good)
        return i;
    log_warn("memory of another process cannot be opened: %s",
             exporter < 0 ? "it is gone, or not this user's" : "it does not share it, or the driver refused");
    unmap(i);
    free(i);
    return NULL;
}

/* --- what is open --- */

/* Under the lock. */
static struct import *import_find(const struct ipc_handle *h, uint64_t context) {
    struct import *i = list;
    while (i && (i->context != context || memcmp(&i->handle, h, sizeof *h) != 0))
        i = i->next;
    return i;
}

/* Of what is not used, or of a context: the next, taken out. */
static struct import *import_take(bool (*wanted)(const struct import *i, uint64_t context), uint64_t context) {
    lock_take(&lock);
    struct import **at = &list, *i;
    while ((i = *at) && !wanted(i, context))
        at = &i->next;
    if (i)
        __atomic_store_n(at, i->next, __ATOMIC_RELEASE);
    lock_drop(&lock);
    return i;
}

static void put(struct import *i) {
    lock_take(&lock);
    i->next = list;
    __atomic_store_n(&list, i, __ATOMIC_RELEASE);
    lock_drop(&lock);
}

static bool is_unused(const struct import *i, uint64_t context) {
    (void)context;
    return i->uses == 0;
}

static bool is_of(const struct import *i, uint64_t context) {
    return i->context == context;
}

/* Kernels may still use it. What does not go now is looked at with the next that is opened or closed. */
static void end_unused(void) {
    struct import *busy = NULL, *i;
    while ((i = import_take(is_unused, 0))) {
        CUresult status = context_idle((CUcontext)(uintptr_t)i->context, busy ? 0 : PATIENCE_NS);
        if ((status == CUDA_SUCCESS || status == CUDA_ERROR_CONTEXT_IS_DESTROYED) && unmap(i)) {
            free(i);
        } else {
            i->next = busy;
            busy = i;
        }
    }
    while ((i = busy)) {
        busy = i->next;
        put(i);
    }
}

/* The allocation is used once more. NULL: it is not open. */
static struct import *use_again(const struct ipc_handle *h, uint64_t context, bool *first) {
    lock_take(&lock);
    struct import *i = import_find(h, context);
    *first = i && i->uses++ == 0;
    lock_drop(&lock);
    return i;
}

CUresult ipc_open(CUdeviceptr *out, const struct ipc_handle *h) {
    bool first;
    uint64_t context = context_current();
    if (!context || ipc_is_own(h))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct import *i = has_imports() ? use_again(h, context, &first) : NULL;
    if (!i) {
        i = import_new(h, context);
        first = true;
        if (!i)
            return CUDA_ERROR_MAP_FAILED;
        put(i);
    }
    *out = i->start;
    if (first)
        memory_note(i->start, h->bytes, MEMORY_IPC, context);
    return CUDA_SUCCESS;
}

bool ipc_close(CUdeviceptr start) {
    struct dealloc p;
    if (!has_imports())
        return false;
    lock_take(&lock);
    struct import *i = list;
    while (i && (i->start != start || i->uses == 0))
        i = i->next;
    bool last = i && --i->uses == 0;
    lock_drop(&lock);
    if (last) {
        dealloc_open(&p, start);
        dealloc_close(&p, CUDA_SUCCESS);
        end_unused();
    }
    return i != NULL;
}

void ipc_forget(uint64_t context) {
    for (struct import *i; has_imports() && (i = import_take(is_of, context));) {
        unmap(i);
        free(i);
    }
}

bool ipc_imported_at(addr_t address, struct allocation *out) {
    if (!has_imports() || !session_on || !ledger_find(session.ledger, address, out) || out->kind != MEMORY_IPC)
        return false;
    lock_take(&lock);
    const struct import *i = list;
    while (i && i->start != out->start)
        i = i->next;
    lock_drop(&lock);
    return i != NULL;
}
