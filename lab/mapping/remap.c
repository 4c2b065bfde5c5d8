/* What mapping memory anew takes: for runs of so many handles of 2 MiB, and for one handle of the same size; on the
 * device and on the host; from several threads at once; beside copies both ways.
 *
 * Prints one line of JSON a measurement. Takes 0.2 GiB of the device and as much pinned host memory by cuMemCreate; no
 * managed memory, no kernels. */
#include "remap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define PAGE   (2 * MIB)
#define BESIDE (64 * MIB)

enum { TIMES = 25, THREADS_MAX = 8, HANDLES_MAX = 64, REPEAT_NS = 300000000 };

static const char *const place_names[PLACES] = {"device", "host"};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* --- calls --- */

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };

/* One run: handles of `each` bytes side by side, created, mapped, given access in one call, unmapped in one. */
static void run_once(int place, CUdeviceptr at, size_t each, size_t n, double us[STEPS]) {
    CUmemGenericAllocationHandle handle[HANDLES_MAX];
    double t[STEPS + 1];
    t[CREATE] = now_us();
    for (size_t i = 0; i < n; i++)
        handle[i] = create(place, each);
    t[MAP] = now_us();
    for (size_t i = 0; i < n; i++)
        MUST(cuMemMap(at + i * each, each, 0, handle[i], 0));
    t[ACCESS] = now_us();
    allow(at, n * each);
    t[UNMAP] = now_us();
    MUST(cuMemUnmap(at, n * each));
    t[RELEASE] = now_us();
    for (size_t i = 0; i < n; i++)
        MUST(cuMemRelease(handle[i]));
    t[STEPS] = now_us();
    for (int s = 0; s < STEPS; s++)
        us[s] = t[s + 1] - t[s];
}

static void measure_run(const char *beside, int place, size_t each, size_t n) {
    double us[STEPS], took[STEPS][TIMES];
    CUdeviceptr at = reserve(n * each);
    for (int i = 0; i < TIMES; i++) {
        run_once(place, at, each, n, us);
        for (int s = 0; s < STEPS; s++)
            took[s][i] = us[s];
    }
    MUST(cuMemAddressFree(at, n * each));
    printf("{\"kind\": \"calls\", \"beside\": \"%s\", \"place\": \"%s\", \"handles\": %zu, \"mib_each\": %zu, "
           "\"create_us\": %.1f, \"map_us\": %.1f, \"access_us\": %.1f, \"unmap_us\": %.1f, \"release_us\": %.1f}\n",
           beside, place_names[place], n, each / MIB, median(took[CREATE], TIMES), median(took[MAP], TIMES),
           median(took[ACCESS], TIMES), median(took[UNMAP], TIMES), median(took[RELEASE], TIMES));
    fflush(stdout);
}

static void measure_runs(const char *beside) {
    static const size_t pages[] = {1, 2, 4, 8, 16, 32};
    for (int place = 0; place < PLACES; place++)
        for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
            measure_run(beside, place, PAGE, pages[i]);
            if (pages[i] > 1)
                measure_run(beside, place, pages[i] * PAGE, 1);
        }
}

/* --- from several threads: do the calls wait for each other? --- */

struct remapper {
    pthread_t thread;
    int place;
    size_t each;
    bool in_context;
    uint64_t handles; /* filled in */
    CUresult status;
};

static bool stop;

/* Maps one handle anew until it is told to stop; NULL context: none is current. */
static void *remap(void *data) {
    struct remapper *r = data;
    MUST(cuCtxSetCurrent(r->in_context ? context : NULL));
    CUdeviceptr at = reserve(r->each);
    CUmemGenericAllocationHandle handle = create(r->place, r->each);
    while (!r->status && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if ((r->status = cuMemMap(at, r->each, 0, handle, 0)) ||
            (r->status = cuMemSetAccess(at, r->each, &access_of, 1)))
            break;
        r->status = cuMemUnmap(at, r->each);
        r->handles += !r->status;
    }
    cuMemRelease(handle);
    cuMemAddressFree(at, r->each);
    return NULL;
}

static void measure_threads(int place, size_t each, int n, bool in_context) {
    struct remapper r[THREADS_MAX];
    uint64_t handles = 0;
    CUresult status = CUDA_SUCCESS;
    stop = false;
    double start = now_us();
    for (int i = 0; i < n; i++) {
        r[i] = (struct remapper){.place = place, .each = each, .in_context = in_context};
        pthread_create(&r[i].thread, NULL, remap, &r[i]);
    }
    nanosleep(&(struct timespec){0, REPEAT_NS}, NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        pthread_join(r[i].thread, NULL);
        handles += r[i].handles;
        status = r[i].status ? r[i].status : status;
    }
    printf("{\"kind\": \"threads\", \"place\": \"%s\", \"mib_each\": %zu, \"threads\": %d, \"in_context\": %s, "
           "\"us_each\": %.1f, \"error\": %d}\n",
           place_names[place], each / MIB, n, in_context ? "true" : "false",
           (now_us() - start) / (double)(handles ? handles : 1), (int)status);
    fflush(stdout);
}

/* --- copies beside --- */

struct copier {
    pthread_t thread;
    CUdeviceptr to, from;
    size_t piece;
    double bytes, us; /* filled in */
};

static void *copy_on(void *data) {
    struct copier *c = data;
    MUST(cuCtxSetCurrent(context));
    CUstream stream = stream_new();
    double start = now_us();
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        MUST(cuMemcpyAsync(c->to, c->from, c->piece, stream));
        MUST(cuStreamSynchronize(stream));
        c->bytes += (double)c->piece;
    }
    c->us = now_us() - start;
    MUST(cuStreamDestroy(stream));
    return NULL;
}

enum { IN = 1, OUT = 2 };

/* piece: bytes of a copy, each waited for. */
static void measure_beside_copies(const char *beside, int ways, size_t piece) {
    struct copier c[2] = {{.to = plain(DEVICE, BESIDE), .from = plain(HOST, BESIDE), .piece = piece},
                          {.to = plain(HOST, BESIDE), .from = plain(DEVICE, BESIDE), .piece = piece}};
    double gb_s = 0;
    stop = false;
    for (int i = 0; i < 2; i++)
        if (ways & (i ? OUT : IN))
            pthread_create(&c[i].thread, NULL, copy_on, &c[i]);
    measure_runs(beside);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        if (ways & (i ? OUT : IN)) {
            pthread_join(c[i].thread, NULL);
            gb_s += c[i].bytes / c[i].us / 1e3;
        }
    printf("{\"kind\": \"copies\", \"beside\": \"calls\", \"copies\": \"%s\", \"gb_s\": %.1f}\n", beside, gb_s);
    for (int i = 0; i < 2; i++) {
        MUST(cuMemUnmap(c[i].to, BESIDE));
        MUST(cuMemUnmap(c[i].from, BESIDE));
    }
}

int main(void) {
    open_device();
    measure_runs("nothing");
    measure_beside_copies("copies in", IN, BESIDE);
    measure_beside_copies("copies out", OUT, BESIDE);
    measure_beside_copies("copies out of 8 MiB", OUT, 8 * MIB);
    measure_beside_copies("copies both ways", IN | OUT, BESIDE);
    measure_beside_copies("copies both ways of 8 MiB", IN | OUT, 8 * MIB);
    for (int place = 0; place < PLACES; place++)
        for (size_t mib = 2; mib <= 16; mib *= 8)
            for (int n = 1; n <= 4; n *= 2)
                measure_threads(place, mib * MIB, n, true);
    measure_threads(DEVICE, PAGE, 1, false);
    measure_threads(HOST, PAGE, 1, false);
    return 0;
}
