/* What the driver's calls on managed memory take, alone and beside each other, with the device idle and busy; and what
 * launches take beside them, when the calls are made in the launches' context and in another one; and how fast kernels
 * use what was advised to stay on the host.
 *
 * Prints one line of JSON a measurement. Takes 4 GiB of managed memory, which must be free on the device. */
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <vector>

#include "managed_job.h"
#include "must.h"

static const size_t PART = 1024 * MIB, PIECE = 16 * MIB;
enum { PARTS = 4, LEAST_STACK = 16 };

static CUcontext context, others[8]; /* others: made for the last measurements */
static CUdeviceptr part[PARTS];

__global__ void fill(int4 *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        p[i] = make_int4(1, 2, 3, 4);
}

/* Reads and writes memory for so many clocks. */
__global__ void use(int4 *p, size_t n, long long clocks) {
    long long start = clock64();
    while (clock64() - start < clocks)
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n && clock64() - start < clocks;
             i += gridDim.x * (size_t)blockDim.x)
            p[i].x++;
}

__global__ void nothing(void) {
}

/* --- calls --- */

static job whole(enum call call, int which, size_t bytes = PART) {
    return job{call, part[which], bytes, PIECE, context, NULL, 0, 0, 0};
}

static void quietly(enum call call, int which) {
    std::vector<job> one{whole(call, which)};
    run(one);
}

static void measure(const char *what, bool busy, std::vector<job> jobs) {
    run(jobs);
    printf("{\"kind\": \"calls\", \"what\": \"%s\", \"device_busy\": %s, \"calls\": [", what, busy ? "true" : "false");
    for (size_t i = 0; i < jobs.size(); i++)
        printf("%s{\"call\": \"%s\", \"gb_s\": %.1f, \"us_a_page\": %.1f}", i ? ", " : "", names[jobs[i].call],
               jobs[i].bytes / jobs[i].us / 1e3, jobs[i].us / (jobs[i].bytes / (2 * MIB)));
    printf("]}\n");
    fflush(stdout);
}

static void measure_calls(bool busy) {
    quietly(IN, 0), quietly(IN, 1);
    measure("out", busy, {whole(OUT, 0)});
    measure("in", busy, {whole(IN, 0)});
    quietly(OUT, 0);
    measure("in and out", busy, {whole(IN, 0), whole(OUT, 1)});
    quietly(OUT, 0), quietly(IN, 1);
    measure(
        "in from two threads, and out", busy,
        {whole(IN, 0, PART / 2), job{IN, part[0] + PART / 2, PART / 2, PIECE, context, NULL, 0, 0, 0}, whole(OUT, 1)});
    quietly(IN, 1);
    measure("in, of what is there", busy, {whole(IN, 0)});
    measure("discard", busy, {whole(DISCARD, 0)});
    measure("in, of what was discarded", busy, {whole(IN, 0)});
    measure("discard and in", busy, {whole(DISCARD_AND_IN, 0)});
    quietly(OUT, 1), quietly(DISCARD, 0);
    measure("in, beside it in of what was discarded", busy, {whole(IN, 1), whole(IN, 0)});
    measure("out, beside it discard", busy, {whole(OUT, 1), whole(DISCARD, 0)});
    quietly(IN, 0), quietly(OUT, 0);
    measure("advise, on the host", busy, {whole(ADVISE, 0)});
    measure("in, advised", busy, {whole(IN, 0)});
    measure("out, advised", busy, {whole(OUT, 0)});
    measure("in again, advised: never left", busy, {whole(IN, 0)});
    measure("take advice back", busy, {whole(UNADVISE, 0)});
    measure("out after it", busy, {whole(OUT, 0)});
    measure("in again: it had left", busy, {whole(IN, 0)});
    measure("advise, on the device", busy, {whole(ADVISE, 0)});
    quietly(UNADVISE, 0), quietly(IN, 0);
}

/* --- memory that kernels use on the host --- */

__global__ void read(const int4 *p, size_t n, int *sum) {
    int found = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        found ^= p[i].x ^ p[i].y ^ p[i].z ^ p[i].w;
    if (found == 123456789)
        *sum = found;
}

__global__ void update(int4 *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        p[i].x++;
}

/* GB/s of a kernel over the first part. */
static double kernel_rate(bool writes) {
    double start = now_us();
    if (writes)
        update<<<1056, 256>>>((int4 *)part[0], PART / sizeof(int4));
    else
        read<<<1056, 256>>>((int4 *)part[0], PART / sizeof(int4), (int *)part[1]);
    MUST(cuCtxSynchronize());
    return PART / (now_us() - start) / 1e3;
}

/* What a kernel takes over memory that was discarded and not brought back: it faults. */
static void measure_faults(void) {
    quietly(IN, 0);
    std::vector<job> little{whole(DISCARD, 0, 64 * MIB)};
    run(little);
    double start = now_us();
    fill<<<264, 256>>>((int4 *)part[0], 64 * MIB / sizeof(int4));
    MUST(cuCtxSynchronize());
    printf("{\"kind\": \"faults\", \"what\": \"a kernel writes what was discarded\", \"us_a_page\": %.0f}\n",
           (now_us() - start) / 32);
    fflush(stdout);
}

/* A kernel that follows the calls at once: where their page work is done when they return, it only waits for bytes. */
static void measure_early(const char *what, int count) {
    quietly(OUT, 0);
    turns streams = turns_new(count);
    double start = now_us();
    for (size_t at = 0; at < PART; at += PIECE)
        issue(IN, part[0] + at, PIECE, turn(streams));
    double called = now_us() - start;
    read<<<1056, 256>>>((int4 *)part[0], PART / sizeof(int4), (int *)part[1]);
    MUST(cuCtxSynchronize());
    printf("{\"kind\": \"early\", \"what\": \"a kernel reads what comes, %s\", \"calls_us\": %.0f, \"us\": %.0f}\n", what,
           called, now_us() - start);
    fflush(stdout);
    turns_end(streams);
}

/* Where the second reading is far faster than the first, the first has brought the pages. */
static void measure_kernels(const char *what) {
    double first = kernel_rate(false), again = kernel_rate(false), updated = kernel_rate(true);
    printf("{\"kind\": \"in place\", \"what\": \"kernels, %s\", \"read_gb_s\": %.1f, \"read_again_gb_s\": %.1f, "
           "\"update_gb_s\": %.1f}\n",
           what, first, again, updated);
    fflush(stdout);
}

static job in_pieces(enum call call, size_t piece) {
    job j = whole(call, 0);
    j.piece = piece;
    return j;
}

static void measure_pieces(const char *when, size_t piece, std::vector<enum call> calls) {
    for (enum call call : calls) {
        char what[128];
        snprintf(what, sizeof what, "%s, %s, %zu MiB a call", names[call], when, piece / MIB);
        measure(what, false, {in_pieces(call, piece)});
    }
}

/* Both pieces of advice after the page has left, before it leaves, and each alone; taken back, and the page's return.
 */
static void measure_in_place(size_t piece) {
    quietly(IN, 0), quietly(OUT, 0);
    measure_pieces("on the host", piece, {PREFER_HOST, ACCESS});
    measure_kernels("on the host, both");
    measure_pieces("on the host", piece, {NO_ACCESS, PREFER_NOTHING, IN});
    measure_kernels("back on the device");
    measure_pieces("on the device", piece, {PREFER_HOST, ACCESS, OUT});
    measure_kernels("on the host, both, advised on the device");
    measure_pieces("still advised", piece, {IN});
    measure_kernels("on the device, still advised");
    quietly(NO_ACCESS, 0), quietly(PREFER_NOTHING, 0), quietly(IN, 0), quietly(OUT, 0);
    measure_pieces("alone", piece, {PREFER_HOST});
    measure_kernels("on the host, preferred only");
    quietly(PREFER_NOTHING, 0), quietly(IN, 0), quietly(OUT, 0);
    measure_pieces("alone", piece, {ACCESS});
    measure_kernels("on the host, accessed only");
    quietly(NO_ACCESS, 0);
    quietly(IN, 0), quietly(ADVISE, 0), quietly(OUT, 0), quietly(UNADVISE, 0);
    measure_pieces("dropped", piece, {PREFER_HOST, ACCESS});
    measure_kernels("on the host, once mostly read");
    quietly(NO_ACCESS, 0), quietly(PREFER_NOTHING, 0), quietly(IN, 0);
}

/* --- contexts of the calls --- */

/* So many threads' calls each over a share of one part. own: each in a context of its own, else all in the first. */
static void add(std::vector<job> &jobs, enum call call, int which, int threads, bool own) {
    for (int i = 0; i < threads; i++) {
        size_t share = PART / threads / PIECE * PIECE;
        jobs.push_back(job{call, part[which] + i * share, share, PIECE, others[own ? jobs.size() : 0], NULL, 0, 0, 0});
    }
}

static void measure_threads(const char *of, int in, int out, bool own, int streams = 1) {
    std::vector<job> jobs;
    add(jobs, IN, 0, in, own);
    for (job &j : jobs)
        j.streams = streams;
    add(jobs, OUT, 1, out, own);
    char what[128];
    snprintf(what, sizeof what, "%d in%s and %d out, %s", in, of, out, own ? "a context each" : "in one context");
    measure(what, true, jobs);
}

static void measure_contexts(void) {
    static const int counts[][2] = {{1, 0}, {2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4},
                                    {1, 1}, {2, 1}, {2, 2}, {4, 2}, {3, 3}, {2, 4}};
    for (const int(&n)[2] : counts)
        for (int own = 0; own < 2; own++)
            if (own || n[0] + n[1] > 1) {
                quietly(OUT, 0), quietly(IN, 1);
                measure_threads("", n[0], n[1], own);
            }
    for (int out : {1, 3, 5, 7}) { /* as the movers of backend `um` do */
        quietly(OUT, 0), quietly(IN, 1);
        measure_threads(", in four streams,", 1, out, true, STREAMS);
    }
    for (int threads : {1, 3, 7}) { /* whether the driver lets them wait for each other */
        quietly(IN, 0);
        std::vector<job> jobs;
        add(jobs, DISCARD, 0, threads, true);
        char what[128];
        snprintf(what, sizeof what, "%d discard, a context each", threads);
        measure(what, true, jobs);
    }
    for (int own = 0; own < 2; own++)
        for (int out = 1; out <= 2; out++) { /* how long the shortest calls take beside others */
            quietly(IN, 0), quietly(DISCARD, 0), quietly(IN, 1);
            measure_threads(" of what was discarded", 1, out, own);
        }
}

/* --- launches beside calls --- */

static double at(std::vector<double> &sorted, double share) {
    return sorted[std::min(sorted.size() - 1, (size_t)(share * sorted.size()))];
}

static void measure_launches(const char *what, std::vector<job> jobs) {
    enum { BATCH = 50 };
    bool stop = false;
    std::vector<double> took;
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (job &j : jobs) {
        j.stop = &stop;
        pthread_create(&j.thread, NULL, work, &j);
    }
    for (double start = now_us(); now_us() - start < 5e5; MUST(cuStreamSynchronize(stream)))
        for (int i = 0; i < BATCH; i++) {
            double before = now_us();
            nothing<<<1, 32, 0, (cudaStream_t)stream>>>();
            took.push_back(now_us() - before);
        }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    double moved = 0, longest = 1, sum = 0;
    for (job &j : jobs) {
        pthread_join(j.thread, NULL);
        moved += j.moved;
        longest = std::max(longest, j.us);
    }
    std::sort(took.begin(), took.end());
    for (double t : took)
        sum += t;
    printf("{\"kind\": \"launches\", \"what\": \"%s\", \"gb_s\": %.1f, \"mean_us\": %.1f, \"median_us\": %.1f, "
           "\"p99_us\": %.1f, \"worst_us\": %.1f}\n",
           what, moved / longest / 1e3, sum / took.size(), at(took, 0.5), at(took, 0.99), took.back());
    fflush(stdout);
    MUST(cuStreamDestroy(stream));
}

static std::vector<job> both_ways(CUcontext where) {
    std::vector<job> jobs{whole(IN, 0, PART / 2), job{IN, part[0] + PART / 2, PART / 2, PIECE, context, NULL, 0, 0, 0},
                          whole(OUT, 1)};
    for (job &j : jobs)
        j.context = where;
    return jobs;
}

int main() {
    CUdevice device;
    size_t before, after, total;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemGetInfo(&before, &total));
    if (before < 2 * PARTS * PART) {
        fprintf(stderr, "less than %zu MiB of the device are free: managed memory must not fill it\n",
                2 * PARTS * PART / MIB);
        return 1;
    }
    for (CUdeviceptr &p : part) {
        MUST(cuMemAllocManaged(&p, PART, CU_MEM_ATTACH_GLOBAL));
        fill<<<264, 256>>>((int4 *)p, PART / sizeof(int4));
    }
    MUST(cuCtxSynchronize());
    measure_calls(false);
    measure_faults();
    measure_early("each call waited for", 1);
    measure_early("in four streams", STREAMS);
    measure_in_place(2 * MIB);
    measure_in_place(64 * MIB);
    use<<<264, 1024>>>((int4 *)part[PARTS - 1], PART / sizeof(int4), 10LL * 1000 * 1000 * 1000);
    measure_calls(true);
    MUST(cuCtxSynchronize());
    MUST(cuMemGetInfo(&before, &total));
    for (CUcontext &other : others)
        MUST(cuCtxCreate(&other, NULL, CU_CTX_SCHED_BLOCKING_SYNC, device));
    MUST(cuMemGetInfo(&after, &total));
    MUST(cuCtxSetCurrent(context));
    printf("{\"kind\": \"context\", \"what\": \"another context takes\", \"mib\": %zu}\n",
           (before - after) / MIB / (sizeof others / sizeof *others));
    size_t limited;
    for (CUcontext other : others) {
        MUST(cuCtxSetCurrent(other));
        MUST(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, LEAST_STACK));
    }
    MUST(cuMemGetInfo(&limited, &total));
    MUST(cuCtxSetCurrent(context));
    printf("{\"kind\": \"context\", \"what\": \"the same, with the least stack\", \"mib\": %zu}\n",
           (before - limited) / MIB / (sizeof others / sizeof *others));
    use<<<264, 1024>>>((int4 *)part[PARTS - 1], PART / sizeof(int4), 10LL * 1000 * 1000 * 1000);
    measure_contexts();
    MUST(cuCtxSynchronize());
    quietly(OUT, 0), quietly(IN, 1);
    measure_launches("nothing beside them", {});
    measure_launches("three movers in the same context", both_ways(context));
    quietly(OUT, 0), quietly(IN, 1);
    measure_launches("three movers in another context", both_ways(others[0]));
    return 0;
}
