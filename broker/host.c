#include "broker/host.h"

#include <sys/sysinfo.h>

static uint64_t amount(void) {
    static uint64_t bytes;
    struct sysinfo info;
    if (!bytes && sysinfo(&info) == 0)
        bytes = (uint64_t)info.totalram * info.mem_unit / 4 * 3;
    return bytes;
}

/* A process on several GPUs says the same on each. The first of its tenants speaks for it. Processes of another
 * namespace have no number (0): which of their tenants belong together is not known, and each speaks for itself. */
static const struct tenant *speaker(const struct tenant *t) {
    const struct tenant *first = t->pid > 0 ? tenants_first() : t;
    while (first->pid != t->pid)
        first = first->next;
    return first;
}

/* Lies do not overflow the sum. */
static uint64_t claim(const struct tenant *t) {
    return t->report.host < amount() ? t->report.host : amount();
}

uint64_t host_held(void) {
    uint64_t held = 0;
    for (const struct tenant *t = tenants_first(); t; t = t->next)
        held += speaker(t) == t ? claim(t) : 0;
    return held;
}

uint64_t host_left_to(const struct tenant *t, uint64_t held) {
    uint64_t others = held - claim(speaker(t));
    return amount() - (others < amount() ? others : amount());
}
