/* What is known of functions, and until when. */
#include "launch/function.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "test.h"

enum { HANDLE = 0x1000 };

static atomic_int asked;
static uint16_t bytes = 8; /* of the only parameter */
static bool unloads;       /* a module goes while the driver is asked */

static void tell(uint64_t handle, struct layout *out) {
    atomic_fetch_add(&asked, 1);
    out->known = true;
    out->parameters = 1;
    out->offset[0] = 0;
    out->size[0] = bytes;
    snprintf(out->name, sizeof out->name, "f%llu", (unsigned long long)handle);
    if (unloads)
        functions_forget();
}

__attribute__((constructor)) static void listen(void) {
    function_describe = tell;
}

static struct function *look(uint64_t handle) {
    struct function *f = function_of(handle);
    CHECK(f && f->handle == handle && f->known);
    return f;
}

TEST(a_function_is_asked_about_once) {
    struct function *f = look(HANDLE);
    CHECK_EQ(f->parameters, 1);
    CHECK_EQ(f->runs, 1);
    CHECK_EQ(f->run[0].words, 1);
    CHECK(look(HANDLE) == f);
    CHECK_EQ(asked, 1);
}

TEST(after_an_unload_it_is_asked_about_again) {
    struct function *f = look(HANDLE);
    functions_forget();
    CHECK(look(HANDLE) == f);
    CHECK_EQ(asked, 2);
    CHECK(look(HANDLE) == f);
    CHECK_EQ(asked, 2);
}

TEST(a_handle_that_came_back_as_another_is_another_function) {
    struct function *f = look(HANDLE);
    functions_forget();
    bytes = 24;
    struct function *other = look(HANDLE);
    CHECK(other != f && other->id != f->id);
    CHECK_EQ(f->run[0].words, 1);
    CHECK_EQ(other->run[0].words, 3);
    CHECK(function_at(f->id - 1) == f && function_at(other->id - 1) == other && !function_at(other->id));
}

TEST(an_unload_while_the_driver_is_asked_makes_the_answer_old) {
    unloads = true;
    look(HANDLE);
    unloads = false;
    bytes = 16;
    CHECK_EQ(look(HANDLE)->run[0].words, 2);
    CHECK_EQ(asked, 2);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they need address space themselves */

/* Functions are told until there is no memory for another. */
static void use_up(void) {
    enum { NO_MORE = 1 << 20 };
    struct rlimit none;
    getrlimit(RLIMIT_AS, &none);
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (uint64_t h = HANDLE + 1; function_of(h); h++)
        CHECK(h < NO_MORE);
}

TEST(without_memory_a_handle_that_came_back_is_no_function) {
    struct rlimit before;
    struct function *f = look(HANDLE);
    getrlimit(RLIMIT_AS, &before);
    use_up();
    functions_forget();
    CHECK(look(HANDLE) == f);
    functions_forget();
    bytes = 24;
    CHECK(!function_of(HANDLE));
    CHECK(!function_of(HANDLE));
    CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
    CHECK_EQ(look(HANDLE)->run[0].words, 3);
}

#endif

enum { THREADS = 4, HANDLES = 3000 };

static void *look_at_all(void *unused) {
    for (uint64_t h = 1; h <= HANDLES; h++)
        CHECK_EQ(look(h)->run[0].words, 1);
    return unused;
}

TEST(many_threads_meet_the_same_functions) {
    pthread_t threads[THREADS];
    bool seen[HANDLES + 1] = {false};
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, look_at_all, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(asked, HANDLES);
    for (uint32_t i = 0; i < HANDLES; i++) {
        const struct function *f = function_at(i);
        CHECK(f && f->id == i + 1 && !seen[f->handle]);
        seen[f->handle] = true;
    }
    CHECK(!function_at(HANDLES));
}
