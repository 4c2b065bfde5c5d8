/* It lets go of the device, so that a checkpoint of the driver's can take its context: what would wait in a call of the
 * driver from then on may hold any lock of the backend's. */
#include "tenant/state.h"

enum { TRIES = 25, MOVES_TRIES = 500 }; /* at most 20 ms apart */
#define SAYS_NS 500000000ull

void tenant_release(struct tenant *t) {
    struct share_file asked;
    if (!share_page_read_file(t->to.page, &asked) || asked.number == t->release)
        return;
    t->kept = NULL;
    if (!asked.context || asked.number != t->filed || !t->away || *t->latest.unfiled)
        return;
    const char *why = tenant_backend()->let_go(t->device, true);
    if (why && ++t->tries < (*why ? TRIES : MOVES_TRIES))
        return;
    t->release = asked.number;
    t->tries = 0;
    t->kept = why && !*why ? "memory moves" : why;
    __atomic_store_n(&t->released, !why, __ATOMIC_RELEASE);
    t->serial = t->lease.serial;
    t->reported_ns = 0;
    tenant_report(t);
    if (t->released)
        log_info("device %d: its context leaves until `pump resume`", t->device);
}

/* What it said last holds on. */
static void say_again(struct tenant *t, const struct policy_lease *lease, uint64_t request) {
    struct share_message m = {.kind = SHARE_REPORT, .report = t->latest};
    struct share_message done = {.kind = SHARE_ACKNOWLEDGE, .acknowledge = {lease->serial, t->held}};
    bool other = lease->serial != t->serial || request != t->release;
    if (!other && clock_ns() < t->reported_ns + SAYS_NS)
        return;
    m.report.released = request + 1;
    m.report.file = request;
    m.report.away = lease->suspended ? lease->serial : 0;
    m.report.policy.wants = m.report.policy.in_flight = 0;
    if (tenant_say(t, &m) && (!other || tenant_say(t, &done))) {
        t->serial = lease->serial;
        t->release = request;
        t->reported_ns = clock_ns();
    }
}

bool tenant_is_released(struct tenant *t) {
    struct share_file asked;
    struct policy_lease lease;
    if (!t->released)
        return false;
    bool reads = share_page_read_file(t->to.page, &asked);
    if (reads && !asked.context && asked.number != t->release) {
        t->release = asked.number;
        t->sequence = 0;
        tenant_backend()->let_go(t->device, false);
        __atomic_store_n(&t->released, false, __ATOMIC_RELEASE);
        return false;
    }
    uint32_t sequence = share_page_read(t->to.page, &lease);
    t->sequence = sequence ? sequence : t->sequence;
    if (reads && sequence && lease.serial)
        say_again(t, &lease, asked.number);
    return true;
}
