/* What a tenant and the broker say to each other, on one machine. A tenant is a process on one GPU: it has a connection
 * (SOCK_SEQPACKET, which keeps messages whole) for each.
 *
 *   tenant                          broker
 *   hello ────────────────────────▶ welcome, with the lease's page as a descriptor; or refused
 *   report, acknowledge, drained ─▶ policy ──▶ leases, written into the page
 *   end of the socket ────────────▶ the tenant is gone
 *
 * The page is a sealed memfd that the broker alone writes and the tenant maps for reading. So nothing that a tenant
 * does can harm the broker or another tenant, and nothing is to be repaired when either dies. Words in messages are
 * those of broker/policy.h. */
#ifndef SHARE_MESSAGE_H
#define SHARE_MESSAGE_H

#include <stdint.h>

#include "broker/policy.h"

/* One that differs is refused: both ends come with one version of the library. */
enum { SHARE_VERSION = 9 };

enum { SHARE_NAME_MAX = 64, SHARE_GPU_BYTES = 16, SHARE_TEXT_MAX = 256, SHARE_REASON_MAX = 64 };

enum share_kind {
    /* To the broker. */
    SHARE_HELLO = 1,
    SHARE_REPORT = 2,
    SHARE_ACKNOWLEDGE = 3,
    SHARE_DRAINED = 4,
    SHARE_STATUS = 5,   /* in place of hello: answered with one message of JSON */
    SHARE_STOP = 6,     /* the same, of its user: the broker ends; who holds a lease keeps it. In every version */
    SHARE_STAY = 11,    /* the same, of its user: the broker does not end by itself; answered with welcome */
    SHARE_SET = 7,      /* the same, of its user: settings of a group (settings_read); answered with welcome */
    SHARE_SUSPEND = 10, /* the same, of its user: programs are suspended or resumed; answered with welcome. Of a tenant:
                         * it alone; not answered */
    /* From it. In every version: a refusal is read by all. */
    SHARE_WELCOME = 8,
    SHARE_REFUSED = 9
};

/* A tenant joins. Text ends with zeros. */
struct share_hello {
    char group[SHARE_NAME_MAX];
    uint8_t gpu[SHARE_GPU_BYTES]; /* CUDA's UUID */
    uint64_t capacity;            /* bytes of the GPU that tenants may share, as this one sees it */
    uint64_t rate;                /* bytes a second over the link, each way */
    uint64_t floor, held;         /* bytes */
    uint32_t sets;                /* 1: its group gets the settings below; 0: it has them already, or the defaults */
    struct policy_group settings;
};

/* Who lets go of the device is resumed, or suspended without that, only by one that says that its context is back. */
enum { SHARE_CONTEXT_STAYS = 0, SHARE_CONTEXT_LEAVES = 1, SHARE_CONTEXT_IS_BACK = 2 };

/* What the policy judges, and what only the status and other programs are told. */
struct share_report {
    struct policy_report policy;
    uint64_t used;    /* bytes of its allocations, wherever they are */
    uint64_t host;    /* bytes of its process that may move, on all GPUs */
    uint64_t evicted; /* bytes since it joined that went to the host */
    uint64_t stays;   /* bytes of the device that it has while it is suspended, or that the driver has not taken back */
    uint64_t filed;   /* bytes that lie in a file */
    uint64_t file;    /* number of the request (share/page.h) by which all that goes to a file has gone; or 0 */
    /* 1 more than the number of the request (share/page.h) by which it lets go of the device: a checkpoint of the
     * driver's may take its context; or 0 */
    uint64_t released;
    uint64_t away;                  /* serial of the lease that suspends it, if all else has left; or 0 */
    char unfiled[SHARE_REASON_MAX]; /* why not all that was to go to a file, or to be let go of, was; "": it was */
};

struct share_acknowledge {
    uint64_t serial, held; /* of the lease; bytes */
};

struct share_drained {
    uint64_t serial;
};

struct share_set {
    char text[SHARE_TEXT_MAX];
};

struct share_suspend {
    char who[SHARE_NAME_MAX];    /* a group or the number of a process; share: or pid: before it says which it is */
    char folder[SHARE_TEXT_MAX]; /* of a file that its host memory goes to; "": none */
    uint32_t suspended;          /* 1, or 0: resumed */
    uint32_t context;            /* SHARE_CONTEXT_... */
    uint32_t number;             /* of a tenant: its page repeats it */
};

/* Kinds that say all. */
struct share_nothing {
    uint32_t zero;
};

struct share_refused {
    char why[SHARE_TEXT_MAX];
};

/* A message is its head and the part that its kind says, no more and no less. */
struct share_message {
    uint32_t kind, version;
    union {
        struct share_hello hello;
        struct share_report report;
        struct share_acknowledge acknowledge;
        struct share_drained drained;
        struct share_set set;
        struct share_suspend suspend;
        struct share_nothing nothing;
        struct share_refused refused;
    };
};

/* Bytes of a message of that kind; 0: there is none. */
uint32_t share_message_bytes(uint32_t kind);

#endif
