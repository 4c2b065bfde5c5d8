/* From the program's first successful cuInit to its exit: what is on, and for whom. Pointers that csrc/interpose fills
 * in, so that lower layers reach what they do not know. */
#ifndef ULMS_SESSION_H
#define ULMS_SESSION_H

#include "base/gate.h"
#include "driver/real.h"
#include "launch/op.h"
#include "ledger/ledger.h"

struct backend; /* backend/backend.h */

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
    struct gate foreign;           /* of calls that make a handle of host memory, or of another process's, for good */
    uint64_t managed_limit;        /* bytes; 0: none */
    uint64_t file_limit;           /* bytes beyond that */
    void (*capture_unknown)(void); /* this and the next: the backend's, too */
    void (*jumped)(void);
    void (*still_begin)(const struct op *op); /* this and the next: the backend's, too; may be NULL */
    void (*still_end)(void);
    void (*stop_backend)(void);
    void (*device_used)(int device);   /* a call of the program uses it; NULL: nothing is shared */
    void (*device_comes)(int device);  /* the backend begins to use it; NULL, this and the next: nobody wants to know */
    void (*device_asks)(int device);   /* a thread waits for its turn there. Takes no lock */
    bool (*device_shares)(int device); /* other processes have memory there that they may have to give up. The same */
};

extern struct session session;
extern bool session_on; /* everything that records asks this first */

/* A call asks for memory of the device, or how much there is: it is shared from the first one on. */
static inline void session_uses(int device) {
    if (session.device_used && session_on)
        session.device_used(device);
}

/* Threads of the backend run from now on. At exit it stops before what was registered until now is run, as contexts may
 * be destroyed there; what is registered later runs before. */
void session_stops_first(void);

#endif
