/* A GPU that tenants share: its policy, and who hears its leases. */
#ifndef BROKER_GPU_H
#define BROKER_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/history.h"
#include "broker/policy.h"
#include "share/message.h"
#include "share/page.h"

enum { GPUS_MAX = 64 };

struct gpu {
    uint8_t uuid[SHARE_GPU_BYTES];
    uint64_t seen;         /* bytes that there are to share, as the tenant sees it that sees least */
    struct policy *policy; /* NULL: this place is free */
    uint32_t tenants;
    uint32_t elect;               /* who has the next turn, once the last one has drained; 0: nobody */
    uint64_t elected_ns, told_ns; /* since when; when the log was told of a turn */
};

/* A tenant as its GPU knows it. */
struct tenant {
    struct gpu *gpu;
    struct tenant *next; /* of all that there are */
    uint32_t id, group;
    int pid;
    uint64_t heard; /* ns: when it last said anything */
    struct share_report report;
    struct policy_lease lease;
    struct history charged;
    uint64_t switches;     /* times that its gate opened */
    bool own;              /* it suspended itself, and nobody else has since */
    uint64_t suspended_ns; /* when it was suspended or parked last */
    uint64_t away_ns;      /* so long after that all had left; UINT64_MAX: it has not */
    struct share_page *page;
};

/* Joins what the hello says. *file: the page's descriptor, for the caller to send and close. NULL: `why` says it. */
struct tenant *tenant_join(const struct share_hello *hello, int pid, uint64_t now, int *file, const char **why);
void tenant_leave(struct tenant *t, uint64_t now);
/* Of one of the kinds that tenants send. False: it makes no sense. */
bool tenant_says(struct tenant *t, const struct share_message *m, uint64_t now);

void tenant_suspend(struct tenant *t, bool suspended, uint64_t now);
/* The first of all tenants. */
struct tenant *tenants_first(void);
/* Free places have no policy. */
struct gpu *gpu_at(int i);
/* Time passes; leases that changed are told. When to call again, ns; UINT64_MAX: no need. */
uint64_t gpus_tick(uint64_t now);
/* A turn is handed over, since a moment ago: to sleep would take as long as the rest of it. */
bool gpus_hand_over(uint64_t now);
/* Bytes that are shared out. */
uint64_t gpu_capacity(const struct gpu *g);
/* Of each GPU at most so many bytes are shared out, turns last so long (0: as the policy chooses), and so many tenants
 * are resident (0: any number). */
void gpus_fix(uint64_t bytes, uint64_t turn_ns, uint32_t resident, uint64_t now);
/* The settings of a group are others, on every GPU. */
void gpus_group(uint32_t group, uint64_t now);

#endif
