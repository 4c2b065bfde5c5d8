/* Memory that moves, shared between processes that have the library: a handle of ours in the place of the driver's, and
 * what the two processes say to each other over a socket. */
#ifndef ULMS_IPC_H
#define ULMS_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "backend/backend.h"
#include "driver.h"
#include "ledger/ledger.h"

/* What a CUipcMemHandle holds. */
struct ipc_handle {
    char magic[8];
    uint32_t version;
    uint32_t unused;
    uint64_t session; /* random, of the exporting process: the socket's name */
    uint64_t id;      /* of the allocation, there */
    uint64_t bytes;   /* as the program asked for them */
    uint8_t token[16];
    uint64_t none;
};
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "it takes the driver's place");

struct ipc_request {
    struct ipc_handle handle;
    uint64_t first; /* number of the first piece that is wanted */
};

/* With `count` files. */
struct ipc_reply {
    uint32_t refused; /* 1: what follows is nothing */
    uint32_t count;
    uint64_t all, lead, bytes; /* struct backend_share */
    uint64_t piece[BACKEND_PIECES];
};

/* The abstract address of a session's socket; returns its length. */
socklen_t ipc_address(struct sockaddr_un *out, uint64_t session);
/* The process at the other end belongs to the same user. *pid: its number, as seen from here. */
bool ipc_peer_is_ours(int file, pid_t *pid);

/* --- the exporter (ipc_server.c) --- */

/* It gets a handle, which another process with the library can open. */
bool ipc_can_share(const struct allocation *a);
/* Always the same handle of the same allocation; the first one starts the thread that serves. False: it cannot be. */
bool ipc_export(const struct allocation *a, CUipcMemHandle *out);
/* It was exported by this process. */
bool ipc_is_own(const struct ipc_handle *h);
/* Nothing is served on return. */
void ipc_stop(void);
/* In the child of a fork, which serves nothing. */
void ipc_fork_child(void);

/* --- the importer (ipc_import.c) --- */

/* As cuIpcOpenMemHandle and cuIpcCloseMemHandle. */
CUresult ipc_open(CUdeviceptr *out, const struct ipc_handle *h);
/* False: it is not ours to close. */
bool ipc_close(CUdeviceptr start);
/* The context is gone, with what it had opened. */
void ipc_forget(uint64_t context);
/* What the context of the calling thread has opened there, as one allocation; the driver knows pieces. */
bool ipc_imported_at(addr_t address, struct allocation *out);

#endif
