/* Failures on demand: EMU_FAIL and emu_fail. */
#include "call.h"
#include "emu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rule {
    char name[64];
    uint64_t after;
    CUresult error;
    uint64_t delay_ms;
    bool sticky, spent;
    struct rule *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule *rules;
static atomic_bool any; /* so that a call without rules takes no lock */
static atomic_ullong failed;
static _Thread_local const char *spared;

static void forget(struct rule *r) {
    while (r) {
        struct rule *next = r->next;
        free(r);
        r = next;
    }
}

static bool number(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

/* NULL when the text is no rule. Changes the text. */
static struct rule *parse(char *text) {
    struct rule *r = calloc(1, sizeof *r);
    char *rest, *word = strtok_r(text, ":", &rest);
    bool good = r && word && strlen(word) < sizeof r->name;
    if (good) {
        strcpy(r->name, word);
        r->error = CUDA_ERROR_UNKNOWN;
    }
    while (good && (word = strtok_r(NULL, ":", &rest))) {
        uint64_t n = 0;
        if (!strcmp(word, "sticky"))
            r->sticky = true;
        else if (!strncmp(word, "after=", 6))
            good = number(word + 6, &r->after);
        else if (!strncmp(word, "error=", 6) && (good = number(word + 6, &n)))
            r->error = (CUresult)n;
        else if (!strncmp(word, "delay=", 6) && (good = number(word + 6, &r->delay_ms)))
            r->error = CUDA_SUCCESS;
        else
            good = false;
    }
    if (good)
        return r;
    free(r);
    return NULL;
}

static int add(const char *failures) {
    char *copy = strdup(failures), *rest;
    struct rule *made = NULL;
    for (char *text = copy ? strtok_r(copy, ",", &rest) : NULL; text; text = strtok_r(NULL, ",", &rest)) {
        struct rule *r = parse(text);
        if (!r) {
            forget(made);
            free(copy);
            return -1;
        }
        r->next = made;
        made = r;
    }
    free(copy);
    pthread_mutex_lock(&lock);
    while (made) {
        struct rule *next = made->next;
        made->next = rules;
        rules = made;
        made = next;
        atomic_store(&any, true);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static void read_environment(void) {
    const char *failures = getenv("EMU_FAIL");
    if (failures && add(failures) != 0)
        fprintf(stderr,
                "emu: EMU_FAIL=%s makes no sense and is not heeded; "
                "expected name[:after=N][:sticky][:error=N][:delay=MS],...\n",
                failures);
}

static void fail_read_environment(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

EXPORT int emu_fail(const char *failures) {
    fail_read_environment();
    if (failures)
        return add(failures);
    pthread_mutex_lock(&lock);
    forget(rules);
    rules = NULL;
    atomic_store(&any, false);
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT void emu_spare(const char *name) {
    spared = name;
}

bool fail_spares(const char *symbol) {
    return spared && call_named(symbol, spared);
}

EXPORT uint64_t emu_failed(void) {
    return atomic_load(&failed);
}

CUresult fail_now(const char *symbol) {
    fail_read_environment();
    if (!atomic_load_explicit(&any, memory_order_relaxed))
        return CUDA_SUCCESS;
    CUresult error = CUDA_SUCCESS;
    uint64_t delay_ms = 0;
    pthread_mutex_lock(&lock);
    for (struct rule *r = rules; r && !error && !delay_ms; r = r->next) {
        if (r->spent || !call_named(symbol, r->name))
            continue;
        if (r->after > 0) {
            r->after--;
            continue;
        }
        error = r->error;
        delay_ms = r->delay_ms;
        r->spent = !r->sticky;
    }
    pthread_mutex_unlock(&lock);
    if (error)
        atomic_fetch_add(&failed, 1);
    if (delay_ms)
        usleep((useconds_t)(delay_ms * 1000));
    return error;
}
