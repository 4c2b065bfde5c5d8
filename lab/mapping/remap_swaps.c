/* How much can be moved by mapping memory anew: swaps as backend vmm makes them, copied between addresses that stay,
 * mapped anew at those of the program.
 *
 * Prints one line of JSON a measurement. Takes 1.2 GiB of the device and 2.2 GiB of pinned host memory by cuMemCreate;
 * no managed memory, no kernels. */
#include "remap.h"

#include <pthread.h>
#include <stdbool.h>

#define OUT_BYTES (8 * MIB)
#define SWAP      (1024 * MIB) /* that lies on the device in a swap; as much lies on the host */

enum { THREADS_MAX = 8 };

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

int main(void) {
    static const size_t each[] = {2, 4, 8, 16, 32, 64};
    open_device();
    for (int host = 1; host >= 0; host--)
        for (size_t i = 0; i < sizeof each / sizeof *each; i++)
            for (int threads = 1; threads <= 3; threads++)
                for (size_t run = each[i] < 8 ? 8 : each[i]; run <= 32 || run == each[i]; run *= 2)
                    if (host || threads == 2)
                        measure_swap(each[i] * MIB, run * MIB, threads, host);
    return 0;
}
