#include "broker/host.h"

#include <sys/sysinfo.h>

static uint64_t amount(void) {
    static uint64_t bytes;
    struct sysinfo info;
    if (!bytes && sysinfo(&info) == 0)
        bytes = (uint64_t)info.totalram * info.mem_unit / 4 * 3;
    return bytes;
}

/* A process on several GPUs says the same on each. */
static bool was_counted(const struct tenant *t) {
    const struct tenant *first = tenants_first();
    while (first->pid != t->pid)
        first = first->next;
    return first != t;
}

uint64_t host_left_to(const struct tenant *t) {
    uint64_t left = amount();
    for (const struct tenant *other = tenants_first(); other; other = other->next)
        if (other->pid != t->pid && !was_counted(other))
            left -= other->report.host < left ? other->report.host : left;
    return left;
}
