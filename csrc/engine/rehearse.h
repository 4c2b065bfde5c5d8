/* A period run in virtual time: what an iteration takes by plan and by greedy choice. */
#ifndef ULMS_ENGINE_REHEARSE_H
#define ULMS_ENGINE_REHEARSE_H

#include "engine/plan.h"

/* Nanoseconds that a page takes over the link: alone, and while one goes the other way. Above 0. */
struct link {
    double in_ns, out_ns;
    double in_both_ns, out_both_ns;
};

struct rehearsal {
    double ns;                  /* an iteration; INFINITY: came to a stop */
    double pages_in, pages_out; /* over the link in an iteration */
};

/* Iterations that are run, from an empty device, and of these the first ones that are not measured. */
enum { REHEARSE_ITERATIONS = 6, REHEARSE_WARM = 2 };

/* The mean of the measured iterations. False: no memory. */
bool rehearse_plan(const struct plan *plan, const struct link *link, struct rehearsal *out);
bool rehearse_greedy(const struct period *period, uint32_t budget, const struct link *link, struct rehearsal *out);

struct plan_choice {
    struct rehearsal plan, greedy;
    uint32_t start;  /* of the sweep that found it */
    uint32_t tried;  /* different plans rehearsed */
    bool worthwhile; /* the plan is faster than greedy choice */
};

/* The fastest of the plans of a few sweeps, in plan (opened, and open whatever comes of it), and how it compares. The
 * work is bounded: long periods get fewer sweeps. */
enum plan_result plan_search(struct plan *plan, const struct link *link, struct plan_choice *choice);

#endif
