/* Pointer tables: ranges of device memory, each with the ledger addresses that were copied to it.
 *
 * Where in its range a pointer lies is known only of a copy that brought nothing else: when a part of a range is
 * overwritten, what is left of it keeps all its pointers. A table that is doubted may have been overwritten since: its
 * pointers are a guess. Look-ups may run beside one writer, under a seqlock (seqlock.h). A zeroed struct is an empty
 * one. */
#ifndef ULMS_TABLE_H
#define ULMS_TABLE_H

#include "ledger/addrmap.h"

struct tables {
    struct addrmap ranges; /* value: struct list * */
    struct pool cells;
    word doubts; /* how often all were doubted */
    word sure;   /* 0: none was set since then */
};

/* Whether any table lies in [start, end), even in part. */
bool tables_any(const struct tables *t, addr_t start, addr_t end);
/* Whether one that is not doubted does. */
bool tables_any_sure(const struct tables *t, addr_t start, addr_t end);
/* Whether tables that are not doubted cover all of it: it holds no address that tables_find does not give. */
bool tables_cover(const struct tables *t, addr_t start, addr_t end);
/* Copies at most n of the pointers of the tables in [start, end). Returns how many there are; some may come twice. */
size_t tables_find(const struct tables *t, addr_t start, addr_t end, addr_t *pointers, size_t n);
/* What the n words from start on hold, if all came with one copy of pointers only; what they held, if not *sure. */
bool tables_read(const struct tables *t, addr_t start, size_t n, addr_t *pointers, bool *sure);

/* The caller holds the writer's lock. Without memory for it a table is left out. */
void tables_set(struct tables *t, addr_t start, addr_t end, const addr_t *pointers, size_t n);
void tables_forget(struct tables *t, addr_t start, addr_t end);
/* Doubts the tables that lie there, also what of them lies elsewhere. */
void tables_doubt(struct tables *t, addr_t start, addr_t end);
void tables_doubt_all(struct tables *t);
/* Empties it and gives all memory back. No look-up may be under way. */
void tables_clear(struct tables *t);
/* Aborts with a line unless all is in order. */
void tables_check(const struct tables *t);

#endif
