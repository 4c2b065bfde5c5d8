/* How much of a sum came about in the last ten seconds. */
#ifndef BROKER_HISTORY_H
#define BROKER_HISTORY_H

#include <stdint.h>

enum { HISTORY_STEPS = 20 }; /* of half a second */

struct history {
    struct {
        uint64_t at, sum;
    } past[HISTORY_STEPS + 1];
    uint64_t noted;
};

/* The sum is that at the time, ns; neither goes back. */
void history_note(struct history *h, uint64_t now, uint64_t sum);
/* What was added to the sum since the time of ten seconds ago, or the first note, in thousandths of the ns since then.
 */
uint32_t history_part(const struct history *h, uint64_t now, uint64_t sum);

#endif
