/* What each thread of the program keeps, and the process: opened by cuInit, useless after a fork. */
#include "context.h"
#include "stream.h"

#include <stdlib.h>
#include <sys/mman.h>

static atomic_bool opened;
/* A child finds zeroes in its place, also one of a raw clone. */
static struct {
    _Alignas(65536) atomic_bool here;
} process;

static pthread_key_t key;
static _Thread_local struct thread self;

static void thread_gone(void *thread) {
    struct thread *t = thread;
    for (size_t i = 0; i < sizeof t->defaults / sizeof *t->defaults; i++) {
        if (!t->defaults[i])
            continue;
        stream_destroy(t->defaults[i]);
        stream_release(t->defaults[i]);
    }
}

static void in_child(void) {
    atomic_store(&process.here, false);
}

static void make_key(void) {
    pthread_key_create(&key, thread_gone);
    pthread_atfork(NULL, NULL, in_child);
}

struct thread *thread_self(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local bool known;
    if (!known) {
        pthread_once(&once, make_key);
        pthread_setspecific(key, &self);
        known = true;
    }
    return &self;
}

CUcontext context_current(void) {
    struct thread *t = thread_self();
    return t->depth ? t->stack[t->depth - 1] : NULL;
}

bool process_open(void) {
    return atomic_load_explicit(&opened, memory_order_relaxed);
}

bool process_forked(void) {
    return process_open() && !atomic_load_explicit(&process.here, memory_order_relaxed);
}

CALL(cuInit, CALL_ANY, unsigned int flags) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (process_forked())
        return CUDA_ERROR_NOT_INITIALIZED;
    INVALID_IF(flags);
    pthread_mutex_lock(&lock);
    CUresult result = process_open() ? CUDA_SUCCESS : devices_open();
    if (result == CUDA_SUCCESS) {
        thread_self();
        if (!process_open()) {
            madvise(&process, sizeof process, MADV_WIPEONFORK);
            atomic_store(&process.here, true);
        }
        atomic_store(&opened, true);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
