/* A device beside the engine, of a random program: knows where every page is and what it holds, from the engine's moves
 * and answers alone, and checks that no byte that matters is lost and nothing moves under an operation. */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "test.h"

#include "engine/engine.h"

enum { PAGE = 4096, PAGES = 48, OPS = 48, MOVES = 64, SCRIPT = 24, TOUCHES = 3, CALM = 1000 };

#define BASE (0x7f0000000000ull)

struct place {
    bool there;
    int state;       /* enum page_state */
    uint64_t move;   /* under way */
    uint64_t device; /* version of the content; 0: garbage */
    uint64_t host;
    uint64_t meant; /* the version that a reader must see; 0: any */
    uint32_t life;  /* counts frees */
    uint32_t blocks;
    bool in_place; /* kernels use the host's copy while it is absent */
};

struct call {
    uint64_t key;
    size_t n;
    struct ulms_engine_touch touches[TOUCHES];
};

struct job {
    uint64_t serial;
    struct call call;
    uint32_t life[PAGES];
    bool running;
};

struct world {
    struct ulms_engine *e;
    struct ulms_engine_settings settings;
    uint64_t random;
    uint64_t answers; /* a hash of everything the engine said */
    struct place page[PAGES];
    struct job job[OPS];
    size_t jobs, most_jobs;
    struct ulms_move move[MOVES];
    size_t moves;
    uint64_t version, budget;
    struct call script[SCRIPT];
    size_t at;
    uint64_t calm, clock, used_in_place, stride;
    bool held, failing, faulting;
};

static uint64_t roll(struct world *w, uint64_t n) {
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

static void say(struct world *w, uint64_t value) {
    w->answers = (w->answers ^ value) * 0x100000001b3u;
}

static size_t index_of(uint64_t address) {
    CHECK(address >= BASE && address < BASE + PAGES * PAGE);
    return (address - BASE) / PAGE;
}

/* --- what a call does to a page --- */

static bool overlaps(const struct ulms_engine_touch *t, size_t page) {
    uint64_t start = BASE + page * PAGE;
    return t->bytes > 0 && t->start < start + PAGE && start < t->start + t->bytes;
}

static unsigned does(const struct call *c, size_t page) {
    unsigned mode = 0;
    bool fades = false;
    uint64_t start = BASE + page * PAGE;
    for (size_t i = 0; i < c->n; i++) {
        const struct ulms_engine_touch *t = &c->touches[i];
        if (!overlaps(t, page))
            continue;
        mode |= t->mode;
        bool whole = t->start <= start && t->start + t->bytes >= start + PAGE;
        fades = fades || (whole && t->mode == ULMS_TOUCH_SCRATCH);
    }
    return mode | (fades && mode == ULMS_TOUCH_SCRATCH ? DOES_FADE : 0);
}

static bool touches_now(const struct world *w, const struct job *j, size_t page) {
    return w->page[page].there && w->page[page].life == j->life[page] && (does(&j->call, page) & DOES_MODES);
}

static struct call random_call(struct world *w) {
    bool sweeps = w->calm == CALM; /* most pages are read once a period */
    struct call c = {.key = 1 + roll(w, 6), .n = sweeps ? 1 : 1 + roll(w, TOUCHES)};
    for (size_t i = 0; i < c.n; i++) {
        uint64_t first = roll(w, PAGES), pages = 1 + roll(w, sweeps ? 2 : 5), cut = roll(w, 3) ? 0 : roll(w, PAGE / 2);
        if (first + pages > PAGES)
            pages = PAGES - first;
        c.touches[i] =
            (struct ulms_engine_touch){BASE + first * PAGE + cut, pages * PAGE - cut, 1 + roll(w, sweeps ? 2 : 4)};
    }
    return c;
}

/* --- moves --- */

static void take(struct world *w, int lane) {
    struct ulms_move m;
    if (w->moves == MOVES || !ulms_engine_next(w->e, lane, &m))
        return;
    say(w, m.id + m.start + m.bytes + m.kind + m.flags + m.after);
    uint64_t run = w->settings.run_bytes > PAGE ? w->settings.run_bytes : PAGE, shed = w->settings.shed_bytes;
    uint64_t most = m.kind == ULMS_EVICT && shed > run ? shed : run;
    CHECK(m.bytes > 0 && m.bytes % PAGE == 0 && m.bytes <= most);
    CHECK(!w->held || (m.after == 0 && (m.kind == ULMS_FILL) == (lane == ULMS_LANE_IN)));
    for (size_t i = index_of(m.start); i <= index_of(m.start + m.bytes - 1); i++) {
        struct place *p = &w->page[i];
        CHECK(p->there);
        CHECK_EQ(p->state, m.kind == ULMS_FILL ? PAGE_ABSENT : PAGE_RESIDENT);
        for (size_t j = 0; j < w->jobs; j++)
            CHECK(!w->held || !w->job[j].running || !touches_now(w, &w->job[j], i));
        p->state = m.kind == ULMS_FILL ? PAGE_FILLING : PAGE_EVICTING;
        p->move = m.id;
    }
    w->move[w->moves++] = m;
}

/* Where moves fail, some pages can never be moved. */
static bool succeeds(struct world *w, size_t i) {
    if (!w->failing)
        return true;
    for (size_t k = index_of(w->move[i].start); k <= index_of(w->move[i].start + w->move[i].bytes - 1); k++)
        if (k % 9 == 0)
            return false;
    return roll(w, 3) > 0;
}

static void copy(struct place *p, const struct ulms_move *m) {
    bool lean = m->flags & (ULMS_MOVE_DEAD | ULMS_MOVE_CLEAN);
    if (m->kind == ULMS_FILL)
        p->device = lean ? 0 : p->host;
    else {
        p->in_place = m->flags & ULMS_MOVE_IN_PLACE;
        p->host = lean ? p->host : p->device;
        p->device = 0;
    }
}

static void finish(struct world *w, size_t i, bool ok) {
    struct ulms_move m = w->move[i];
    w->move[i] = w->move[--w->moves];
    for (size_t k = index_of(m.start); k <= index_of(m.start + m.bytes - 1); k++) {
        struct place *p = &w->page[k];
        if (!p->there || p->move != m.id)
            continue;
        p->move = 0;
        p->state = (m.kind == ULMS_FILL) == ok ? PAGE_RESIDENT : PAGE_ABSENT;
        if (ok)
            copy(p, &m);
    }
    ulms_engine_moved(w->e, m.id, ok);
}

static void finish_one(struct world *w, size_t i) {
    finish(w, i, succeeds(w, i));
}

/* --- operations --- */

static void starts(struct world *w, struct job *j, int answer) {
    for (size_t i = 0; i < PAGES; i++) {
        struct place *p = &w->page[i];
        if (!touches_now(w, j, i))
            continue;
        unsigned d = does(&j->call, i);
        bool in_place = p->state == PAGE_ABSENT && p->in_place;
        CHECK(p->state == PAGE_RESIDENT || in_place ||
              (p->state == PAGE_ABSENT && (answer == ULMS_RUN_SHORT || w->faulting)));
        w->used_in_place += in_place;
        if (p->state == PAGE_ABSENT && w->settings.faults && !in_place) {
            p->state = PAGE_RESIDENT;
            p->device = p->host;
        } else if (p->state == PAGE_ABSENT && !in_place) {
            p->meant = p->host = p->device = 0; /* it ran into nothing */
            continue;
        }
        if (p->meant)
            CHECK_EQ(in_place ? p->host : p->device, p->meant);
        if ((d & DOES_MODES) == DOES_READ)
            continue;
        *(in_place ? &p->host : &p->device) = ++w->version;
        p->meant = d & DOES_FADE ? 0 : w->version;
    }
    j->running = true;
}

static bool admit(struct world *w, struct job *j, bool at_once) {
    uint64_t wait = 1;
    int answer = ulms_engine_admit(w->e, j->serial, at_once, &wait);
    say(w, (uint64_t)answer + wait);
    CHECK(!w->held || wait == 0);
    if (answer == ULMS_HOLD)
        return false;
    starts(w, j, answer);
    return true;
}

static void issue(struct world *w, struct call c) {
    struct job *j = &w->job[w->jobs];
    *j = (struct job){.call = c};
    for (size_t i = 0; i < PAGES; i++)
        j->life[i] = w->page[i].there ? w->page[i].life : UINT32_MAX;
    bool any = false;
    for (size_t i = 0; i < PAGES; i++)
        any |= touches_now(w, j, i);
    j->serial = ulms_engine_issued(w->e, c.key, c.touches, c.n);
    say(w, j->serial);
    CHECK_EQ(any, j->serial != 0);
    if (j->serial == 0)
        return;
    w->jobs++;
    if (w->held)
        return;
    for (int lane = ULMS_LANE_OUT; lane >= ULMS_LANE_IN; lane--) /* an ordered engine decides now; the device obeys */
        for (size_t before = ~(size_t)0; before != w->moves;) {
            before = w->moves;
            take(w, lane);
            if (w->moves > 0)
                finish(w, w->moves - 1, true), before = ~(size_t)0;
            else
                break;
        }
    CHECK(admit(w, j, false));
}

static void retire(struct world *w, size_t i) {
    w->clock += roll(w, 100);
    ulms_engine_retired(w->e, w->job[i].serial, w->clock);
    memmove(&w->job[i], &w->job[i + 1], (--w->jobs - i) * sizeof(w->job[0]));
}

/* --- memory --- */

static void appear(struct world *w, size_t first, size_t pages) {
    for (size_t i = first; i < first + pages; i++)
        if (w->page[i].there)
            return;
    CHECK(ulms_engine_allocated(w->e, BASE + first * PAGE, pages * PAGE));
    for (size_t i = first; i < first + pages; i++) {
        uint32_t life = w->page[i].life;
        w->page[i] = (struct place){.there = true, .life = life};
    }
    if (roll(w, 3) > 0)
        return;
    ulms_engine_placed(w->e, BASE + first * PAGE, pages * PAGE);
    for (size_t i = first; i < first + pages; i++)
        w->page[i].state = PAGE_RESIDENT;
}

static void vanish(struct world *w, size_t first, size_t pages) {
    ulms_engine_freed(w->e, BASE + first * PAGE, pages * PAGE);
    for (size_t i = first; i < first + pages; i++)
        w->page[i] = (struct place){.life = w->page[i].life + 1};
}

static void block(struct world *w, size_t first, size_t pages, bool live) {
    ulms_engine_block(w->e, BASE + first * PAGE, pages * PAGE, live);
    for (size_t i = first; i < first + pages; i++)
        if (w->page[i].there && live)
            w->page[i].blocks++;
        else if (w->page[i].there && w->page[i].blocks > 0 && --w->page[i].blocks == 0)
            w->page[i].meant = 0;
}

static void check_frames(const struct world *w) {
    struct ulms_engine_stats s;
    ulms_engine_stats(w->e, &s);
    uint64_t resident = 0;
    for (size_t i = 0; i < PAGES; i++)
        resident += w->page[i].there && w->page[i].state == PAGE_RESIDENT;
    CHECK_EQ(s.resident_bytes, resident * PAGE);
    CHECK_EQ(s.budget_bytes, w->budget);
    CHECK(s.hit_bytes <= s.touched_bytes && s.late_operations <= s.operations && s.early_bytes <= s.filled_bytes);
    CHECK(s.useless_bytes <= s.filled_bytes && s.predicted + s.surprises <= s.operations);
}

#endif
