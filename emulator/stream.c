#include "stream.h"

#include "capture.h"
#include "cost.h"
#include "plan.h"
#include "run.h"
#include "shared.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct item {
    struct item *next;
    struct work work;
    uint64_t operation;
    uint64_t issued; /* ns */
    struct mark *after;
    size_t after_count;
};

static atomic_ullong last_operation;

/* The number of the work; the nodes of a graph have the numbers behind it. */
static uint64_t number(const struct work *w) {
    uint64_t count = w->kind == WORK_GRAPH ? 1 + w->plan->count : 1;
    return atomic_fetch_add(&last_operation, count) + 1;
}

EXPORT uint64_t emu_operations(void) {
    return atomic_load(&last_operation);
}

bool stream_blocks(const struct CUstream_st *s) {
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

/* --- life --- */

CUstream stream_new(CUcontext c, unsigned flags, int priority) {
    CUstream s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context = c;
    s->flags = flags;
    s->priority = priority;
    atomic_store(&s->refs, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->entered, NULL);
    pthread_cond_init(&s->finished, NULL);
    s->last = &s->first;
    pthread_mutex_lock(&c->streams_lock);
    s->next = c->streams;
    s->listed = true;
    c->streams = s;
    pthread_mutex_unlock(&c->streams_lock);
    return s;
}

void stream_hold(CUstream s) {
    atomic_fetch_add(&s->refs, 1);
}

void stream_release(CUstream s) {
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->entered);
    pthread_cond_destroy(&s->finished);
    free(s);
}

/* Under the lock of the lists. */
static void unlist(CUstream *at, CUstream s) {
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
}

void stream_destroy(CUstream s) {
    CUcontext c = s->context;
    pthread_mutex_lock(&c->streams_lock);
    bool listed = s->listed;
    if (listed) {
        unlist(&c->streams, s);
        s->listed = false;
        pthread_mutex_lock(&s->lock);
        if (s->done < s->submitted) {
            s->next = c->leaving;
            c->leaving = s;
        }
        s->closing = true;
        pthread_cond_signal(&s->entered);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&c->streams_lock);
    if (listed)
        stream_release(s);
}

static CUstream thread_default(CUcontext c) {
    struct thread *t = thread_self();
    size_t room = sizeof t->defaults / sizeof *t->defaults, slot = room;
    for (size_t i = 0; i < room; i++) {
        CUstream s = t->defaults[i];
        if (s && !s->listed) { /* its context ended */
            stream_release(s);
            t->defaults[i] = s = NULL;
        }
        if (s && s->context == c)
            return s;
        if (!s)
            slot = i;
    }
    if (slot == room || !(t->defaults[slot] = stream_new(c, CU_STREAM_DEFAULT, 0)))
        return NULL;
    stream_hold(t->defaults[slot]);
    return t->defaults[slot];
}

CUresult stream_find(CUcontext c, CUstream handle, bool per_thread, CUstream *out) {
    if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
        *out = thread_default(c);
    else
        *out = !handle || handle == CU_STREAM_LEGACY ? c->legacy : handle;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- marks --- */

bool mark_passed(const struct mark *m) {
    pthread_mutex_lock(&m->stream->lock);
    bool passed = m->stream->done >= m->count;
    pthread_mutex_unlock(&m->stream->lock);
    return passed;
}

bool stream_idle(CUstream s) {
    pthread_mutex_lock(&s->lock);
    bool idle = s->done == s->submitted && !stream_blocks(s);
    pthread_mutex_unlock(&s->lock);
    return idle;
}

uint64_t stream_wait(const struct mark *m) {
    CUstream s = m->stream;
    pthread_mutex_lock(&s->lock);
    while (s->done < m->count)
        pthread_cond_wait(&s->finished, &s->lock);
    uint64_t clock = s->clock;
    pthread_mutex_unlock(&s->lock);
    return clock;
}

void mark_release(struct mark *m) {
    if (m->stream)
        stream_release(m->stream);
    m->stream = NULL;
}

void marks_release(struct mark *marks, size_t n) {
    for (size_t i = 0; i < n; i++)
        mark_release(&marks[i]);
    free(marks);
}

void marks_wait(const struct mark *marks, size_t n) {
    for (size_t i = 0; i < n; i++)
        stream_wait(&marks[i]);
}

bool marks_passed(const struct mark *marks, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!mark_passed(&marks[i]))
            return false;
    return true;
}

static bool everyone(const struct CUstream_st *s) {
    return s != NULL;
}

static size_t mark_listed(CUstream s, bool (*chosen)(const struct CUstream_st *), struct mark *out) {
    size_t n = 0;
    for (; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        if (chosen(s) && s->done < s->submitted) {
            out[n++] = (struct mark){s, s->submitted};
            stream_hold(s);
        }
        pthread_mutex_unlock(&s->lock);
    }
    return n;
}

/* Points for what the chosen streams of the context have still to do, destroyed ones included. */
static size_t mark_those(CUcontext c, bool (*chosen)(const struct CUstream_st *), struct mark **out) {
    size_t n = 0, room = 0;
    *out = NULL;
    pthread_mutex_lock(&c->streams_lock);
    for (CUstream s = c->streams; s; s = s->next)
        room++;
    for (CUstream s = c->leaving; s; s = s->next)
        room++;
    *out = room ? calloc(room, sizeof **out) : NULL;
    if (*out) {
        n = mark_listed(c->streams, chosen, *out);
        n += mark_listed(c->leaving, chosen, *out + n);
    }
    pthread_mutex_unlock(&c->streams_lock);
    return n;
}

size_t streams_mark(CUcontext c, struct mark **out) {
    return mark_those(c, everyone, out);
}

size_t stream_marks(CUstream s, struct mark **out) {
    if (s == s->context->legacy)
        return mark_those(s->context, stream_blocks, out);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return 0;
    pthread_mutex_lock(&s->lock);
    **out = (struct mark){s, s->submitted};
    stream_hold(s);
    pthread_mutex_unlock(&s->lock);
    return 1;
}

void stream_wait_all(CUstream s) {
    struct mark *marks;
    size_t n = stream_marks(s, &marks);
    marks_wait(marks, n);
    marks_release(marks, n);
}

/* --- execution --- */

static void item_free(struct item *i) {
    work_release(&i->work);
    marks_release(i->after, i->after_count);
    free(i);
}

uint64_t stream_execute(CUstream s, struct work *w, uint64_t operation, uint64_t clock) {
    struct emu_launch r = {.context = s->context,
                           .stream = s,
                           .device = s->context->device,
                           .operation = operation,
                           .kernel = w->kind == WORK_KERNEL ? w->launch : NULL,
                           .name = work_name(w),
                           .clock = clock};
    run_begin(&r);
    if (setjmp(r.stop) == 0)
        work_run(w, &r);
    CUresult error = run_end(&r);
    if (error)
        context_poison(s->context, error);
    if (w->kind != WORK_GRAPH) /* its nodes have paid */
        cost_operation(&r);
    return r.clock;
}

static void *work_off(void *stream) {
    CUstream s = stream;
    prctl(PR_SET_NAME, "emu-stream");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->closing)
            pthread_cond_wait(&s->entered, &s->lock);
        struct item *i = s->first;
        if (!i)
            break;
        uint64_t ready = s->clock > i->issued ? s->clock : i->issued;
        pthread_mutex_unlock(&s->lock);
        for (size_t k = 0; k < i->after_count; k++) {
            uint64_t then = stream_wait(&i->after[k]);
            ready = then > ready ? then : ready;
        }
        if (atomic_load(&s->context->error) == CUDA_SUCCESS)
            ready = stream_execute(s, &i->work, i->operation, ready);
        pthread_mutex_lock(&s->lock);
        s->clock = ready;
        s->first = i->next;
        if (!s->first)
            s->last = &s->first;
        s->done++;
        atomic_fetch_sub(&shared_life()->operations, 1);
        pthread_cond_broadcast(&s->finished);
        pthread_mutex_unlock(&s->lock);
        item_free(i);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->context->streams_lock);
    unlist(&s->context->leaving, s);
    pthread_mutex_unlock(&s->context->streams_lock);
    stream_release(s);
    return NULL;
}

/* Trap: the kernel makes no thread for a process of which another one is inside exec, and that call may yet fail. The
 * same error says that the process may have no more threads: that is waited out once. */
static int create(pthread_t *id, const pthread_attr_t *attributes, CUstream s) {
    enum { TRIES = 1000, EVERY_US = 100 };
    static atomic_bool refused;
    int error, tries = atomic_load(&refused) ? TRIES : 0;
    while ((error = pthread_create(id, attributes, work_off, s)) == EAGAIN && tries++ < TRIES)
        usleep(EVERY_US);
    atomic_store(&refused, error == EAGAIN);
    return error;
}

static bool start(CUstream s) {
    if (s->started)
        return true;
    pthread_t id;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    stream_hold(s);
    sigset_t all, before;
    sigfillset(&all); /* the program's signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->started = create(&id, &detached, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (!s->started)
        atomic_fetch_sub(&s->refs, 1); /* not the last: the caller has one */
    return s->started;
}

/* What the legacy default stream and the streams that block with it owe each other. */
static void order_with_legacy(CUstream s, struct item *i) {
    CUcontext c = s->context;
    if (s == c->legacy) {
        i->after_count = mark_those(c, stream_blocks, &i->after);
    } else if (stream_blocks(s)) {
        struct mark m = {c->legacy, 0};
        pthread_mutex_lock(&c->legacy->lock);
        m.count = c->legacy->submitted;
        bool passed = c->legacy->done == m.count;
        pthread_mutex_unlock(&c->legacy->lock);
        if (!passed && (i->after = malloc(sizeof m))) {
            stream_hold(m.stream);
            i->after[i->after_count++] = m;
        }
    }
}

static bool add_after(struct item *i, const struct mark *m) {
    struct mark *more = realloc(i->after, (i->after_count + 1) * sizeof *more);
    if (!more)
        return false;
    i->after = more;
    more[i->after_count++] = *m;
    stream_hold(m->stream);
    return true;
}

CUresult stream_enter(CUstream s, struct work *w, const struct mark *after, struct mark *at) {
    CUcontext c = s->context;
    struct item *i = calloc(1, sizeof *i);
    if (!i) {
        work_release(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    i->work = *w;
    i->issued = cost_counts() ? cost_now() : 0;
    pthread_mutex_lock(&c->launch);
    order_with_legacy(s, i);
    bool good = !after || add_after(i, after);
    pthread_mutex_lock(&s->lock);
    while (s->submitted - s->done >= STREAM_DEPTH)
        pthread_cond_wait(&s->finished, &s->lock);
    good = good && start(s);
    if (good) {
        i->operation = number(&i->work);
        *s->last = i;
        s->last = &i->next;
        s->submitted++;
        atomic_fetch_add(&shared_life()->operations, 1);
        if (at) {
            *at = (struct mark){s, s->submitted};
            stream_hold(s);
        }
        pthread_cond_signal(&s->entered);
    }
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&c->launch);
    if (!good)
        item_free(i);
    return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult stream_issue(CUstream s, struct work *w) {
    CUresult result;
    if (capture_takes(s, w, &result))
        return result;
    return stream_enter(s, w, NULL, NULL);
}

CUresult stream_issue_and_wait(CUstream s, struct work *w) {
    CUresult result;
    struct mark at;
    if (capture_takes(s, w, &result))
        return result;
    result = stream_enter(s, w, NULL, &at);
    if (result != CUDA_SUCCESS)
        return result;
    stream_wait(&at);
    mark_release(&at);
    return (CUresult)atomic_load(&s->context->error);
}
