/* Copies to the host of several threads, on the emulated device. */
#include <pthread.h>
#include <sched.h>

#include "vmm_device.h"

enum { THREADS = 3, TIMES = 40 };

static struct d2h_queue turn;

struct copier {
    pthread_t thread;
    CUcontext context;
    CUstream stream;
    addr_t to, from;
};

static void *copy_on(void *data) {
    struct copier *c = data;
    OK(cuCtxSetCurrent(c->context));
    for (int i = 0; i < TIMES; i++)
        CHECK(d2h_queue_copy(&turn, c->to, c->from, BYTES, c->stream));
    return NULL;
}

TEST(no_more_than_one_waits_behind_what_goes) {
    struct copier c[THREADS];
    unsigned *host_words;
    begin();
    d2h_queue_open(&turn);
    OK(cuMemHostAlloc((void **)&host_words, THREADS * BYTES, 0));
    for (unsigned i = 0; i < THREADS; i++) {
        CUdeviceptr from;
        OK(cuMemAlloc_v2(&from, BYTES));
        OK(cuMemsetD32_v2(from, 7 + i, BYTES / 4));
        OK(cuCtxGetCurrent(&c[i].context));
        OK(cuStreamCreate(&c[i].stream, CU_STREAM_NON_BLOCKING));
        c[i].from = from;
        c[i].to = (addr_t)(uintptr_t)host_words + i * (addr_t)BYTES;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&c[i].thread, NULL, copy_on, &c[i]) == 0);
    for (uint64_t gone = 0; gone < THREADS * TIMES;) {
        lock_take(&turn.lock);
        gone = __atomic_load_n(&turn.gone, __ATOMIC_ACQUIRE);
        CHECK(turn.queued - gone <= 2);
        lock_drop(&turn.lock);
        sched_yield();
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(c[i].thread, NULL);
        for (size_t word = 0; word < BYTES / 4; word += 1000)
            CHECK_EQ(host_words[i * (BYTES / 4) + word], 7 + i);
    }
    CHECK(turn.mib_ns > 0);
}

TEST(what_is_refused_does_not_keep_others) {
    begin();
    d2h_queue_open(&turn);
    CHECK(emu_fail("cuMemcpyAsync:sticky") == 0);
    CHECK(!d2h_queue_copy(&turn, 4096, 4096, BYTES, NULL));
    emu_fail(NULL);
    CHECK_EQ(turn.queued, 0);
    CHECK_EQ(turn.ends_ns, 0);
    CHECK_EQ(turn.mib_ns, 0);
}

static struct copier open_one(void) {
    CUdeviceptr from;
    void *to;
    begin();
    d2h_queue_open(&turn);
    OK(cuMemAlloc_v2(&from, BYTES));
    OK(cuMemHostAlloc(&to, BYTES, 0));
    return (struct copier){.to = (addr_t)(uintptr_t)to, .from = from};
}

TEST(what_nobody_knows_to_have_gone_does_not_keep_others) {
    struct copier c = open_one();
    CHECK(emu_fail("cuStreamSynchronize:sticky") == 0);
    CHECK(!d2h_queue_copy(&turn, c.to, c.from, BYTES, NULL));
    emu_fail(NULL);
    CHECK_EQ(turn.queued, 1);
    CHECK_EQ(turn.gone, 1);
    CHECK_EQ(turn.mib_ns, 0);
    CHECK(d2h_queue_copy(&turn, c.to, c.from, BYTES, NULL));
    CHECK(turn.mib_ns > 0);
}

/* As after a thread that was kept from running for a second. */
TEST(a_wrong_expectation_is_forgotten) {
    const uint64_t wrong = 1000ull * 1000000000;
    struct copier c = open_one();
    turn.mib_ns = wrong;
    for (int i = 0; i < 20; i++)
        CHECK(d2h_queue_copy(&turn, c.to, c.from, BYTES, NULL));
    CHECK(turn.mib_ns < wrong / 100000);
}
