/* What mapping memory anew takes, and how much can be moved so: for runs of so many handles of 2 MiB, and for one
 * handle of the same size; on the device and on the host; from several threads at once; beside copies both ways. Then
 * swaps as backend vmm makes them: copied between addresses that stay, mapped anew at those of the program.
 *
 * Prints one line of JSON a measurement. Takes 1.2 GiB of the device and 2.2 GiB of pinned host memory by cuMemCreate;
 * no managed memory, no kernels. */
#include "remap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE      (2 * MIB)
#define OUT_BYTES (8 * MIB)
#define SWAP      (1024 * MIB) /* that lies on the device in a swap; as much lies on the host */
#define BESIDE    (64 * MIB)

enum { TIMES = 25, THREADS_MAX = 8, HANDLES_MAX = 64, REPEAT_NS = 300000000 };

static const char *const place_names[PLACES] = {"device", "host"};
static CUcontext context;

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

/* --- swaps --- */

/* A sweep over twice what lies on the device, again and again: what comes takes the place of what leaves. A chunk is a
 * run of handles that moves at once. */
struct swap {
    size_t each, handles, chunk; /* bytes of a handle, how many a chunk has, bytes of a chunk */
    size_t chunks, sets;         /* of the program; of handles on the device */
    bool map_host;
    CUdeviceptr program, alias[PLACES];
    CUmemGenericAllocationHandle *handle[PLACES];
    pthread_mutex_t lock, out_lock;
    pthread_cond_t changed;
    int *set; /* of a chunk; -1: it is on the host, -2: on its way */
    int *idle;
    size_t idle_count, in, out, steps; /* next to come, next to leave; of each so many */
};

static void map(const struct swap *s, size_t chunk, int place, size_t set) {
    CUdeviceptr at = s->program + chunk * s->chunk;
    for (size_t i = 0; i < s->handles; i++)
        MUST(cuMemMap(at + i * s->each, s->each, 0, s->handle[place][set * s->handles + i], 0));
    allow(at, s->chunk);
}

static void copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    MUST(cuMemcpyAsync(to, from, bytes, stream));
    MUST(cuStreamSynchronize(stream));
}

static void copy_in(const struct swap *s, size_t set, size_t chunk, CUstream stream) {
    copy(s->alias[DEVICE] + set * s->chunk, s->alias[HOST] + chunk * s->chunk, s->chunk, stream);
}

/* One piece at a time, as in backend vmm: access is given behind what is queued. */
static void copy_out(struct swap *s, size_t chunk, size_t set, CUstream stream) {
    for (size_t at = 0; at < s->chunk; at += OUT_BYTES) {
        size_t left = s->chunk - at;
        pthread_mutex_lock(&s->out_lock);
        copy(s->alias[HOST] + chunk * s->chunk + at, s->alias[DEVICE] + set * s->chunk + at,
             left < OUT_BYTES ? left : OUT_BYTES, stream);
        pthread_mutex_unlock(&s->out_lock);
    }
}

static void *evict(void *data) {
    struct swap *s = data;
    MUST(cuCtxSetCurrent(context));
    CUstream stream = stream_new();
    pthread_mutex_lock(&s->lock);
    while (s->out < s->steps) {
        size_t c = s->out++ % s->chunks;
        while (s->set[c] < 0)
            pthread_cond_wait(&s->changed, &s->lock);
        int set = s->set[c];
        s->set[c] = -2;
        pthread_mutex_unlock(&s->lock);
        copy_out(s, c, (size_t)set, stream);
        MUST(cuMemUnmap(s->program + c * s->chunk, s->chunk));
        pthread_mutex_lock(&s->lock);
        s->idle[s->idle_count++] = set;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (s->map_host)
            map(s, c, HOST, c);
        pthread_mutex_lock(&s->lock);
        s->set[c] = -1;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    MUST(cuStreamDestroy(stream));
    return NULL;
}

static void *fill(void *data) {
    struct swap *s = data;
    MUST(cuCtxSetCurrent(context));
    CUstream stream = stream_new();
    pthread_mutex_lock(&s->lock);
    while (s->in < s->steps) {
        size_t c = (s->sets + s->in++) % s->chunks;
        while (s->set[c] != -1 || s->idle_count == 0)
            pthread_cond_wait(&s->changed, &s->lock);
        int set = s->idle[--s->idle_count];
        pthread_mutex_unlock(&s->lock);
        copy_in(s, (size_t)set, c, stream);
        if (s->map_host)
            MUST(cuMemUnmap(s->program + c * s->chunk, s->chunk));
        map(s, c, DEVICE, (size_t)set);
        pthread_mutex_lock(&s->lock);
        s->set[c] = set;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    MUST(cuStreamDestroy(stream));
    return NULL;
}

static void swap_open(struct swap *s) {
    size_t sets[PLACES] = {s->sets, s->chunks};
    for (int place = 0; place < PLACES; place++) {
        size_t n = sets[place] * s->handles;
        s->alias[place] = reserve(n * s->each);
        s->handle[place] = calloc(n, sizeof *s->handle[place]);
        for (size_t i = 0; i < n; i++) {
            s->handle[place][i] = create(place, s->each);
            MUST(cuMemMap(s->alias[place] + i * s->each, s->each, 0, s->handle[place][i], 0));
        }
        allow(s->alias[place], n * s->each);
    }
    s->program = reserve(s->chunks * s->chunk);
    s->set = calloc(s->chunks, sizeof *s->set);
    s->idle = calloc(s->chunks, sizeof *s->idle);
    for (size_t c = 0; c < s->chunks; c++) {
        bool there = c < s->sets;
        s->set[c] = there ? (int)c : -1;
        if (there || s->map_host)
            map(s, c, there ? DEVICE : HOST, c);
        MUST(cuMemsetD32((there ? s->alias[DEVICE] : s->alias[HOST]) + c * s->chunk, (unsigned)c, s->chunk / 4));
    }
    MUST(cuCtxSynchronize());
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->out_lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

/* Words at the ends of its handles that are not what they were; through the program's addresses. */
static size_t swap_close(struct swap *s) {
    size_t sets[PLACES] = {s->sets, s->chunks}, wrong = 0;
    for (size_t c = 0; c < s->chunks; c++) {
        bool mapped = s->set[c] >= 0 || s->map_host;
        for (size_t i = 1; mapped && i <= s->handles; i++) {
            unsigned word;
            MUST(cuMemcpyDtoH(&word, s->program + c * s->chunk + i * s->each - 4, 4));
            wrong += word != c;
        }
        if (mapped)
            MUST(cuMemUnmap(s->program + c * s->chunk, s->chunk));
    }
    for (int place = 0; place < PLACES; place++) {
        size_t n = sets[place] * s->handles;
        MUST(cuMemUnmap(s->alias[place], n * s->each));
        for (size_t i = 0; i < n; i++)
            MUST(cuMemRelease(s->handle[place][i]));
        MUST(cuMemAddressFree(s->alias[place], n * s->each));
        free(s->handle[place]);
    }
    MUST(cuMemAddressFree(s->program, s->chunks * s->chunk));
    free(s->set);
    free(s->idle);
    return wrong;
}

static void measure_swap(size_t each, size_t chunk, int threads, bool map_host) {
    struct swap s = {.each = each, .handles = chunk / each, .chunk = chunk, .map_host = map_host};
    pthread_t worker[2 * THREADS_MAX];
    s.sets = SWAP / chunk;
    s.chunks = 2 * s.sets;
    s.steps = 3 * s.chunks;
    swap_open(&s);
    double start = now_us();
    for (int i = 0; i < 2 * threads; i++)
        pthread_create(&worker[i], NULL, i % 2 ? evict : fill, &s);
    for (int i = 0; i < 2 * threads; i++)
        pthread_join(worker[i], NULL);
    double us = now_us() - start;
    size_t wrong = swap_close(&s);
    printf("{\"kind\": \"swap\", \"mib_each\": %zu, \"mib_run\": %zu, \"threads_each_way\": %d, \"host_mapped\": %s, "
           "\"gb_s\": %.1f, \"wrong_words\": %zu}\n",
           each / MIB, chunk / MIB, threads, map_host ? "true" : "false", 2.0 * (double)(s.steps * chunk) / us / 1e3,
           wrong);
    fflush(stdout);
    if (wrong)
        exit(1);
}

static void measure_swaps(void) {
    static const size_t each[] = {2, 4, 8, 16, 32, 64};
    for (int host = 1; host >= 0; host--)
        for (size_t i = 0; i < sizeof each / sizeof *each; i++)
            for (int threads = 1; threads <= 3; threads++)
                for (size_t run = each[i] < 8 ? 8 : each[i]; run <= 32 || run == each[i]; run *= 2)
                    if (host || threads == 2)
                        measure_swap(each[i] * MIB, run * MIB, threads, host);
}

static void measure_calls(void) {
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
}

int main(int argc, char **argv) {
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    if (argc > 1 && strcmp(argv[1], "swaps") == 0)
        measure_swaps();
    else
        measure_calls();
    return 0;
}
