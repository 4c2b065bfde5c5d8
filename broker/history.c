#include "broker/history.h"

enum { STEP_NS = 500000000, PLACES = HISTORY_STEPS + 1 };

void history_note(struct history *h, uint64_t now, uint64_t sum) {
    if (h->noted && now < h->past[(h->noted - 1) % PLACES].at + STEP_NS)
        return;
    h->past[h->noted % PLACES].at = now;
    h->past[h->noted++ % PLACES].sum = sum;
}

/* Where nothing was noted for long the span is longer, too. */
uint32_t history_part(const struct history *h, uint64_t now, uint64_t sum) {
    uint64_t kept = h->noted < PLACES ? h->noted : PLACES, i = h->noted - kept;
    while (i + 1 < h->noted && h->past[(i + 1) % PLACES].at + (uint64_t)HISTORY_STEPS * STEP_NS <= now)
        i++;
    if (!kept || now <= h->past[i % PLACES].at)
        return 0;
    return (uint32_t)((sum - h->past[i % PLACES].sum) * 1000 / (now - h->past[i % PLACES].at));
}
