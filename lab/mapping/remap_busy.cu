/* What mapping memory anew takes beside what a step does: kernels that use the device's memory, and copies both ways.
 * As in backend vmm a run of handles is unmapped in one call, mapped handle by handle, and given access in one call;
 * from several threads, whose calls wait for each other in the driver. And what a launch takes beside mapping and
 * copies.
 *
 * Prints one line of JSON a measurement: microseconds a handle, the mean; of a launch the median, and what one in a
 * hundred exceeds. Takes 1.5 GiB of the device and 0.6 GiB of pinned host memory by cuMemCreate; no managed memory. */
#include "remap.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

enum { KERNELS = 1, IN = 2, OUT = 4, ALL = KERNELS | IN | OUT };

static const size_t USED = 512 * MIB, COPIED = 64 * MIB, PIECE = 8 * MIB;
static const int MEASURE_MS = 250, WARM_MS = 20, QUEUED = 8;
static std::atomic<bool> stop;

/* --- what a step does --- */

__global__ void use(int4 *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        p[i].x++;
}

static CUdeviceptr used;
static CUdeviceptr copied[PLACES][2]; /* by place and direction */

static void run_kernels(void) {
    MUST(cuCtxSetCurrent(context));
    while (!stop) {
        for (int i = 0; i < QUEUED; i++)
            use<<<1056, 256>>>((int4 *)used, USED / sizeof(int4));
        MUST((CUresult)cudaGetLastError());
        MUST(cuStreamSynchronize(0));
    }
}

static void copy(int to) {
    MUST(cuCtxSetCurrent(context));
    CUstream stream = stream_new();
    for (size_t at = 0; !stop; at = (at + PIECE) % COPIED) {
        MUST(cuMemcpyAsync(copied[to][to] + at, copied[!to][to] + at, PIECE, stream));
        MUST(cuStreamSynchronize(stream));
    }
    MUST(cuStreamDestroy(stream));
}

static std::vector<std::thread> begin(int what) {
    std::vector<std::thread> threads;
    stop = false;
    if (what & KERNELS)
        threads.emplace_back(run_kernels);
    if (what & IN)
        threads.emplace_back(copy, DEVICE);
    if (what & OUT)
        threads.emplace_back(copy, HOST);
    return threads;
}

static void end(std::vector<std::thread> &threads) {
    stop = true;
    for (std::thread &t : threads)
        t.join();
}

/* --- mapping --- */

struct remapper {
    size_t each, handles;
    int other; /* where it maps in turn with the device */
    double map_us[PLACES], unmap_us[PLACES];
    size_t times; /* of each */
};

static void remap(remapper *r) {
    std::vector<CUmemGenericAllocationHandle> set[2];
    int place[2] = {DEVICE, r->other};
    size_t bytes = r->each * r->handles;
    MUST(cuCtxSetCurrent(context));
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < r->handles; i++)
            set[s].push_back(create(place[s], r->each));
    CUdeviceptr at = reserve(bytes);
    for (int s = 0; !stop || s; s = !s) {
        double start = now_us();
        for (size_t i = 0; i < r->handles; i++)
            MUST(cuMemMap(at + i * r->each, r->each, 0, set[s][i], 0));
        allow(at, bytes);
        double mapped = now_us();
        MUST(cuMemUnmap(at, bytes));
        r->map_us[s] += mapped - start;
        r->unmap_us[s] += now_us() - mapped;
        r->times += s;
    }
    for (int s = 0; s < 2; s++)
        for (CUmemGenericAllocationHandle handle : set[s])
            MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(at, bytes));
}

static void measure(int beside, int other, size_t mib, size_t handles, int threads) {
    std::vector<remapper> all(threads);
    std::vector<std::thread> busy = begin(beside), running;
    std::this_thread::sleep_for(std::chrono::milliseconds(WARM_MS));
    for (remapper &r : all) {
        r = {};
        r.each = mib * MIB;
        r.handles = handles;
        r.other = other;
        running.emplace_back(remap, &r);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(MEASURE_MS));
    end(running);
    end(busy);
    double map[PLACES] = {}, unmap[PLACES] = {}, times = 1e-9;
    for (const remapper &r : all) {
        times += (double)(r.times * handles);
        for (int s = 0; s < PLACES; s++)
            map[s] += r.map_us[s], unmap[s] += r.unmap_us[s];
    }
    printf("{\"kind\": \"busy\", \"kernels\": %s, \"in\": %s, \"out\": %s, \"other\": \"%s\", \"mib_each\": %zu, "
           "\"handles\": %zu, \"threads\": %d, \"times\": %.0f, \"map_us\": %.1f, \"unmap_us\": %.1f, "
           "\"map_other_us\": %.1f, \"unmap_other_us\": %.1f}\n",
           beside & KERNELS ? "true" : "false", beside & IN ? "true" : "false", beside & OUT ? "true" : "false",
           other == HOST ? "host" : "device", mib, handles, threads, times, map[0] / times, unmap[0] / times,
           map[1] / times, unmap[1] / times);
    fflush(stdout);
}

/* --- launches --- */

__global__ void nothing(void) {
}

static const size_t LAUNCHES = 20000, UNWAITED = 256;

static void measure_launches(int beside, bool maps, int other) {
    remapper r = {};
    r.each = 8 * MIB;
    r.handles = 1;
    r.other = other;
    std::vector<std::thread> busy = begin(beside);
    if (maps)
        busy.emplace_back(remap, &r);
    std::this_thread::sleep_for(std::chrono::milliseconds(WARM_MS));
    CUstream stream = stream_new();
    std::vector<double> us;
    for (size_t i = 0; i < LAUNCHES; i++) {
        double start = now_us();
        nothing<<<1, 1, 0, stream>>>();
        us.push_back(now_us() - start);
        if (i % UNWAITED == 0)
            MUST(cuStreamSynchronize(stream));
    }
    MUST((CUresult)cudaGetLastError());
    MUST(cuStreamSynchronize(stream));
    end(busy);
    MUST(cuStreamDestroy(stream));
    std::sort(us.begin(), us.end());
    const char *mapped = !maps ? "nothing" : other == HOST ? "host" : "device";
    printf("{\"kind\": \"launches\", \"in\": %s, \"out\": %s, \"mapped\": \"%s\", \"launch_us\": %.2f, "
           "\"launch_99_us\": %.2f}\n",
           beside & IN ? "true" : "false", beside & OUT ? "true" : "false", mapped, us[LAUNCHES / 2],
           us[LAUNCHES * 99 / 100]);
    fflush(stdout);
}

int main(void) {
    open_device();
    used = plain(DEVICE, USED);
    for (int place = 0; place < PLACES; place++)
        for (int to = 0; to < 2; to++)
            copied[place][to] = plain(place, COPIED);
    static const int besides[] = {0, KERNELS, IN, OUT, IN | OUT, ALL};
    for (int other = 0; other < PLACES; other++) {
        for (int beside : besides)
            measure(beside, other, 8, 1, 1);
        for (size_t handles : {2, 4})
            measure(ALL, other, 8, handles, 1);
        for (size_t mib : {2, 16, 32})
            measure(ALL, other, mib, 1, 1);
        for (int threads : {3, 6})
            measure(ALL, other, 8, 1, threads);
        measure(KERNELS, other, 8, 1, 3);
    }
    for (int beside : {0, IN | OUT}) {
        measure_launches(beside, false, DEVICE);
        for (int other = 0; other < PLACES; other++)
            measure_launches(beside, true, other);
    }
    return 0;
}
