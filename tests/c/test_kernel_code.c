/* Kernels that are trusted by their code, from the image to the launch. */
#include "launch/kernel_code.h"

#include <pthread.h>

#include "launch/rules.h"
#include "test.h"

#include "code_cubin.h"

enum { HANDLE = 0x1000 };

static __thread struct code_source *source;
static __thread const char *name;
static uint32_t parameters = 4;
static uint16_t last_bytes = 4; /* of the last; the others have 8 */

static void describe(uint64_t handle, struct layout *out) {
    out->known = true;
    out->parameters = parameters;
    for (uint32_t i = 0; i < parameters; i++) {
        out->offset[i] = (uint16_t)(8 * i);
        out->size[i] = i + 1 < parameters ? 8 : last_bytes;
    }
    snprintf(out->name, sizeof out->name, "%s", name);
    out->code = source ? kernel_code_of(source, name) : NULL;
    (void)handle;
}

__attribute__((constructor)) static void begin(void) {
    function_describe = describe;
    kernel_code_begin(CODE_SM);
}

static struct code_source *open_bytes(const struct bytes *b, bool stays) {
    return code_source_open(b->at, CODE_UNSIZED, stays);
}

/* The function, once its code is read. */
static const struct function *read_function(void) {
    const struct function *f = function_of(HANDLE);
    CHECK(f->code);
    for (int i = 0; i < 20000 && !kernel_code_verdict(f->code); i++)
        usleep(1000);
    functions_review(f->code); /* the thread is about to do that */
    f = function_of(HANDLE);
    CHECK(!(f->flags & OP_UNREAD));
    return f;
}

static void load(const char *like) {
    if (source)
        code_source_close(source);
    struct bytes b = code_cubin(KERNELS, name, like);
    source = open_bytes(&b, false);
    CHECK(source);
    memset(b.at, 0, b.count); /* the program's, which may be done with it */
    free(b.at);
}

TEST(a_direct_kernel_is_trusted) {
    name = "scales";
    load("d_maybe_null");
    const struct function *f = read_function();
    CHECK(f->flags); /* as it has 24 bytes of parameters, not 28 */
    parameters = 3;
    last_bytes = 8;
    functions_forget();
    f = function_of(HANDLE);
    CHECK(!f->flags && !f->ruled && f->runs == 3 && f->read_run == 1 && f->run[0].parameter == 2);
}

/* y is written, the other two are only read. */
TEST(an_indexed_kernel_is_ruled_and_keeps_its_number) {
    name = "gathers";
    load("i_gather");
    const struct function *before = function_of(HANDLE), *f = read_function();
    CHECK_EQ(before->id, f->id);
    CHECK(function_at(f->id - 1) == f && !function_at(f->id));
    CHECK(f->flags && f->ruled);
    CHECK(f->runs == 3 && f->read_run == 1 && f->run[0].parameter == 2 && f->run[1].parameter == 0);
    CHECK(!f->sparse);
    functions_forget();
    CHECK(function_of(HANDLE) == f);
    code_source_close(source);
    source = NULL; /* as another handle */
    functions_forget();
    const struct function *other = function_of(HANDLE);
    CHECK(!other->ruled && other->id != f->id && other->read_run == other->runs);
}

TEST(a_kernel_that_follows_addresses_is_not_trusted) {
    name = "follows";
    parameters = 2;
    last_bytes = 8;
    load("f_table");
    const struct function *f = read_function();
    CHECK(f->code && f->flags && !f->ruled && f->read_run == f->runs);
    CHECK_EQ(kernel_code_verdict(f->code)->verdict, VERDICT_FOLLOWS);
}

TEST(the_same_image_again_is_the_same_code) {
    name = "k";
    load("i_gather");
    const struct kernel_code *k = kernel_code_of(source, "k");
    CHECK(kernel_code_of(source, "other") != k);
    load("i_gather");
    CHECK(kernel_code_of(source, "k") == k);
    load("d_axpy");
    CHECK(kernel_code_of(source, "k") != k);
}

static enum verdict verdict_of_bytes(const struct bytes *b, bool stays) {
    struct code_source *s = open_bytes(b, stays);
    if (!s)
        return VERDICT_UNKNOWN;
    const struct kernel_code *k = kernel_code_of(s, "k");
    for (int i = 0; i < 20000 && !kernel_code_verdict(k); i++)
        usleep(1000);
    code_source_close(s);
    return kernel_code_verdict(k)->verdict;
}

TEST(images_that_may_be_another_are_unknown) {
    struct bytes a = code_cubin(KERNELS, "k", "i_gather"), b = code_cubin(KERNELS, "k", "f_exchanged"),
                 fat = fat_begin();
    uint32_t sm = CODE_SM;
    CHECK_EQ(verdict_of_bytes(&a, false), VERDICT_INDEXED);
    CHECK_EQ(verdict_of_bytes(&a, true), VERDICT_INDEXED);
    for (int n = 0; n < 3; n++) {
        size_t at = fat.count;
        fat_add(&fat, ENTRY_CUBIN, n == 2 ? b.at : a.at, n == 2 ? b.count : a.count);
        memcpy(fat.at + at + 28, &sm, sizeof sm);
        CHECK_EQ(verdict_of_bytes(&fat, false), n == 2 ? VERDICT_FOLLOWS : VERDICT_INDEXED);
    }
    free(a.at);
    free(b.at);
    free(fat.at);
}

TEST(images_for_other_devices_are_unknown) {
    struct bytes a = code_cubin(KERNELS, "k", "i_gather");
    kernel_code_begin(CODE_SM + 10);
    CHECK_EQ(verdict_of_bytes(&a, true), VERDICT_UNKNOWN);
    CHECK_EQ(verdict_of_bytes(&(struct bytes){(uint8_t[64]){0}, 64}, false), VERDICT_UNKNOWN);
    free(a.at);
}

/* What was asked for while an image was there is answered, and what went before it was read is unknown. */
TEST(images_that_go_while_they_are_read) {
    struct bytes b = code_cubin(KERNELS, "k", "i_gather");
    for (int round = 0; round < 400; round++) {
        uint8_t *at = memcpy(malloc(b.count), b.at, b.count);
        bool stays = round % 2;
        struct code_source *s = code_source_open(at, b.count, stays);
        CHECK(s);
        char asked[8];
        snprintf(asked, sizeof asked, "k%d", round % 7);
        const struct kernel_code *odd = kernel_code_of(s, asked), *k = kernel_code_of(s, "k");
        if (round % 3 == 0)
            usleep(300);
        code_source_close(s);
        memset(at, 0, b.count);
        free(at);
        for (int i = 0; i < 20000 && !(kernel_code_verdict(k) && kernel_code_verdict(odd)); i++)
            usleep(100);
        enum verdict v = kernel_code_verdict(k)->verdict;
        CHECK(v == VERDICT_INDEXED || (stays && v == VERDICT_UNKNOWN));
        CHECK_EQ(kernel_code_verdict(odd)->verdict, VERDICT_UNKNOWN);
    }
    free(b.at);
}

enum { THREADS = 3, ROUNDS = 60, MOST_ROUNDS = 20000 };

/* Modules come and go, and each kernel is known in the end. */
static struct bytes shared_cubin;

static void *load_and_launch(void *of) {
    uint64_t handle = HANDLE + (uintptr_t)of;
    name = "k";
    for (int round = 0; round < ROUNDS; round++) {
        source = open_bytes(&shared_cubin, (round + (int)(uintptr_t)of) % 2);
        const struct function *f = function_of(handle);
        for (int i = 0; i < MOST_ROUNDS && !f->ruled; i++) {
            usleep(100);
            f = function_of(handle);
        }
        CHECK(f->ruled && !(f->flags & OP_UNREAD));
        code_source_close(source);
        functions_forget();
    }
    return NULL;
}

TEST(many_threads_meet_kernels_that_are_read) {
    pthread_t threads[THREADS];
    shared_cubin = code_cubin(KERNELS, "k", "i_gather");
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, load_and_launch, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* --- rules at a launch --- */

TEST(rules_hold_where_the_base_alone_is_an_address) {
    struct ledger *l = ledger_new();
    struct allocation a = {.start = 0x7f0000000000, .bytes = 0x10000}, b = {.start = 0x7f0000020000, .bytes = 0x10000};
    CHECK(ledger_add(l, &a) && ledger_add(l, &b));
    name = "gathers";
    load("i_gather");
    const struct function *f = read_function();
    CHECK(f->ruled);
    static const struct {
        addr_t base;
        bool holds;
    } cases[] = {{0x7f0000000000, true}, {0x7f000000ffff, true}, {0x7f0000010000, false}, {0, false}, {4096, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        addr_t words[] = {cases[i].base, b.start, b.start + 64, 1};
        void *each[] = {&words[0], &words[1], &words[2], &words[3]};
        CHECK_EQ(rules_hold(f, l, &(struct arguments){.parameters = each}), cases[i].holds);
        CHECK_EQ(rules_hold(f, l, &(struct arguments){.buffer = words, .bytes = sizeof words}), cases[i].holds);
        CHECK(!rules_hold(f, l, &(struct arguments){.buffer = words, .bytes = 16}));
        CHECK(!rules_hold(f, l, &(struct arguments){0}));
    }
}
