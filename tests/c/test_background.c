#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/background.h"
#include "base/thread.h"

enum { STARTS = 1000 };

static bool enough;

/* The file has no format that the system knows: each call comes as far as that, and fails. */
static void *go_on_executing(void *file) {
    char *none[] = {NULL};
    while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
        CHECK(execve(file, none, none) == -1);
        thread_sleep(20);
    }
    return NULL;
}

static void *nothing(void *data) {
    return data;
}

TEST(a_thread_starts_while_another_calls_exec) {
    char file[] = "/tmp/test_background.XXXXXX";
    int made = mkstemp(file), refused = 0;
    pthread_t other, thread;
    CHECK(made >= 0 && write(made, "none", 4) == 4 && fchmod(made, 0700) == 0);
    close(made);
    CHECK_EQ(pthread_create(&other, NULL, go_on_executing, file), 0);
    for (int i = 0; i < STARTS; i++) {
        int error = background_start(&thread, nothing, NULL);
        refused += error != 0;
        if (!error)
            pthread_join(thread, NULL);
    }
    __atomic_store_n(&enough, true, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    unlink(file);
    CHECK_EQ(refused, 0);
}

static void *until_told(void *told) {
    while (!__atomic_load_n((bool *)told, __ATOMIC_ACQUIRE))
        thread_sleep(100);
    return NULL;
}

TEST(a_thread_is_waited_for_so_long) {
    bool told = false;
    pthread_t thread;
    CHECK_EQ(background_start(&thread, until_told, &told), 0);
    uint64_t before = clock_ns(), until = before + 20000000;
    CHECK(!background_join(thread, until));
    CHECK(clock_ns() >= until);
    struct rusage slept, looked;
    CHECK_EQ(getrusage(RUSAGE_THREAD, &slept), 0);
    CHECK(!background_join(thread, clock_ns() + 200000000));
    CHECK_EQ(getrusage(RUSAGE_THREAD, &looked), 0);
    CHECK(looked.ru_nvcsw - slept.ru_nvcsw < 200); /* so often it slept */
    __atomic_store_n(&told, true, __ATOMIC_RELEASE);
    CHECK(background_join(thread, UINT64_MAX));
}
