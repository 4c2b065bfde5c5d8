#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/thread.h"

enum { THREADS = 8, SERIALS = 10000 };

static void *own_struct(void *unused) {
    struct thread *t = thread_self();
    CHECK(t && t == thread_self());
    CHECK_EQ(t->inside, 0);
    t->inside = 1;
    t->touches[TOUCH_MAX - 1].bytes = 1;
    (void)unused;
    return (void *)(uintptr_t)t->id;
}

TEST(every_thread_has_its_own) {
    pthread_t threads[THREADS];
    uint64_t seen = 0;
    CHECK_EQ(thread_self()->id, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, own_struct, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *id;
        pthread_join(threads[i], &id);
        seen |= 1ull << (uintptr_t)id;
    }
    CHECK_EQ(seen, 0x3fc); /* 2 to 9 */
    CHECK_EQ(thread_self()->inside, 0);
}

static uint32_t ended;

static void note_end(struct thread *t) {
    CHECK(t == thread_self());
    ended += t->id;
}

static bool mapped(void *p) {
    unsigned char in_core;
    return mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 1, &in_core) == 0;
}

static void *where(void *unused) {
    (void)unused;
    return thread_self()->touches;
}

TEST(a_thread_that_ends_gives_everything_back) {
    static struct thread_end one = {.run = note_end}, two = {.run = note_end};
    pthread_t thread;
    void *t;
    thread_at_end(&one);
    thread_at_end(&two);
    thread_self();
    pthread_create(&thread, NULL, where, NULL);
    pthread_join(thread, &t);
    CHECK_EQ(ended, 2 + 2);
    CHECK(!mapped(t));
    CHECK(mapped(thread_self()->touches));
}

static pthread_key_t late;

static void call_again(void *unused) {
    (void)unused;
    CHECK(thread_self() != NULL);
    thread_self()->inside++;
}

static void *with_late_destructor(void *unused) {
    uint32_t id = thread_self()->id;
    pthread_setspecific(late, (void *)1);
    return (void *)(uintptr_t)id + 0 * (uintptr_t)unused;
}

/* A destructor that runs after ours may still call CUDA: it gets a new struct, which goes too. */
TEST(use_after_our_destructor) {
    static struct thread_end e = {.run = note_end};
    pthread_t thread;
    void *id;
    thread_at_end(&e);
    thread_self(); /* makes our key first, so that the other one's destructor comes after it */
    pthread_key_create(&late, call_again);
    pthread_create(&thread, NULL, with_late_destructor, NULL);
    pthread_join(thread, &id);
    CHECK_EQ((uintptr_t)id, 2);
    CHECK_EQ(ended, 2 + 3);
}

static uint64_t serials[THREADS][SERIALS];

static void *take_serials(void *mine) {
    for (int i = 0; i < SERIALS; i++)
        ((uint64_t *)mine)[i] = serial_next();
    return NULL;
}

TEST(serials_are_unique_and_rise) {
    static bool seen[THREADS * SERIALS + 1];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_serials, serials[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < SERIALS; k++) {
            CHECK(serials[i][k] >= 1 && serials[i][k] <= THREADS * SERIALS);
            CHECK(k == 0 || serials[i][k] > serials[i][k - 1]);
            CHECK(!seen[serials[i][k]]);
            seen[serials[i][k]] = true;
        }
}

TEST(fork_leaves_the_child_its_struct) {
    struct thread *t = thread_self();
    t->ring = (struct ring *)t;
    pid_t child = fork();
    if (child == 0) {
        thread_fork_child();
        _exit(thread_self() == t && t->id == 1 && t->ring == NULL ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK(t->ring == (struct ring *)t);
    t->ring = NULL;
}
