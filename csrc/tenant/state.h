/* A program on one device it shares. Only csrc/tenant looks inside; its thread alone, where nothing else is said. */
#ifndef TENANT_STATE_H
#define TENANT_STATE_H

#include <pthread.h>

#include "backend/backend.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/session.h"
#include "tenant/connection.h"

struct tenant {
    int device;
    pthread_t thread;
    bool joined;
    struct connection to;
    struct policy_lease lease; /* the latest that was read */
    uint32_t sequence;         /* of the page then */
    bool closed, drains;       /* the gate is closed; and it was not told yet that nothing runs */
    bool unacknowledged;
    bool together; /* others share the device. Atomic */
    bool settles;  /* its budget changed a moment ago */
    bool elected;  /* it has the next turn, once the last one has drained */
    uint64_t elected_ns, drains_ns;
    uint64_t budget_ns;
    uint64_t read_ns; /* when the lease was read */
    uint64_t acknowledged_ns, reported_ns;
    uint64_t operations, issued_ns; /* and when there were last more of them */
    bool wanted;
    uint64_t need, used, host; /* bytes: reported last */
    uint64_t away;             /* likewise. Atomic */
    uint32_t asked;            /* what tenants_asked gave when the broker was told of it last */
    uint32_t heard;            /* and when `away` knew of it. Atomic */
    uint64_t file;             /* number of the request by which its host memory goes to a file; 0: it stays */
    uint64_t filed;            /* the same, as reported last, once it has gone */
    uint64_t budget;           /* the latest while it was not suspended, nor resumed just now; 0: none */
    uint64_t resumed_ns;
    struct share_hello hello;   /* what does not change of it, once it is known */
    struct share_report latest; /* that was said */
    bool released;    /* it lets go of the device: this thread calls no driver, and asks the backend nothing. Atomic */
    uint64_t release; /* number of the last request to do so, or when it joined, that was followed or refused */
    uint64_t serial;  /* while it is released: of the lease that was acknowledged */
    unsigned tries;
    const char *kept; /* why it does not let go; NULL: nobody asks for that, or it does */
    uint64_t held;    /* bytes: acknowledged last */
    uint64_t gate_ns; /* when its gate opened or closed last */
    uint64_t told_ns; /* when that was told last */
};

static inline const struct backend_shares *tenant_backend(void) {
    return session.backend->shares;
}

/* Each turn tells: no call site falls silent. */
#define TENANT_TELL(...)                                                                                               \
    do {                                                                                                               \
        if (ulms_options.level >= LOG_DEBUG)                                                                           \
            log_line(LOG_DEBUG, NULL, __VA_ARGS__);                                                                    \
    } while (0)

/* The lease was read: microseconds. */
static inline unsigned long long tenant_since(const struct tenant *t) {
    return (clock_ns() - t->read_ns) / 1000;
}

static inline bool tenant_is_alone(const struct tenant *t) {
    return __atomic_load_n(&t->to.page->tenants, __ATOMIC_RELAXED) < 2;
}

/* Others wait for the end of its turn. */
static inline bool tenant_is_bound(const struct tenant *t) {
    return t->lease.in_flight_ns != UINT64_MAX;
}

/* The program is to be suspended if it is odd, and else resumed; another one each time that somebody asks. */
uint32_t tenants_asked(void);

/* report.c: what is said. Reports what is due; acknowledges the lease; tells that a turn has drained; asks to be
 * suspended or resumed. */
void tenant_report(struct tenant *t);
void tenant_acknowledge(struct tenant *t);
void tenant_drained(struct tenant *t);
void tenant_ask(struct tenant *t);
/* Once all has left, host memory goes to a file where that is asked for, until it is resumed. */
void tenant_file(struct tenant *t);
void tenant_unfile(struct tenant *t);

bool tenant_say(struct tenant *t, struct share_message *m);

/* release.c: lets go of the device, where that is asked for and possible. */
void tenant_release(struct tenant *t);
/* Answers while it is released. False: it is no more. */
bool tenant_is_released(struct tenant *t);

/* lease.c: what is heard, and done about it. */
void tenant_read(struct tenant *t);
void tenant_close(struct tenant *t, bool closed);
/* Nobody could resume it: it has the memory that it had before it was suspended. */
void tenant_unsuspend(struct tenant *t);

#endif
