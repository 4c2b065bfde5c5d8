#include "interpose/rest.h"

#include "interpose/session.h"
#include "ulms.h"

HOT_DATA uint32_t rest_broken = UNREST_SESSION | UNREST_FRAMEWORK;

struct rest_place rest_places[ULMS_SLOTS];

void rest_break(enum unrest why) {
    __atomic_fetch_or(&rest_broken, (uint32_t)why, __ATOMIC_SEQ_CST);
}

void rest_mend(enum unrest why) {
    __atomic_fetch_and(&rest_broken, ~(uint32_t)why, __ATOMIC_SEQ_CST);
}

bool rest_over(void) {
    bool any = rest_now();
    for (int slot = 0; slot < ULMS_SLOTS && !any; slot++)
        any = __atomic_load_n(&rest_places[slot].passing, __ATOMIC_SEQ_CST);
    return !any;
}

/* In this order: a table that comes in between is doubted, too, or breaks the rest anew. */
void rest_doubt_tables(void) {
    rest_mend(UNREST_TABLES);
    ledger_tables_doubt(session.ledger);
}
