/* A random program: the same calls in the same order, and the same content at the end, on every run of a seed.
 *
 *   random_program SEED [COUNT [EVENT [NAME...]]]    EVENT: one of random_event.c's, or none
 *
 * Runs the programs SEED, SEED + 1, ... one after the other and prints what became of each: every block's hash, a hash
 * of all that the host has read, how often each function was called, the bytes it had at most. The EVENT comes in the
 * first one, at a moment made of the seed. On stderr it prints how often anybody but the program called the driver by
 * the NAMEs, and how many such calls were made to fail. An error that no driver would give ends it with status 1.
 *
 * Up to three actors repeat sequences of steps, with variations, in phases; between phases they meet. Works that share
 * memory are kept apart by streams, events and waiting, so that there are no races. */
#include "random_program.h"

#include "counters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

nvmlReturn_t nvmlInit_v2(void);

enum { COMMON_BYTES = 3 * MIB, PHASES = 3, ITERATIONS = 6, EVALUATION = 4, SWEEPING = 2 };

static struct {
    pthread_barrier_t meet;
    CUdeviceptr common;
} shared;

uint64_t random_below(struct actor *a, uint64_t n) {
    uint64_t z = a->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) % n;
}

bool one_in(struct actor *a, uint64_t n) {
    return random_below(a, n) == 0;
}

void see(struct actor *a, uint64_t value) {
    a->seen = hash_bytes(&value, sizeof value, a->seen);
}

/* --- life of an actor --- */

static void load_kernels(struct actor *a) {
    size_t bytes;
    CUkernel found;
    CU(cuModuleLoadData, &a->module, &random_image);
    CU(cuLibraryLoadData, &a->library, &random_image, NULL, NULL, 0, NULL, NULL, 0);
    for (int i = 0; i < KERNELS; i++) {
        if (i == HIDDEN || one_in(a, 2)) {
            CU(cuModuleGetFunction, &a->kernel[i], a->module, kernel_names[i]);
        } else {
            CU(cuLibraryGetKernel, &found, a->library, kernel_names[i]);
            a->kernel[i] = (CUfunction)found;
        }
    }
    CU(cuModuleGetGlobal_v2, &a->hidden, &bytes, a->module, "hidden");
}

static void make_pool(struct actor *a) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    uint64_t keeps = UINT64_MAX;
    CU(cuMemPoolCreate, &a->pool, &props);
    if (a->random & 1) /* nothing is drawn: programs stay what they were */
        CU(cuMemPoolSetAttribute, a->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keeps);
}

static enum step_kind some_kind(struct actor *a) {
    if (!one_in(a, 3))
        return (enum step_kind)random_below(a, STEP_WORKS);
    return (enum step_kind)(STEP_WORKS + random_below(a, STEP_KINDS - STEP_WORKS));
}

static void begin(struct actor *a) {
    CU(cuCtxSetCurrent, a->context);
    streams_make(a);
    load_kernels(a);
    make_pool(a);
    array_make(a);
    if (a->number == 0)
        CU(cuMemAlloc_v2, &shared.common, COMMON_BYTES);
    pthread_barrier_wait(&shared.meet);
    a->common = (struct block){.kind = PLAIN, .start = shared.common, .bytes = COMMON_BYTES};
    blocks_make(a);
    for (int i = 0; i < POINTERS; i++)
        a->pointed[i] = (int)random_below(a, (uint64_t)a->blocks);
    a->graphs = 1 + (int)random_below(a, GRAPHS);
    for (int i = 0; i < a->graphs; i++)
        graph_draw(a, &a->graph[i]);
    a->count = STEPS / 2 + (int)random_below(a, STEPS / 2 + 1);
    for (int i = 0; i < a->count; i++)
        step_draw(a, &a->steps[i], some_kind(a));
}

static void end(struct actor *a) {
    host_wait_all(a);
    for (int i = 0; i < a->blocks; i++)
        block_print(a, &a->block[i], "block", i);
    block_print(a, &a->word, "word", 0);
    if (a->number == 0)
        block_print(a, &a->common, "common", 0);
    fprintf(a->out, "seen %d %016llx\n", a->number, (unsigned long long)a->seen);
    for (int i = 0; i < a->graphs; i++)
        graph_free(&a->graph[i]);
    blocks_free(a);
    if (a->number == 0)
        CU(cuMemFree_v2, shared.common);
    host_wait_all(a);
    CU(cuMemPoolDestroy, a->pool);
    array_free(a);
    CU(cuModuleUnload, a->module);
    CU(cuLibraryUnload, a->library);
    streams_unmake(a);
}

/* --- its way --- */

static void iterate(struct actor *a, int steps) {
    for (int i = 0; i < steps; i++) {
        struct step other;
        event_step(a);
        if (one_in(a, 32))
            continue;
        step_run(a, &a->steps[i]);
        if (one_in(a, 24)) {
            step_draw(a, &other, some_kind(a));
            step_run(a, &other);
        }
    }
}

/* One actor after the other changes what all read. */
static void meet(struct actor *a, int phase) {
    struct step s = {.kind = STEP_OVERWRITE,
                     .stream = FREE,
                     .block = {OPERAND_COMMON},
                     .part = 256,
                     .place = 1 + (uint32_t)phase,
                     .key = 77u * (uint32_t)phase};
    host_wait_all(a);
    pthread_barrier_wait(&shared.meet);
    if (phase % a->actors == a->number) {
        if (phase == 0)
            block_fill(a, &a->common, FREE, 5);
        work_do(a, &s);
        host_wait_all(a);
    }
    pthread_barrier_wait(&shared.meet);
}

/* What few steps are is done once by all. */
static void seldom(struct actor *a) {
    static const enum step_kind kinds[] = {STEP_ARRAY, STEP_ELSEWHERE, STEP_ELSEWHERE, STEP_QUESTION};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct step s;
        step_draw(a, &s, kinds[i]);
        step_run(a, &s);
    }
}

static void *act(void *actor) {
    struct actor *a = actor;
    a->shape = 16;
    event_begin(a);
    a->gates_most = a->actors == 1 && one_in(a, 5) ? 2 : 0; /* alone: a closed one stops others' frees */
    begin(a);
    int phases = 1 + (int)random_below(a, PHASES);
    for (int phase = 0; phase < PHASES; phase++) { /* all meet equally often */
        meet(a, phase);
        int iterations = phase < phases ? 2 + (int)random_below(a, ITERATIONS) : 0;
        for (int i = 0; i < iterations; i++) {
            if (one_in(a, 5))
                a->shape = 4 + (uint32_t)random_below(a, 13);
            iterate(a, i % EVALUATION == EVALUATION - 1 ? a->count / 2 : a->count);
        }
        if (phase < phases && one_in(a, SWEEPING))
            step_sweep(a);
        for (int i = 0; i < a->count / 2; i++)
            step_draw(a, &a->steps[random_below(a, (uint64_t)a->count)], some_kind(a));
    }
    seldom(a);
    host_wait_all(a);
    event_await(a);
    pthread_barrier_wait(&shared.meet);
    end(a);
    return NULL;
}

static void run(uint64_t seed) {
    struct actor *actors = calloc(ACTORS, sizeof *actors), draw = {.random = seed * 0x2545f4914f6cdd1dull};
    CUcontext context, other;
    pthread_t threads[ACTORS];
    char *text[ACTORS];
    size_t length[ACTORS];
    uint64_t peak = COMMON_BYTES;
    if (!actors)
        exit(2);
    int count = one_in(&draw, 2) ? 1 : 1 + (int)random_below(&draw, ACTORS);
    uint64_t target = (20 + random_below(&draw, one_in(&draw, 8) ? 100 : 44)) * MIB;
    printf("seed %llu actors %d\n", (unsigned long long)seed, count);
    fflush(stdout);
    pthread_barrier_init(&shared.meet, NULL, (unsigned)count);
    CU(cuCtxCreate_v4, &other, NULL, 0, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    for (int i = 0; i < count; i++) {
        actors[i].number = i;
        actors[i].actors = count;
        actors[i].context = context;
        actors[i].other = other;
        actors[i].target = target / (uint64_t)count;
        actors[i].random = seed * 1000003 + (uint64_t)i * 7919;
        actors[i].out = open_memstream(&text[i], &length[i]);
        pthread_create(&threads[i], NULL, act, &actors[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        fclose(actors[i].out);
        fputs(text[i], stdout);
        free(text[i]);
        peak += actors[i].peak;
    }
    CU(cuDevicePrimaryCtxRelease_v2, 0);
    CU(cuCtxDestroy_v2, other);
    driver_print_counts(stdout);
    printf("peak %llu\nend %llu\n", (unsigned long long)peak, (unsigned long long)seed);
    fflush(stdout);
    pthread_barrier_destroy(&shared.meet);
    free(actors);
}

static char **asked; /* names, up to NULL */

void program_ends(void) {
    asked = NULL;
}

static void tell(void) {
    if (!asked)
        return;
    for (char **name = asked; *name; name++)
        fprintf(stderr, "driver %s %llu\n", *name, (unsigned long long)(emu_calls(*name) - emu_calls_spared(*name)));
    fprintf(stderr, "failed %llu\n", (unsigned long long)emu_failed());
    uint64_t (*counter)(const char *) = find_counter();
    uint64_t numbers[] = {emu_device_peak(0), emu_pages_peak(0), emu_touched_peak(0),
                          counter ? counter("largest_bytes") : 0, counter ? counter("gated_bytes") : 0};
    fputs("resident", stderr);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(stderr, " %llu", (unsigned long long)numbers[i]);
    fputs("\n", stderr);
}

int main(int argc, char **argv) {
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    asked = argv + (argc > 4 ? 4 : argc);
    if (argc > 3 && strcmp(argv[3], "none") != 0)
        event_choose(argv[3], seed);
    atexit(tell); /* behind what a library does at the end, as it comes before cuInit */
    driver_find(seed % 2);
    away_begin(seed);
    driver_check(POLL(cuInit, 0), "cuInit", __FILE__, __LINE__);
    if (nvmlInit_v2())
        return 2;
    for (uint64_t i = 0; i < count; i++) {
        run(seed + i);
        if (i + 1 == count)
            break;
        emu_fail(NULL); /* the next meets the same failures */
        emu_fail(getenv("EMU_FAIL"));
    }
    away_end();
    return 0;
}
