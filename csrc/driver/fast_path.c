#include "driver/fast_path.h"

#include "base/lock.h"
#include "driver/session.h"
#include "ulms.h"

void fast_path_leave(enum slow_path why) {
    __atomic_fetch_and(&home.fast_path, ~(uint32_t)why, __ATOMIC_SEQ_CST);
}

void fast_path_restore(enum slow_path why) {
    __atomic_fetch_or(&home.fast_path, (uint32_t)why, __ATOMIC_SEQ_CST);
}

bool fast_path_passing(void) {
    bool any = false;
    for (int slot = 0; slot < ULMS_SLOTS && !any; slot++)
        any = __atomic_load_n(&home.place[slot].passing, __ATOMIC_SEQ_CST);
    return any;
}

bool fast_path_drained(void) {
    return !fast_path_open() && !fast_path_passing();
}

/* No operation passes until the tables have been doubted. A table that arrives later closes the fast path after it was
 * opened. */
static struct lock doubting;

void fast_path_doubt_tables(void) {
    lock_take(&doubting);
    ledger_tables_doubt(session.ledger);
    fast_path_restore(SLOW_TABLES);
    lock_drop(&doubting);
}

void fast_path_leave_for_table(void) {
    lock_take(&doubting);
    fast_path_leave(SLOW_TABLES);
    lock_drop(&doubting);
}
