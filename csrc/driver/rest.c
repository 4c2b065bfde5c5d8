#include "driver/rest.h"

#include <pthread.h>

#include "driver/session.h"
#include "ulms.h"

void rest_break(enum unrest why) {
    __atomic_fetch_and(&home.rest, ~(uint32_t)why, __ATOMIC_SEQ_CST);
}

void rest_mend(enum unrest why) {
    __atomic_fetch_or(&home.rest, (uint32_t)why, __ATOMIC_SEQ_CST);
}

bool rest_over(void) {
    bool any = rest_now();
    for (int slot = 0; slot < ULMS_SLOTS && !any; slot++)
        any = __atomic_load_n(&home.place[slot].passing, __ATOMIC_SEQ_CST);
    return !any;
}

/* Nobody passes before they are doubted; a table that comes after that breaks the rest after it was mended. */
static pthread_mutex_t doubting = PTHREAD_MUTEX_INITIALIZER;

void rest_doubt_tables(void) {
    pthread_mutex_lock(&doubting);
    ledger_tables_doubt(session.ledger);
    rest_mend(UNREST_TABLES);
    pthread_mutex_unlock(&doubting);
}

void rest_break_for_table(void) {
    pthread_mutex_lock(&doubting);
    rest_break(UNREST_TABLES);
    pthread_mutex_unlock(&doubting);
}
