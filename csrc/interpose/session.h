/* From the program's first successful cuInit to its exit: what is on, and for whom. */
#ifndef ULMS_SESSION_H
#define ULMS_SESSION_H

#include "backend/backend.h"
#include "interpose/wrap.h"
#include "ledger/ledger.h"

struct session {
    struct ledger *ledger;
    const struct backend *backend;
    void (*admit)(struct op *op); /* this and the next three: the backend's, one step nearer; may be NULL */
    void (*settle)(const struct op *op);
    void (*block_before)(void);
    void (*block)(addr_t start, uint64_t bytes, bool live);
    bool hears_blocks; /* the framework's allocator is believed */
    bool hears_calls;  /* libraries are */
    int devices;
    uint64_t managed_limit; /* bytes; 0: none */
};

extern struct session session;
extern bool session_on; /* everything that records asks this first */

/* The program initialised CUDA: reads the options, starts what they ask for. Later calls do nothing. */
void session_start(void);
/* Threads of the backend run from now on. At exit it stops before what was registered until now is run, as contexts may
 * be destroyed there; what is registered later runs before. */
void session_stops_first(void);
/* Device of the calling thread's current context, or DEVICE_NONE. */
int session_device(void);
/* The calling thread's current context, as a number; 0: none. */
uint64_t session_context(void);

#endif
