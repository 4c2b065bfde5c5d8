/* A thread of ours: its start and its end. */
#define _GNU_SOURCE
#include <sys/prctl.h>

#include "backend/pager/pager.h"
#include "base/background.h"
#include "base/log.h"

/* On the stack of who starts the thread, until both have met. */
struct start {
    const char *name;
    void *(*run)(void *);
    void *data;
    bool relaxed;
    pthread_barrier_t met;
};

static void *begin(void *data) {
    struct start *s = data;
    void *(*run)(void *) = s->run;
    void *of = s->data;
    pthread_setname_np(pthread_self(), s->name);
    prctl(PR_SET_TIMERSLACK, 1);
    bool relaxed = s->relaxed = capture_relax().on;
    pthread_barrier_wait(&s->met);
    return relaxed ? run(of) : NULL;
}

const char *pager_worker_start(struct pager_worker *w, const char *name, void *(*run)(void *), void *data) {
    struct start s = {.name = name, .run = run, .data = data};
    pthread_barrier_init(&s.met, NULL, 2);
    w->running = background_start(&w->thread, begin, &s) == 0;
    if (w->running)
        pthread_barrier_wait(&s.met);
    pthread_barrier_destroy(&s.met);
    return !w->running ? "no thread" : !s.relaxed ? PAGER_UNRELAXED : NULL;
}

bool pager_worker_join(struct pager_worker *w, uint64_t until_ns) {
    bool ended = !w->running || background_join(w->thread, until_ns);
    if (!ended)
        log_warn("the process ends while the driver keeps a thread of ours");
    w->running = false;
    return ended;
}
