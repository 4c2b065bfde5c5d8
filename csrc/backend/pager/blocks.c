/* Blocks of the framework's allocator. While all memory fits nobody asks for them, and the ledger has them: the engine
 * hears of those that live when the first pages begin to move, and then of each that comes and goes. */
#include <string.h>

#include "backend/pager/pager.h"
#include "driver/session.h"

/* While the engine catches up nobody tells the ledger of a block: it could be counted twice. */
enum { SILENT, CATCHING_UP, HEARING };
static int state;

static bool is(int what) {
    return __atomic_load_n(&state, __ATOMIC_SEQ_CST) == what;
}

bool pager_hears(void) {
    return !is(SILENT);
}

/* Some of it is on pages that the engine knows: one may begin in memory that stays plain. Under the lock. */
static bool knows(const struct pager *d, addr_t start, uint64_t bytes) {
    struct pager_piece any;
    return pager_ranges_split(&d->memory.ranges, start, start + bytes, &any, 1) > 0;
}

/* A page keeps its date of death only if every block on it is gone: the engine knows. What is born undoes it. */
void pager_block_change(struct pager *d, addr_t start, uint64_t bytes, bool live) {
    uint64_t died = live ? 0 : d->window.next ? d->window.next : 1;
    pager_pages_died(&d->memory.ranges, start, start + bytes, died);
    if (live)
        pager_moves_reborn(d, start, bytes);
    ulms_engine_block(d->engine.core, start, bytes, live);
}

void pager_block_hear(struct pager *d, const struct pager_block *b) {
    if (!knows(d, b->start, b->bytes))
        return;
    pager_block_change(d, b->start, b->bytes, b->live);
    if (b->live && d->kind->divided)
        d->kind->divided(d, b->start, b->bytes);
}

/* Those that live, of a device that has heard of none. Under the lock. */
static void hear_all(struct pager *d) {
    struct touch list[LEDGER_LISTED];
    addr_t from = 0;
    for (size_t n; (n = ledger_list_blocks(session.ledger, from, list, LEDGER_LISTED)) > 0;
         from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++)
            pager_block_hear(d, &(struct pager_block){list[i].start, list[i].bytes, true});
}

void pager_hear(struct pager *d) {
    if (pager_hears())
        return;
    __atomic_store_n(&state, CATCHING_UP, __ATOMIC_SEQ_CST);
    ledger_blocks_at_once(session.ledger);
    struct patience need = {.what = PATIENCE_NEED};
    while (!pager_block_bypasses_over() && patience_rest(&need))
        ;
    hear_all(d);
    __atomic_store_n(&state, HEARING, __ATOMIC_SEQ_CST);
}

void pager_hear_before(struct pager *d) {
    if (!d || pager_hears())
        return;
    pager_lock(d);
    pager_hear(d);
    pager_unlock(d);
}

void pager_blocks_hear(struct pager *d) {
    struct pager_block *block = d->blocks.heard;
    if (__atomic_load_n(&d->blocks.count, __ATOMIC_SEQ_CST) == 0)
        return;
    lock_take(&d->blocks.lock);
    uint32_t n = d->blocks.count;
    memcpy(block, d->blocks.block, n * sizeof *block);
    __atomic_store_n(&d->blocks.count, 0, __ATOMIC_SEQ_CST);
    lock_drop(&d->blocks.lock);
    for (uint32_t i = 0; i < n; i++)
        pager_block_hear(d, &block[i]);
}

bool pager_block_put(struct pager *d, const struct pager_block *b) {
    struct pager_blocks *told = &d->blocks;
    lock_take(&told->lock);
    bool room = told->count < PAGER_TOLD_MAX;
    if (room) {
        told->block[told->count] = *b;
        __atomic_store_n(&told->count, told->count + 1, __ATOMIC_SEQ_CST);
    }
    lock_drop(&told->lock);
    return room;
}

void pager_hear_wait(void) {
    struct patience need = {.what = PATIENCE_NEED};
    while (is(CATCHING_UP) && patience_rest(&need))
        ;
}
