/* Programs on an engine that are small enough to follow by hand. Pages are letters from 'a' on; a move is written as
 * `+ab` (in) or `-ab` (out), with its flags behind: D(ead), C(lean), K(eep), E(arly), (in) P(lace). */
#ifndef ENGINE_LETTERS_H
#define ENGINE_LETTERS_H

#include "test.h"

#include "engine/engine.h"

enum { PAGE = 4096, LETTERS = 26 };

#define BASE (0x7f0000000000ull)

static struct ulms_engine *e;
static uint64_t now; /* when the last operation ended */

static inline void open_engine_with(uint32_t in_place, const char *policy, uint64_t budget, uint64_t run,
                                    uint64_t ahead) {
    struct ulms_engine_settings s = {.policy = policy,
                                     .in_place = in_place,
                                     .page_bytes = PAGE,
                                     .budget = budget * PAGE,
                                     .run_bytes = run * PAGE,
                                     .ahead_bytes = ahead * PAGE,
                                     .keeps = 1,
                                     .faults = 1};
    e = ulms_engine_new(&s);
    CHECK(e != NULL);
    CHECK(ulms_engine_allocated(e, BASE, (uint64_t)LETTERS * PAGE));
}

static inline void open_engine(const char *policy, uint64_t budget, uint64_t run, uint64_t ahead) {
    open_engine_with(ULMS_IN_PLACE_NOTHING, policy, budget, run, ahead);
}

static inline uint64_t at(char letter) {
    return BASE + (uint64_t)(letter - 'a') * PAGE;
}

/* "ab c" touches three pages, each by a touch of its own, in the mode. */
static inline uint64_t issue(uint64_t key, const char *pages, uint64_t mode) {
    struct ulms_engine_touch touches[LETTERS];
    size_t n = 0;
    for (const char *p = pages; *p; p++)
        touches[n++] = (struct ulms_engine_touch){at(*p), PAGE, mode};
    return ulms_engine_issued(e, key, touches, n);
}

static inline int admit(uint64_t serial) {
    uint64_t wait;
    return ulms_engine_admit(e, serial, 0, &wait);
}

/* The next move of the lane in letters; "" when there is none. */
static inline const char *next(int lane, struct ulms_move *m) {
    static char said[64];
    size_t n = 0;
    said[0] = 0;
    if (!ulms_engine_next(e, lane, m))
        return said;
    said[n++] = m->kind == ULMS_FILL ? '+' : '-';
    for (uint64_t a = m->start; a < m->start + m->bytes; a += PAGE)
        said[n++] = (char)('a' + (a - BASE) / PAGE);
    for (size_t i = 0; i < 5; i++)
        if (m->flags & 1u << i)
            said[n++] = "DCKEP"[i];
    said[n] = 0;
    return said;
}

static inline void expect(int lane, const char *moves) {
    struct ulms_move m;
    CHECK_STR(next(lane, &m), moves);
    if (*moves)
        ulms_engine_moved(e, m.id, 1);
    engine_check(e);
}

#define IN(moves)  expect(ULMS_LANE_IN, moves)
#define OUT(moves) expect(ULMS_LANE_OUT, moves)

/* One move of each lane, done at once. False: there is none. */
static inline bool step(void) {
    struct ulms_move m;
    bool any = false;
    for (int lane = 0; lane < 2; lane++)
        if (ulms_engine_next(e, lane, &m)) {
            ulms_engine_moved(e, m.id, 1);
            any = true;
        }
    return any;
}

/* Runs an operation on a link that has time for nothing but what it waits for. Returns how it was admitted. */
static inline int run_slow(uint64_t key, const char *pages, uint64_t mode) {
    uint64_t serial = issue(key, pages, mode);
    int first = admit(serial);
    for (int answer = first; answer == ULMS_HOLD; answer = admit(serial))
        CHECK(step());
    ulms_engine_retired(e, serial, ++now);
    return first;
}

/* On a link that has time for everything. */
static inline int run(uint64_t key, const char *pages, uint64_t mode) {
    int first = run_slow(key, pages, mode);
    while (step())
        ;
    return first;
}

static inline struct ulms_engine_stats stats(void) {
    struct ulms_engine_stats s;
    ulms_engine_stats(e, &s);
    return s;
}

#endif
