#include "tenant/state.h"

#include <stdio.h>

#include "base/larger.h"
#include "observe/stats.h"

enum { ALONE_REPORT_NS = 900000000, REPORT_NS = 50000000, BOUND_REPORT_NS = 10000000, ACKNOWLEDGE_NS = 5000000 };
enum { QUIET_NS = 300000 }; /* so long after the last operation it no longer wants a turn */
enum { NEED_PART = 16 };    /* a need that changed by less is no news */

bool tenant_say(struct tenant *t, struct share_message *m) {
    bool sent;
    return connection_send(&t->to, m, &sent) && sent;
}

/* Whether there are more operations tells whether it issues: to ask the driver takes longer. */
static bool issues(struct tenant *t) {
    uint64_t operations = stats_sum(COUNT_operations), now = clock_ns();
    if (operations != t->operations)
        t->issued_ns = now;
    t->operations = operations;
    return now < t->issued_ns + QUIET_NS;
}

/* All that can leave has left. */
static uint64_t away(const struct tenant *t) {
    return t->lease.suspended && !t->drains && !t->unacknowledged ? t->lease.serial : 0;
}

/* By the request of that number; 0: no more goes there. */
static void file(struct tenant *t, uint64_t number, const char *folder) {
    if (t->file == number)
        return;
    t->file = number;
    tenant_backend()->file(t->device, number ? folder : NULL);
}

void tenant_file(struct tenant *t) {
    struct share_file asked;
    bool reads = away(t) && t->to.page && share_page_read_file(t->to.page, &asked);
    bool files = reads && (*asked.folder || asked.context);
    file(t, files ? asked.number : 0, asked.folder);
}

void tenant_unfile(struct tenant *t) {
    file(t, 0, NULL);
}

/* While it is parked nothing is issued: what is not idle then are moves of ours. */
static bool wants(const struct tenant *t, const struct backend_load *load, bool issues, bool idle) {
    return load->wants || (t->lease.suspended != POLICY_PARKED && (issues || !idle));
}

/* Of the host: the rest of what moves lies in a file. */
static uint64_t host_bytes(void) {
    return smaller(ledger_managed(session.ledger), session.managed_limit);
}

static void report(struct tenant *t, const struct backend_load *load, bool issues, bool idle) {
    uint64_t used = ledger_used(session.ledger, t->device), host = host_bytes();
    struct share_message m = {.kind = SHARE_REPORT,
                              .report = {.used = used,
                                         .host = host,
                                         .evicted = load->evicted,
                                         .stays = t->released ? 0 : load->stays + load->lingers,
                                         .filed = load->filed,
                                         .file = load->files ? 0 : t->file,
                                         .released = t->released ? t->release + 1 : 0,
                                         .away = away(t),
                                         .policy = {.need = load->need,
                                                    .resident = load->held,
                                                    .operations = t->operations,
                                                    .refilled = load->refilled,
                                                    .stalled_ns = stats_sum(COUNT_held_ns),
                                                    .wants = wants(t, load, issues, idle),
                                                    .in_flight = !idle,
                                                    .ready = 1,
                                                    .um = session.backend == &backend_um}}};
    const char *unfiled = load->unfiled ? load->unfiled : t->kept;
    if (unfiled)
        snprintf(m.report.unfiled, sizeof m.report.unfiled, "%s", unfiled);
    if (!tenant_say(t, &m))
        return;
    t->latest = m.report;
    t->reported_ns = clock_ns();
    t->need = load->need;
    t->used = used;
    t->host = host;
    t->filed = m.report.file;
    __atomic_store_n(&t->away, m.report.away, __ATOMIC_RELAXED);
    t->wanted = m.report.policy.wants;
}

static bool need_changed(const struct tenant *t, const struct backend_load *load) {
    uint64_t apart = load->need > t->need ? load->need - t->need : t->need - load->need;
    bool other =
        t->host != host_bytes() || (t->to.page->quota.memory && t->used != ledger_used(session.ledger, t->device));
    return apart > t->need / NEED_PART || (other && clock_ns() >= t->reported_ns + ACKNOWLEDGE_NS);
}

void tenant_report(struct tenant *t) {
    struct backend_load load = tenant_backend()->load(t->device);
    uint64_t every = tenant_is_alone(t) ? ALONE_REPORT_NS : tenant_is_bound(t) ? BOUND_REPORT_NS : REPORT_NS;
    bool more = issues(t), begins = (load.wants || more) && !t->wanted;
    bool due = begins || need_changed(t, &load) || t->away != away(t) || t->filed != (load.files ? 0 : t->file) ||
               clock_ns() >= t->reported_ns + every;
    bool quiet = t->wanted && !more && !load.wants;
    if (due || quiet) {
        bool idle = tenant_backend()->idle(t->device);
        if (due || idle)
            report(t, &load, more, idle);
    }
}

/* What it holds is what the driver has not got back. */
void tenant_acknowledge(struct tenant *t) {
    struct backend_load load = tenant_backend()->load(t->device);
    uint64_t held = load.held;
    struct share_message m = {.kind = SHARE_ACKNOWLEDGE, .acknowledge = {t->lease.serial, held}};
    bool fits = held <= t->lease.budget || (t->lease.suspended && held <= load.stays);
    if (!fits && (clock_ns() < t->acknowledged_ns + ACKNOWLEDGE_NS || held == t->held))
        return;
    if (tenant_say(t, &m)) {
        t->acknowledged_ns = clock_ns();
        t->held = held;
        t->unacknowledged = !fits;
        TENANT_TELL("device %d: holds %llu MiB after %llu us", t->device, (unsigned long long)(held >> 20),
                    tenant_since(t));
    }
}

void tenant_drained(struct tenant *t) {
    struct share_message m = {.kind = SHARE_DRAINED, .drained = {t->lease.serial}};
    if (!tenant_backend()->idle(t->device))
        return;
    struct backend_load load = tenant_backend()->load(t->device);
    report(t, &load, issues(t), true);
    t->drains = !tenant_say(t, &m);
    TENANT_TELL("device %d: drained after %llu us", t->device, tenant_since(t));
}

void tenant_ask(struct tenant *t) {
    uint32_t asked = tenants_asked();
    struct share_message m = {.kind = SHARE_SUSPEND, .suspend = {.suspended = asked % 2, .number = asked}};
    if (asked != t->asked && tenant_say(t, &m))
        t->asked = asked;
}
