#include "broker/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/group.h"
#include "broker/host.h"
#include "broker/log.h"

enum { TOLD_NS = 250000000 };    /* at most so often the log is told of a turn */
enum { SILENT_NS = 1000000000 }; /* after which a tenant is taken for one that does nothing */

static struct gpu gpus[GPUS_MAX];
static struct tenant *tenants;
static uint32_t ids;
static uint64_t most_bytes = UINT64_MAX, turn_ns; /* of each GPU to share out; of a turn, 0: as the policy chooses */
static uint32_t most_resident;                    /* tenants; 0: any number */

struct gpu *gpu_at(int i) {
    return &gpus[i];
}

struct tenant *tenants_first(void) {
    return tenants;
}

uint64_t gpu_capacity(const struct gpu *g) {
    return g->seen < most_bytes ? g->seen : most_bytes;
}

static void make(struct gpu *g, const struct share_hello *h) {
    *g = (struct gpu){.seen = h->capacity};
    g->policy = policy_new(gpu_capacity(g), h->rate);
    memcpy(g->uuid, h->gpu, sizeof g->uuid);
    if (g->policy) {
        policy_turn(g->policy, 0, turn_ns);
        policy_resident(g->policy, 0, most_resident);
    }
}

static struct gpu *gpu_of(const struct share_hello *h) {
    struct gpu *free = NULL;
    for (struct gpu *g = gpus; g < gpus + GPUS_MAX; g++) {
        if (g->policy && memcmp(g->uuid, h->gpu, sizeof g->uuid) == 0)
            return g;
        free = !g->policy && !free ? g : free;
    }
    if (!free)
        return NULL;
    make(free, h);
    return free->policy ? free : NULL;
}

static void drop_unused(struct gpu *g) {
    if (g->tenants > 0 || !g->policy)
        return;
    policy_free(g->policy);
    *g = (struct gpu){.policy = NULL};
}

static struct tenant *find(const struct gpu *g, uint32_t id) {
    struct tenant *t = tenants;
    while (t && (t->gpu != g || t->id != id))
        t = t->next;
    return t;
}

static void tell_turn(struct tenant *t, uint64_t now) {
    t->switches++;
    if (t->gpu->tenants < 2 || now < t->gpu->told_ns + TOLD_NS || !log_tells_all())
        return;
    t->gpu->told_ns = now;
    log_tell("a turn for %s, process %d, with %llu MiB", group_of(t->group)->name, t->pid,
             (unsigned long long)(t->lease.budget >> 20));
}

static void tell_suspended(struct tenant *t, uint32_t suspended, uint64_t now) {
    bool was = t->lease.suspended == POLICY_PARKED, is = suspended == POLICY_PARKED;
    t->suspended_ns = now;
    t->away_ns = UINT64_MAX;
    if (was != is && log_tells_all())
        log_tell("process %d of %s %s", t->pid, group_of(t->group)->name, is ? "is idle: parked" : "is parked no more");
}

static void tell_elect(struct gpu *g, uint64_t now) {
    struct policy_state s;
    policy_state(g->policy, &s);
    if (s.elect != g->elect)
        g->elected_ns = now;
    g->elect = s.elect;
    for (struct tenant *t = tenants; t; t = t->next)
        if (t->gpu == g)
            share_page_elected(t->page, t->id == g->elect);
}

static void tell_leases(struct gpu *g, uint64_t now) {
    struct policy_lease lease;
    while (policy_next_lease(g->policy, &lease)) {
        struct tenant *t = find(g, lease.tenant);
        if (t) {
            bool opens = lease.may_issue && !t->lease.may_issue;
            if (lease.suspended != t->lease.suspended)
                tell_suspended(t, lease.suspended, now);
            t->lease = lease;
            if (opens)
                tell_turn(t, now);
            share_page_write(t->page, &lease);
        }
    }
    tell_elect(g, now);
}

static void tell_tenants(const struct gpu *g) {
    for (struct tenant *t = tenants; t; t = t->next)
        if (t->gpu == g)
            share_page_tenants(t->page, g->tenants);
}

/* Of the group on this GPU. */
static uint64_t used(const struct gpu *g, uint32_t group) {
    uint64_t bytes = 0;
    for (const struct tenant *t = tenants; t; t = t->next)
        bytes += t->gpu == g && t->group == group ? t->report.used : 0;
    return bytes;
}

static void tell_quotas(void) {
    uint64_t held = host_held();
    for (struct tenant *t = tenants; t; t = t->next) {
        uint64_t memory = group_of(t->group)->settings.memory;
        uint64_t others = memory ? used(t->gpu, t->group) - t->report.used : 0;
        share_page_quota(t->page, &(struct share_quota){memory, others, host_left_to(t, held)});
    }
}

/* What is shared is what the one that sees least of it sees. */
static void see_capacity(struct gpu *g, uint64_t bytes, uint64_t now) {
    if (bytes >= g->seen)
        return;
    g->seen = bytes;
    policy_capacity(g->policy, now, gpu_capacity(g));
}

void gpus_fix(uint64_t bytes, uint64_t ns, uint32_t resident, uint64_t now) {
    most_bytes = bytes;
    turn_ns = ns;
    most_resident = resident;
    for (struct gpu *g = gpus; g < gpus + GPUS_MAX; g++)
        if (g->policy) {
            policy_capacity(g->policy, now, gpu_capacity(g));
            policy_turn(g->policy, now, ns);
            policy_resident(g->policy, now, resident);
            tell_leases(g, now);
        }
}

void gpus_group(uint32_t group, uint64_t now) {
    for (struct gpu *g = gpus; g < gpus + GPUS_MAX; g++)
        if (g->policy) {
            policy_group(g->policy, now, group, &group_of(group)->settings);
            tell_leases(g, now);
        }
    tell_quotas();
}

static const char *policy_says(int status) {
    return status == POLICY_FULL    ? "too many tenants share this GPU"
           : status == POLICY_WRONG ? "its share makes no sense: request and limit are at most 1"
                                    : "the policy refused it";
}

void tenant_suspend(struct tenant *t, bool suspended, uint64_t now) {
    if (t->lease.suspended == suspended)
        return;
    policy_suspend(t->gpu->policy, now, t->id, suspended);
    tell_leases(t->gpu, now);
}

/* On any GPU. 0: one of another namespace, which may be any. */
static bool process_is_suspended(int pid) {
    for (const struct tenant *t = tenants; t; t = t->next)
        if (pid > 0 && t->pid == pid && t->lease.suspended == POLICY_SUSPENDED)
            return true;
    return false;
}

static void link_tenant(struct tenant *t) {
    t->next = tenants;
    tenants = t;
    t->gpu->tenants++;
}

/* What the last group of that number used is not counted against this one. */
static void forget_the_gone(uint32_t group, uint64_t now) {
    for (struct gpu *g = gpus; g < gpus + GPUS_MAX && group_of(group)->renamed; g++)
        if (g->policy)
            policy_group_gone(g->policy, now, group);
    group_of(group)->renamed = false;
}

/* It is linked before any lease is told: each is told once. */
static struct tenant *join(const struct share_hello *h, int pid, struct share_page *page, uint64_t now,
                           const char **why) {
    struct gpu *g = gpu_of(h);
    uint32_t group = g ? group_join(h->group) : 0;
    struct tenant *t = group ? calloc(1, sizeof *t) : NULL;
    *why = "the broker has no room";
    if (t) {
        forget_the_gone(group, now);
        *t = (struct tenant){.gpu = g, .id = ++ids, .group = group, .pid = pid, .heard = now, .page = page};
        struct policy_group settings = h->sets ? h->settings : group_of(group)->asked;
        settings_over(&settings, &group_of(group)->fixed);
        int status = policy_group(g->policy, now, group, &settings);
        status = status == POLICY_OK ? policy_join(g->policy, now, t->id, group, h->floor, h->held) : status;
        if (status == POLICY_OK) {
            link_tenant(t);
            if (group_of(group)->suspended || process_is_suspended(pid))
                tenant_suspend(t, true, now);
            see_capacity(g, h->capacity, now);
            if (h->sets) {
                group_ask(group_of(group), &h->settings);
                gpus_group(group, now);
            }
            return t;
        }
        *why = policy_says(status);
        policy_group(g->policy, now, group, &group_of(group)->settings);
        tell_leases(g, now);
    }
    free(t);
    if (group)
        group_leave(group);
    if (g)
        drop_unused(g);
    return NULL;
}

struct tenant *tenant_join(const struct share_hello *h, int pid, uint64_t now, int *file, const char **why) {
    *why = !settings_name_is_good(h->group) ? "a share's name has letters, digits and ._-/ only, 63 at most"
           : !h->capacity || !h->rate       ? "it says nothing of its GPU"
                                            : NULL;
    struct share_page *page = *why ? NULL : share_page_make(file);
    if (!page) {
        *why = *why ? *why : "the broker has no memory";
        return NULL;
    }
    struct tenant *t = join(h, pid, page, now, why);
    if (!t) {
        share_page_free(page);
        close(*file);
        return NULL;
    }
    history_note(&t->charged, now, 0);
    tell_leases(t->gpu, now);
    tell_tenants(t->gpu);
    tell_quotas();
    if (log_tells_all())
        log_tell("process %d joins %s: %u share the GPU", pid, h->group, t->gpu->tenants);
    return t;
}

void tenant_leave(struct tenant *t, uint64_t now) {
    struct gpu *g = t->gpu;
    uint32_t group = t->group;
    struct tenant **at = &tenants;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    g->tenants--;
    policy_leave(g->policy, now, t->id);
    if (log_tells_all())
        log_tell("process %d leaves %s: %u share the GPU", t->pid, group_of(group)->name, g->tenants);
    group_leave(group);
    share_page_free(t->page);
    free(t);
    tell_leases(g, now);
    tell_tenants(g);
    tell_quotas();
    drop_unused(g);
}

static int reports(struct tenant *t, const struct share_report *r, uint64_t now) {
    struct policy_tenant sums = {.turns = 0};
    bool other = r->used != t->report.used || r->host != t->report.host;
    t->report = *r;
    t->report.unfiled[SHARE_REASON_MAX - 1] = 0;
    if (t->lease.suspended && t->away_ns == UINT64_MAX && r->away == t->lease.serial)
        t->away_ns = now - t->suspended_ns;
    int status = policy_report(t->gpu->policy, now, t->id, &r->policy);
    policy_tenant(t->gpu->policy, t->id, &sums);
    history_note(&t->charged, now, sums.charged_ns);
    if (other)
        tell_quotas();
    return status;
}

bool tenant_says(struct tenant *t, const struct share_message *m, uint64_t now) {
    struct policy *p = t->gpu->policy;
    int status = POLICY_WRONG;
    t->heard = now;
    if (m->kind == SHARE_REPORT)
        status = reports(t, &m->report, now);
    else if (m->kind == SHARE_ACKNOWLEDGE)
        status = policy_acknowledge(p, now, t->id, m->acknowledge.serial, m->acknowledge.held);
    else if (m->kind == SHARE_DRAINED)
        status = policy_drained(p, now, t->id, m->drained.serial);
    tell_leases(t->gpu, now);
    return status == POLICY_OK;
}

/* It may be stopped. It keeps nobody waiting, and what it did not hold is no longer kept for it: when it runs again it
 * reads that first. When to look again, ns. */
static uint64_t hush(struct tenant *t, uint64_t now) {
    if (t->gpu->tenants < 2)
        return UINT64_MAX;
    if (now < t->heard + SILENT_NS)
        return t->heard + SILENT_NS;
    struct share_report r = t->report;
    r.policy.wants = r.policy.in_flight = 0;
    reports(t, &r, now);
    policy_acknowledge(t->gpu->policy, now, t->id, t->lease.serial, r.policy.resident);
    return now + SILENT_NS;
}

bool gpus_hand_over(uint64_t now) {
    for (const struct gpu *g = gpus; g < gpus + GPUS_MAX; g++)
        if (g->policy && g->elect && now < g->elected_ns + SHARE_HAND_OVER_NS)
            return true;
    return false;
}

uint64_t gpus_tick(uint64_t now) {
    uint64_t next = UINT64_MAX;
    for (struct tenant *t = tenants; t; t = t->next) {
        uint64_t at = hush(t, now);
        next = at < next ? at : next;
    }
    for (struct gpu *g = gpus; g < gpus + GPUS_MAX; g++)
        if (g->policy) {
            policy_tick(g->policy, now);
            tell_leases(g, now);
            uint64_t at = policy_next_ns(g->policy);
            next = at < next ? at : next;
        }
    return next;
}
