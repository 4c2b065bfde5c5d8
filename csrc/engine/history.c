/* What was issued: two rings, of operations and of the pages that they touch, grown as they are needed. */
#include <stdlib.h>

#include "engine/engine.h"

enum { OPS_FIRST = 1 << 10, OPS_MOST = 1 << 18, RECORDS_FIRST = 1 << 12, RECORDS_MOST = 1 << 22, SEARCH_MOST = 16 };
enum {
    GAP_MOST = 64,  /* operations from one touch of a dead page to the next, for which it stays */
    CARRIED_FEW = 8 /* of 64 live pages that leave: so many with their bytes are few */
};

static uint64_t *bucket_of(const struct history *h, uint64_t mark) {
    return &h->buckets[mark & (h->ops_capacity - 1)];
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 29;
}

static void link_bucket(struct history *h, uint64_t position) {
    struct past *op = history_at(h, position);
    uint64_t *bucket = bucket_of(h, op->mark);
    op->previous = *bucket;
    *bucket = position;
}

/* Empty ones over a ring of that capacity. False: no memory, nothing changed. */
static bool renew_trees(struct ulms_engine *e, size_t capacity) {
    struct fill_demand places = {0}, bytes = {0}, resting = {0};
    struct peaks peaks = {0};
    bool good = fill_demand_open(&places, capacity) && fill_demand_open(&bytes, capacity) &&
                fill_demand_open(&resting, capacity) && peaks_open(&peaks, capacity);
    if (good) {
        free(e->places.sums);
        free(e->bytes.sums);
        free(e->resting.sums);
        free(e->peaks.most);
        e->places = places;
        e->bytes = bytes;
        e->resting = resting;
        e->peaks = peaks;
    } else {
        free(places.sums);
        free(bytes.sums);
        free(resting.sums);
        free(peaks.most);
    }
    return good;
}

/* Doubles the ring of operations; the positions keep their numbers. */
static bool grow_ops(struct ulms_engine *e) {
    struct history *h = &e->history, larger = *h;
    larger.ops_capacity = h->ops_capacity ? 2 * h->ops_capacity : OPS_FIRST;
    larger.ops = malloc(larger.ops_capacity * sizeof(*larger.ops));
    larger.buckets = calloc(larger.ops_capacity, sizeof(*larger.buckets));
    if (!larger.ops || !larger.buckets || !renew_trees(e, larger.ops_capacity)) {
        free(larger.ops);
        free(larger.buckets);
        return false;
    }
    for (uint64_t i = h->first; i < h->end; i++) {
        *history_at(&larger, i) = *history_at(h, i);
        link_bucket(&larger, i);
        *peaks_at(&e->peaks, i) = past_most(history_at(&larger, i));
    }
    peaks_sum(&e->peaks);
    free(h->ops);
    free(h->buckets);
    *h = larger;
    for (uint64_t i = e->track.position + 1; e->track.on && i < h->end; i++)
        for (uint32_t j = 0; j < history_at(h, i)->count; j++) {
            struct page *p = history_record(h, history_at(h, i)->records + j)->page;
            if (p->demand > DEMAND_SURE && p->epoch == e->track.epoch && p->next == i)
                fill_demand_enter(e, p);
        }
    return true;
}

static bool grow_records(struct history *h) {
    struct history larger = *h;
    larger.records_capacity = h->records_capacity ? 2 * h->records_capacity : RECORDS_FIRST;
    larger.records = malloc(larger.records_capacity * sizeof(*larger.records));
    if (!larger.records)
        return false;
    uint64_t from = h->first < h->end ? history_at(h, h->first)->records : h->records_end;
    for (uint64_t i = from; i < h->records_end; i++)
        *history_record(&larger, i) = *history_record(h, i);
    free(h->records);
    *h = larger;
    return true;
}

static uint64_t oldest_record(const struct history *h) {
    return h->first < h->end ? history_at(h, h->first)->records : h->records_end;
}

static bool make_room(struct ulms_engine *e, const struct operation *op) {
    struct history *h = &e->history;
    while (h->end - h->first >= h->ops_capacity) {
        if (h->ops_capacity < OPS_MOST && grow_ops(e))
            break;
        if (h->ops_capacity == 0)
            return false;
        h->first++;
    }
    while (h->records_end - oldest_record(h) + op->count > h->records_capacity) {
        if (h->records_capacity < RECORDS_MOST && grow_records(h))
            continue;
        if (h->first == h->end)
            return false;
        h->first++;
    }
    return true;
}

/* Operations since it was touched; BACK_MOST + 1: a rare page. */
static uint32_t age_of(const struct page *p, uint64_t position) {
    return p->seen ? (uint32_t)smaller(position - p->seen, BACK_MOST + 1) : BACK_MOST + 1;
}

struct run {
    uint64_t first; /* page */
    uint32_t pages, rare, age;
};

/* The run of adjacent pages that grows, and the one that tells most: most rare pages, then the oldest one, then most
 * pages; the first of these. */
struct runs {
    struct run last, best;
};

static bool tells_more(const struct run *a, const struct run *b) {
    if (a->rare != b->rare)
        return a->rare > b->rare;
    return a->age != b->age ? a->age > b->age : a->pages > b->pages;
}

static void runs_add(struct runs *r, const struct page *p, uint64_t position) {
    if (p->number != r->last.first + r->last.pages)
        r->last = (struct run){.first = p->number};
    r->last.pages++;
    uint32_t age = age_of(p, position);
    r->last.rare += age > BACK_MOST;
    r->last.age = (uint32_t)larger(r->last.age, age);
    if (tells_more(&r->last, &r->best))
        r->best = r->last;
}

/* Dead pages that the newest operation touches, by how many operations before they were touched last. */
struct gaps {
    uint32_t pages[GAP_MOST + 1];
    uint64_t most;
};

/* Where frames differ what comes again costs calls that map; what leaves in its place may cost bytes both ways. */
static bool gaps_count(const struct ulms_engine *e) {
    return e->holder && __builtin_popcountll(e->carried) <= CARRIED_FEW;
}

static void gaps_add(struct gaps *g, const struct history *h, const struct page *p, uint64_t position) {
    uint64_t back = position - p->seen;
    if (p->live || p->seen < h->first || back > GAP_MOST)
        return;
    g->pages[back]++;
    g->most = back > g->most ? back : g->most;
}

static void gaps_enter(struct ulms_engine *e, const struct operation *op, uint64_t position) {
    struct gaps g = {0};
    uint32_t pages = 0;
    for (size_t i = 0; i < op->count; i++)
        gaps_add(&g, &e->history, op->entries[i].page, position);
    for (uint64_t back = g.most; back > 1; back--) {
        struct past *past = history_at(&e->history, position + 1 - back);
        past->between += pages += g.pages[back];
        peaks_set(&e->peaks, position + 1 - back, past_most(past));
    }
}

bool history_append(struct ulms_engine *e, const struct operation *op) {
    struct history *h = &e->history;
    uint64_t position = op->id.id;
    if (!make_room(e, op)) {
        h->first = h->end = position + 1;
        return false;
    }
    if (h->first == h->end)
        h->first = position;
    h->end = position + 1;
    struct past *now = history_at(h, position);
    *now = (struct past){.key = op->key, .records = h->records_end, .count = (uint32_t)op->count};
    now->live = (uint32_t)(e->counted[COUNT_HERE] + e->counted[COUNT_AWAY]);
    uint64_t oldest = oldest_record(h);
    struct runs runs = {0};
    if (gaps_count(e))
        gaps_enter(e, op, position);
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        uint8_t does = op->entries[i].does;
        uint64_t seen = p->seen;
        runs_add(&runs, p, position);
        if (p->record > oldest)
            history_record(h, p->record - 1)->ahead = (uint32_t)(position - p->seen);
        *history_record(h, h->records_end) = (struct record){.page = p, .does = does};
        p->record = ++h->records_end;
        p->sparse = !(does & DOES_MUCH);
        p->seen = position;
        now->live += !p->live;
        if (!p->live && p->died > 0 && p->died >= seen)
            p->born = position;
    }
    now->weight = runs.best.rare > 0 ? BACK_MOST * runs.best.rare : 1;
    now->mark = mix(mix(1, op->key), runs.best.first);
    link_bucket(h, position);
    peaks_set(&e->peaks, position, now->live);
    return true;
}

uint64_t history_likeness(const struct history *h, uint64_t a, uint64_t b) {
    uint64_t weight = 0;
    for (unsigned n = 0; n < BACK_MOST && a - n >= h->first; n++) {
        const struct past *x = history_at(h, a - n), *y = history_at(h, b - n);
        if (x->key != y->key)
            break;
        weight += x->mark == y->mark ? y->weight : 0;
    }
    return weight;
}

uint64_t history_search(const struct history *h, uint64_t m, uint64_t more) {
    uint64_t mark = history_at(h, m)->mark, position[SEARCH_MOST], likeness[SEARCH_MOST], most = 0;
    unsigned n = 0;
    for (uint64_t i = history_at(h, m)->previous; i >= h->first && i > 0 && n < SEARCH_MOST;
         i = history_at(h, i)->previous) {
        if (history_at(h, i)->mark != mark)
            continue;
        position[n] = i;
        likeness[n] = history_likeness(h, i, m);
        most = likeness[n] > most ? likeness[n] : most;
        n++;
    }
    for (unsigned i = 0; i < n; i++)
        if (likeness[i] > more && likeness[i] >= most - most / MARGIN)
            return position[i];
    return 0;
}

void history_free(struct history *h) {
    free(h->ops);
    free(h->buckets);
    free(h->records);
}
