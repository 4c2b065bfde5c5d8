#include "broker/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "broker/gpu.h"
#include "broker/group.h"
#include "broker/reload.h"
#include "broker/suspend.h"

static struct {
    char *at, *end;
    bool whole, first;
} out;

static __attribute__((format(printf, 1, 2))) void put(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out.at, (size_t)(out.end - out.at), format, args);
    va_end(args);
    out.whole = out.whole && n >= 0 && n < out.end - out.at;
    out.at += out.whole ? n : 0;
}

static void comma(void) {
    put(out.first ? "" : ",");
    out.first = false;
}

static void number(const char *name, uint64_t value) {
    comma();
    put("\"%s\":%" PRIu64, name, value);
}

static void text(const char *name, const char *value) {
    comma();
    put("\"%s\":\"", name);
    for (; *value; value++)
        put((unsigned char)*value < ' ' ? "\\u%04x" : strchr("\"\\", *value) ? "\\%c" : "%c", *value);
    put("\"");
}

static void begin(const char *name, char bracket) {
    comma();
    if (name)
        put("\"%s\":", name);
    put("%c", bracket);
    out.first = true;
}

static void end(char bracket) {
    put("%c", bracket);
    out.first = false;
}

/* UINT64_MAX says that there is none: left out. */
static void number_if_any(const char *name, uint64_t value) {
    if (value != UINT64_MAX)
        number(name, value);
}

static void put_group(const struct group *g) {
    text("group", g->name);
    number("memory_limit", g->settings.memory);
    number("request", g->settings.request);
    number("limit", g->settings.limit);
    number("hard", g->settings.hard);
    number("pin", g->settings.pin);
    number("idle_s", g->settings.idle_s);
    comma();
    put("\"priority\":%" PRId32, g->settings.priority);
}

static void put_tenant(const struct tenant *t, uint64_t now) {
    const struct policy_report *told = &t->report.policy;
    struct policy_tenant sums = {0};
    policy_tenant(t->gpu->policy, t->id, &sums);
    begin(NULL, '{');
    number("tenant", t->id);
    number("pid", (uint64_t)t->pid);
    put_group(group_of(t->group));
    number("budget", t->lease.budget);
    number("reserved", sums.reserved);
    number("may_issue", t->lease.may_issue);
    number("suspended", t->lease.suspended > 0);
    number("parked", t->lease.suspended == POLICY_PARKED);
    number("stays", t->report.stays);
    number("filed", t->report.filed);
    text("unfiled", t->report.unfiled);
    bool files = *t->page->file.folder || t->page->file.context;
    number("files", files && t->report.file != t->page->file.number);
    number("released", suspend_released(t));
    number_if_any("away_ns", t->lease.suspended ? t->away_ns : UINT64_MAX);
    number("fill_bytes", t->lease.fill_bytes);
    number_if_any("in_flight_ns", t->lease.in_flight_ns);
    number_if_any("turn_ends_ns", t->lease.turn_ends_ns);
    number("need", told->need);
    number("resident", told->resident);
    number("clean", told->clean);
    number("operations", told->operations);
    number("refilled", told->refilled);
    number("evicted", t->report.evicted);
    number("used", t->report.used);
    number("host", t->report.host);
    number("stalled_ns", told->stalled_ns);
    number("wants", told->wants);
    number("in_flight", told->in_flight);
    number("hold_ns", sums.hold_ns);
    number("charged_ns", sums.charged_ns);
    number("had", history_part(&t->charged, now, sums.charged_ns));
    number("waited_ns", sums.waited_ns);
    number("turns", sums.turns);
    number("switches", t->switches);
    number("late", sums.late);
    end('}');
}

static void put_gpu(const struct gpu *g, uint64_t now) {
    struct policy_state s;
    policy_state(g->policy, &s);
    begin(NULL, '{');
    comma();
    put("\"uuid\":\"");
    for (int i = 0; i < SHARE_GPU_BYTES; i++)
        put("%02x", g->uuid[i]);
    put("\"");
    number("capacity", gpu_capacity(g));
    number("crowded", s.crowded);
    number("taking_turns", s.taking | s.exclusive);
    number("holder", s.holder);
    number("turns", s.turns);
    number("thrashed", s.thrashed);
    begin("tenants", '[');
    for (const struct tenant *t = tenants_first(); t; t = t->next)
        if (t->gpu == g)
            put_tenant(t, now);
    end(']');
    end('}');
}

size_t status_write(char *at, size_t room, uint64_t now) {
    out.at = at;
    out.end = at + room;
    out.whole = out.first = true;
    begin(NULL, '{');
    number("version", SHARE_VERSION);
    if (reload_path()) {
        text("config", reload_path());
        text("config_wrong", reload_wrong());
    }
    begin("gpus", '[');
    for (int i = 0; i < GPUS_MAX; i++)
        if (gpu_at(i)->policy)
            put_gpu(gpu_at(i), now);
    end(']');
    end('}');
    return out.whole ? (size_t)(out.at - at) : 0;
}
