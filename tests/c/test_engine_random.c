/* Random programs against the engine: what they do is checked by the world, and no sequence of events wedges. */
#include "engine_world.h"

static void event(struct world *w) {
    uint64_t kind = roll(w, w->calm == CALM && roll(w, 50) ? 94 : 100);
    size_t first = roll(w, PAGES), pages = 1 + roll(w, 8);
    if (first + pages > PAGES)
        pages = PAGES - first;
    if (kind < 30) {
        if (w->jobs < w->most_jobs) {
            w->at = (w->at + (roll(w, 2 * w->calm) ? 1 : roll(w, 4))) % SCRIPT;
            issue(w, roll(w, w->calm) ? w->script[w->at] : random_call(w));
        }
    } else if (kind < 50) {
        size_t i = w->jobs ? roll(w, w->jobs) : 0;
        if (i < w->jobs && !w->job[i].running)
            admit(w, &w->job[i], roll(w, 50) == 0);
    } else if (kind < 60) {
        size_t i = w->jobs ? roll(w, w->jobs) : 0;
        if (i < w->jobs && (w->job[i].running || roll(w, 20) == 0))
            retire(w, i);
    } else if (kind < 80) {
        take(w, (int)roll(w, 2));
    } else if (kind < 94) {
        if (w->moves > 0)
            finish_one(w, roll(w, w->moves));
    } else if (kind < 95) {
        vanish(w, first, pages);
    } else if (kind < 97) {
        appear(w, first, pages);
    } else if (kind < 99) {
        block(w, first, pages, roll(w, 2));
    } else {
        w->budget = (1 + roll(w, PAGES)) * PAGE;
        ulms_engine_budget(w->e, w->budget);
    }
}

/* Everything that runs retires, every move is reported: each waiting operation gets its turn. */
static void drain(struct world *w) {
    for (int rounds = 0; w->jobs > 0; rounds++) {
        CHECK(rounds < 20 * PAGES);
        for (int lane = 0; lane < 2; lane++)
            for (size_t before = ~(size_t)0; before != w->moves && w->moves < MOVES;) {
                before = w->moves;
                take(w, lane);
            }
        while (w->moves > 0)
            finish_one(w, roll(w, w->moves));
        for (size_t i = w->jobs; i > 0; i--)
            if (w->job[i - 1].running)
                retire(w, i - 1);
        if (w->jobs > 0 && admit(w, &w->job[0], false))
            rounds = 0;
    }
    /* Idle: what may be said is finite. */
    for (int lane = 0, quiet = 0, n = 0; quiet < 2; lane = !lane) {
        CHECK(n++ < 100 * PAGES);
        take(w, lane);
        quiet = w->moves > 0 ? 0 : quiet + 1;
        while (w->moves > 0)
            finish_one(w, 0);
    }
}

static uint64_t used_in_place;

/* Anybody's frame, or nobody's. */
static uint64_t holder(void *data, uint64_t start) {
    const struct world *w = data;
    uint64_t page = (index_of(start) * w->stride + 1) % (PAGES + 1);
    return page < PAGES ? BASE + page * PAGE : 0;
}

static uint64_t play(const char *policy, uint64_t seed, int events) {
    struct world w = {.random = seed * 2 + 1};
    roll(&w, 2);
    w.most_jobs = roll(&w, 4) ? 4 : OPS;
    w.budget = (1 + roll(&w, PAGES)) * PAGE;
    w.settings = (struct ulms_engine_settings){.policy = policy,
                                               .page_bytes = PAGE,
                                               .budget = w.budget,
                                               .run_bytes = roll(&w, 9) * PAGE,
                                               .ahead_bytes = roll(&w, 9) * PAGE,
                                               .keeps = (uint32_t)roll(&w, 2),
                                               .faults = (uint32_t)roll(&w, 2),
                                               .in_place = (uint32_t)roll(&w, 3),
                                               .shed_bytes = roll(&w, 9) * PAGE};
    w.calm = roll(&w, 2) ? 10 : CALM;
    w.held = !policy;
    w.faulting = !w.held && strcmp(policy, "none") == 0;
    w.settings.faults |= w.faulting;
    w.failing = w.held && roll(&w, 3) == 0;
    w.e = ulms_engine_new(&w.settings);
    CHECK(w.e != NULL);
    w.stride = roll(&w, 8);
    if (w.stride > 0)
        ulms_engine_holder(w.e, holder, &w);
    for (size_t i = 0; i < SCRIPT; i++)
        w.script[i] = random_call(&w);
    for (size_t i = 0; i + 12 <= PAGES; i += 12)
        appear(&w, i, 12);
    uint64_t every = 1 + roll(&w, 8);
    for (int i = 0; i < events; i++) {
        event(&w);
        if (roll(&w, every) == 0) {
            engine_check(w.e);
            check_frames(&w);
        }
        if (roll(&w, 200) == 0)
            drain(&w);
    }
    drain(&w);
    engine_check(w.e);
    ulms_engine_free(w.e);
    used_in_place += w.used_in_place;
    return w.answers;
}

TEST(held_programs_at_random) {
    for (uint64_t seed = 1; seed <= 400; seed++)
        play(NULL, seed, 1500);
    CHECK(used_in_place > 300);
}

TEST(ordered_programs_at_random) {
    for (uint64_t seed = 1; seed <= 100; seed++)
        for (size_t i = 1; i < ulms_policy_count(); i++)
            play(ulms_policy(i)->name, seed, 800);
}

TEST(same_events_same_answers) {
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (size_t i = 0; i < ulms_policy_count(); i++) {
            const char *name = i == 0 ? NULL : ulms_policy(i)->name;
            CHECK(play(name, seed, 500) == play(name, seed, 500));
            CHECK(play(name, seed, 500) != play(name, seed + 1000, 500));
        }
}
