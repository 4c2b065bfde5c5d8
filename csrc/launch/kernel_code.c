#define _GNU_SOURCE
#include "launch/kernel_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "base/spread.h"
#include "launch/function.h"
#include "ulms.h"

/* Bytes: of one image, so that no load takes long; and of all. */
#define COPY_MOST   (UINT64_C(8) << 20)
#define COPIES_MOST (UINT64_C(256) << 20)

struct digest {
    uint64_t half[2];
};

struct code_source {
    const void *start;
    uint64_t bytes;
    uint8_t *copy;        /* NULL: it stays where it is */
    struct digest digest; /* of the copy; else a number that no other has */
    bool closed;
    uint32_t users; /* kernels that are to be read, and the image while it is loaded */
};

struct kernel_code {
    struct digest digest;
    struct code_source *source;           /* while it is to be read */
    const struct kernel_verdict *verdict; /* set once */
    struct kernel_code *next;
    char name[];
};

static uint32_t architecture;
static struct lock lock;
static struct condition asked;
static struct hash kernels; /* by digest and name */
static struct kernel_code *first, **last = &first;
static uint64_t copied; /* bytes */

void kernel_code_begin(uint32_t of) {
    architecture = of;
}

bool kernel_code_on(void) {
    return architecture != 0;
}

/* --- images --- */

static uint64_t rotated(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

static struct digest digest_of(const uint8_t *at, uint64_t bytes) {
    struct digest d = {{bytes, ~bytes}};
    for (uint64_t n = 0; n < bytes; n += sizeof n) {
        uint64_t word = 0;
        memcpy(&word, at + n, bytes - n < sizeof word ? bytes - n : sizeof word);
        d.half[0] = rotated(d.half[0] ^ spread(word), 27) * 5 + d.half[1];
        d.half[1] = rotated(d.half[1] ^ spread(rotated(word, 32)), 31) * 5 + d.half[0];
    }
    return d;
}

/* Under the lock. */
static void leave(struct code_source *s) {
    if (--s->users > 0)
        return;
    copied -= s->copy ? s->bytes : 0;
    free(s->copy);
    free(s);
}

static bool take_room(uint64_t bytes) {
    lock_take(&lock);
    bool fits = bytes <= COPY_MOST && bytes <= COPIES_MOST - copied;
    copied += fits ? bytes : 0;
    lock_drop(&lock);
    return fits;
}

/* False: it is not all there, or too large. */
static bool take_copy(struct code_source *s) {
    if (!take_room(s->bytes))
        return false;
    s->copy = malloc(s->bytes);
    if (s->copy && process_read(s->copy, s->start, s->bytes) == s->bytes) {
        s->start = s->copy;
        s->digest = digest_of(s->copy, s->bytes);
        return true;
    }
    lock_take(&lock);
    copied -= s->bytes;
    lock_drop(&lock);
    free(s->copy);
    return false;
}

struct code_source *code_source_open(const void *start, uint64_t bytes, bool stays) {
    static uint64_t number;
    uint64_t all = code_image_bytes(&start);
    struct code_source *s = all > 0 && all <= bytes ? malloc(sizeof *s) : NULL;
    if (!s)
        return NULL;
    *s = (struct code_source){.start = start, .bytes = all, .users = 1};
    if (stays) {
        s->digest.half[0] = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED);
    } else if (!take_copy(s)) {
        log_debug("an image of %llu bytes is not read", (unsigned long long)all);
        free(s);
        s = NULL;
    }
    return s;
}

void code_source_close(struct code_source *s) {
    if (!s)
        return;
    lock_take(&lock);
    s->closed = true;
    leave(s);
    lock_drop(&lock);
}

bool code_source_eager(const struct code_source *s) {
    return s->copy;
}

/* --- the thread --- */

/* The image that was read last, as the next kernel is often of the same. */
static struct {
    struct digest digest;
    struct code_image image;
} now;

static bool same_digest(const struct digest *a, const struct digest *b) {
    return a->half[0] == b->half[0] && a->half[1] == b->half[1];
}

/* False: its memory may have become another's before it was read. */
static bool open_image(const struct code_source *s) {
    if (now.image.cubins && same_digest(&now.digest, &s->digest))
        return true;
    code_image_close(&now.image);
    code_image_open(&now.image, s->start, s->bytes, architecture, true);
    now.digest = s->digest;
    lock_take(&lock);
    bool valid = s->copy || !s->closed;
    lock_drop(&lock);
    if (!valid)
        code_image_close(&now.image);
    return valid;
}

static void tell(const struct kernel_code *k, const struct kernel_verdict *v) {
    if (ulms_options.level < LOG_DEBUG)
        return;
    log_line(LOG_DEBUG, NULL, "read: %s: %s%s%s, %u steps", k->name, verdict_word(v->verdict), v->reason ? ": " : "",
             v->reason ? v->reason : "", v->steps);
    if (v->verdict == VERDICT_FOLLOWS && ulms_kernel_trusted(k->name))
        log_line(LOG_DEBUG, NULL, "%s is trusted by its name, and follows addresses by its code", k->name);
}

/* Functions with this code are described anew at their next launch. */
static void publish(struct kernel_code *k, const struct kernel_verdict *found) {
    static const struct kernel_verdict none = {.reason = "no memory"};
    size_t bytes = offsetof(struct kernel_verdict, rule) + found->rules * sizeof found->rule[0];
    struct kernel_verdict *v = malloc(bytes);
    if (v)
        memcpy(v, found, bytes);
    __atomic_store_n(&k->verdict, v ? v : &none, __ATOMIC_RELEASE);
    functions_review(k);
    tell(k, found);
}

static void *run(void *unused) {
    static struct kernel_verdict found; /* large */
    pthread_setname_np(pthread_self(), "ulms-code");
    for (;;) {
        lock_take(&lock);
        while (!first)
            condition_wait(&asked, &lock, 0);
        struct kernel_code *k = first;
        struct code_source *s = k->source;
        first = k->next;
        last = first ? last : &first;
        lock_drop(&lock);
        if (open_image(s))
            verdict_in(&now.image, k->name, &found);
        else
            found = (struct kernel_verdict){.reason = "an image that went"};
        lock_take(&lock);
        k->source = NULL;
        leave(s);
        lock_drop(&lock);
        publish(k, &found);
    }
    return unused;
}

/* False: there is no thread. Under the lock. */
static bool start(void) {
    static bool begun, runs;
    pthread_t thread;
    if (begun)
        return runs;
    begun = true;
    runs = background_start(&thread, run, NULL) == 0;
    if (runs)
        pthread_detach(thread);
    else
        log_warn("no thread to read kernels: those that are not trusted by name may follow addresses");
    return runs;
}

/* --- kernels --- */

/* Under the lock. */
static struct kernel_code *code_ask(struct code_source *s, const char *name, uint64_t key) {
    size_t text = strlen(name) + 1;
    struct kernel_code *k = start() ? malloc(sizeof *k + text) : NULL;
    bool stored = false;
    if (!k)
        return NULL;
    *k = (struct kernel_code){.digest = s->digest, .source = s};
    memcpy(k->name, name, text);
    hash_put(&kernels, key, k, &stored);
    if (!stored) {
        free(k);
        return NULL;
    }
    s->users++;
    *last = k;
    last = &k->next;
    condition_tell_one(&asked);
    return k;
}

const struct kernel_code *kernel_code_of(struct code_source *s, const char *name) {
    struct digest named = digest_of((const uint8_t *)name, strlen(name));
    uint64_t key = spread(s->digest.half[0] ^ named.half[0]) | 1;
    lock_take(&lock);
    struct kernel_code *k = hash_get(&kernels, key);
    if (!k)
        k = code_ask(s, name, key);
    else if (!same_digest(&k->digest, &s->digest) || strcmp(k->name, name) != 0)
        k = NULL;
    lock_drop(&lock);
    return k;
}

const struct kernel_verdict *kernel_code_verdict(const struct kernel_code *k) {
    return __atomic_load_n(&k->verdict, __ATOMIC_ACQUIRE);
}
