/* Modelled time: what lasts milliseconds lasts as long as the table in emulator/cost.c says, within a tenth. EMU_TIME
 * is large enough that this machine does the work itself in less. Other processes may make a measurement too long, or
 * too short where they delay the clock's reading at its start, so it is repeated. */
#include "emu_api.h"

static const double PATIENCE = 40; /* s, for each measurement */

static CUstream a, b;
static CUevent from, to;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void begin_with_time(const char *scale) {
    setenv("EMU_TIME", scale, 1);
    setenv("EMU_MEMORY", "2GiB", 1);
    begin();
    kernel("nop");
    a = new_stream(CU_STREAM_NON_BLOCKING);
    b = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&from, 0));
    OK(cuEventCreate(&to, 0));
}

static bool fits(double seconds, double expected) {
    return seconds >= 0.9 * expected && seconds <= 1.1 * expected;
}

/* What work puts into stream a takes so long, by events and by the wall. */
static void check_device_time(const char *what, double expected, void (*work)(void)) {
    float ms = 0;
    double wall = 0;
    for (double end = now() + PATIENCE; now() < end;) {
        OK(cuCtxSynchronize());
        double began = now();
        OK(cuEventRecord(from, a));
        work();
        OK(cuEventRecord(to, a));
        OK(cuCtxSynchronize());
        wall = now() - began;
        OK(cuEventElapsedTime(&ms, from, to));
        bool good = fits(ms * 1e-3, expected);
        if (fits(wall, expected) && good)
            return;
    }
    TEST_FAIL("%s: %g s by events, %g s by the wall, modelled %g s\n", what, ms * 1e-3, wall, expected);
}

/* The calls that work makes take so long. before, if not NULL, makes ready for them. */
static void check_call_time(const char *what, double expected, void (*before)(void), void (*work)(void)) {
    double seconds = 0;
    for (double end = now() + PATIENCE; now() < end;) {
        if (before)
            before();
        OK(cuCtxSynchronize());
        double began = now();
        work();
        seconds = now() - began;
        if (fits(seconds, expected))
            return;
    }
    TEST_FAIL("%s: %g s, modelled %g s\n", what, seconds, expected);
}

static void spin(CUstream s, uint64_t ns) {
    OK(LAUNCH(s, "spin", &ns));
}

TEST(nothing_takes_time_unless_told) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    double before = now();
    spin(s, 30000000000);
    OK(cuStreamSynchronize(s));
    CHECK(now() - before < 10);
}

static void one_kernel(void) {
    spin(a, 20000000);
}

static void many_kernels(void) {
    for (int i = 0; i < 20; i++)
        spin(a, 1000000);
}

static void two_kernels(void) {
    spin(a, 20000000);
    spin(b, 20000000);
}

TEST(kernels) {
    begin_with_time("1");
    check_device_time("a kernel of 20 ms", 0.02, one_kernel);
    check_device_time("20 of 1 ms", 0.02, many_kernels);
    check_device_time("two at once", 0.02, two_kernels);
}

/* --- copies --- */

enum { COPY = 8 * MiB };

static CUdeviceptr p, q;
static char *x, *y;

static void copy_in(void) {
    OK(cuMemcpyHtoDAsync_v2(p, x, COPY, a));
}

static void copy_out(void) {
    OK(cuMemcpyDtoHAsync_v2(x, p, COPY, a));
}

static void copy_in_twice(void) {
    OK(cuMemcpyHtoDAsync_v2(p, x, COPY, a));
    OK(cuMemcpyHtoDAsync_v2(q, y, COPY, b));
    OK(cuCtxSynchronize());
}

static void copy_both_ways(void) {
    OK(cuMemcpyHtoDAsync_v2(p, x, COPY, a));
    OK(cuMemcpyDtoHAsync_v2(y, q, COPY, b));
    OK(cuCtxSynchronize());
}

static void copy_small(void) {
    for (int i = 0; i < 8; i++)
        OK(cuMemcpyHtoDAsync_v2(p, x, 64 << 10, a));
}

TEST(copies_share_the_link) {
    begin_with_time("1000");
    p = device_memory(COPY);
    q = device_memory(COPY);
    x = pinned_memory(COPY);
    y = pinned_memory(COPY);
    memset(x, 1, COPY);
    memset(y, 1, COPY);
    copy_in_twice(); /* so that this machine has its pages */
    double one = COPY / 55.5e9 * 1000;
    check_device_time("one copy in", one, copy_in);
    check_device_time("one copy out", one, copy_out);
    check_call_time("two the same way", 2 * one, NULL, copy_in_twice);
    check_call_time("two both ways", COPY / 50.5e9 * 1000, NULL, copy_both_ways);
    check_device_time("8 copies of 64 KiB at 17.8 GB/s", 8 * 65536 / 17.8e9 * 1000, copy_small);
}

/* --- memory of the program's own --- */

enum { HANDLE = 16 * MiB };

static CUmemGenericAllocationHandle handle;
static CUdeviceptr far, sum;

static void make_host_handle(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    if (handle)
        OK(cuMemRelease(handle));
    OK(cuMemCreate(&handle, HANDLE, &prop, 0));
}

static void allow(void) {
    CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(far, HANDLE, &d, 1));
}

static void read_in_place(void) {
    uint64_t n = HANDLE / 4;
    OK(LAUNCH(a, "reduce_sum", &sum, &far, &n));
}

static void update_in_place(void) {
    OK(scale(a, far, 1, HANDLE / 4));
}

TEST(memory_in_place) {
    begin_with_time("800");
    sum = device_memory(4);
    check_call_time("a host handle of 16 MiB", 788e-6 * 800, NULL, make_host_handle);
    OK(cuMemAddressReserve(&far, HANDLE, 0, 0, 0));
    OK(cuMemMap(far, HANDLE, 0, handle, 0));
    check_call_time("access to it", 151e-6 * 800, NULL, allow);
    read_in_place();
    check_device_time("reading it in place", HANDLE / 51e9 * 800, read_in_place);
    check_device_time("reading and writing it", HANDLE / 42e9 * 800, update_in_place);
}

static CUdeviceptr out;
static void *pinned;

static void read_beside_a_copy_in(void) {
    OK(cuMemcpyHtoDAsync_v2(out, pinned, 2 * HANDLE, b));
    read_in_place();
    OK(cuCtxSynchronize());
}

static void read_beside_a_copy_out(void) {
    OK(cuMemcpyDtoHAsync_v2(pinned, out, 2 * HANDLE, b));
    read_in_place();
    OK(cuCtxSynchronize());
}

TEST(memory_in_place_takes_its_share_of_the_link) {
    begin_with_time("400");
    sum = device_memory(4);
    out = device_memory(2 * HANDLE);
    pinned = pinned_memory(2 * HANDLE);
    make_host_handle();
    OK(cuMemAddressReserve(&far, HANDLE, 0, 0, 0));
    OK(cuMemMap(far, HANDLE, 0, handle, 0));
    allow();
    read_beside_a_copy_in();
    check_call_time("reading it beside a copy in", (HANDLE / 51e9 + 2 * HANDLE / 55.5e9) * 400, NULL,
                    read_beside_a_copy_in);
    check_call_time("reading it beside a copy out", 2 * HANDLE / 50.5e9 * 400, NULL, read_beside_a_copy_out);
}

/* --- managed memory --- */

enum { MANAGED = 64 * MiB };

static CUdeviceptr managed;

static void prefetch_in(void) {
    OK(cuMemPrefetchAsync(managed, MANAGED, 0, a));
}

static void prefetch_out(void) {
    OK(cuMemPrefetchAsync(managed, MANAGED, CU_DEVICE_CPU, a));
}

static void prefetch_in_and_wait(void) {
    prefetch_in();
    OK(cuStreamSynchronize(a));
}

static void prefetch_often(void) {
    for (int i = 0; i < 20; i++)
        prefetch_in();
}

static void memset_managed(void) {
    OK(cuMemsetD8Async(managed, 2, MANAGED, a));
}

static void memset_absent(void) {
    memset_managed();
    OK(cuStreamSynchronize(a));
}

static void discard(void) {
    CUdeviceptr start = managed;
    size_t bytes = MANAGED;
    OK(cuMemDiscardBatchAsync(&start, &bytes, 1, 0, a));
}

TEST(managed_memory) {
    double share = MANAGED / 1073741824.;
    begin_with_time("16");
    managed = managed_memory(MANAGED);
    memset_managed();
    check_call_time("the call of a prefetch out", (47e-3 * share + 62e-6) * 16, prefetch_in, prefetch_out);
    check_call_time("the call of a prefetch in", (28e-3 * share + 62e-6) * 16, prefetch_out, prefetch_in);
    check_call_time("the whole prefetch in", (28e-3 * share + 62e-6) * 16, prefetch_out, prefetch_in_and_wait);
    check_call_time("20 of what is there", 20 * (460e-6 * share + 1.9e-6) * 16, prefetch_in, prefetch_often);
    check_call_time("a memset that faults pages in", (MANAGED / 14e9 + MANAGED / 4150e9) * 16, prefetch_out,
                    memset_absent);
    check_call_time("a discard", 3.2e-3 * share * 16, NULL, discard);
}

static void advise_in_place(void) {
    OK(cuMemAdvise(managed, HANDLE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    OK(cuMemAdvise(managed, HANDLE, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
}

static void take_back_in_place(void) {
    OK(cuMemAdvise(managed, HANDLE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0));
    OK(cuMemAdvise(managed, HANDLE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
}

static void read_managed(void) {
    uint64_t n = HANDLE / 4;
    OK(LAUNCH(a, "reduce_sum", &sum, &managed, &n));
}

static void update_managed(void) {
    OK(scale(a, managed, 1, HANDLE / 4));
}

TEST(managed_memory_in_place) {
    struct emu_traffic before, after;
    double share = HANDLE / 1073741824.;
    begin_with_time("400");
    sum = device_memory(4);
    managed = managed_memory(HANDLE);
    OK(cuMemsetD8Async(managed, 2, HANDLE, a));
    OK(cuMemPrefetchAsync(managed, HANDLE, CU_DEVICE_CPU, a));
    OK(cuStreamSynchronize(a));
    emu_traffic(&before);
    check_call_time("the advice", 2 * 45e-3 * share * 400, take_back_in_place, advise_in_place);
    check_call_time("taking it back", 2 * 45e-3 * share * 400, advise_in_place, take_back_in_place);
    advise_in_place();
    check_device_time("reading it in place", HANDLE / 51e9 * 400, read_managed);
    check_device_time("reading and writing it", HANDLE / 42e9 * 400, update_managed);
    emu_traffic(&after);
    CHECK_EQ(after.faults, before.faults);
    CHECK_EQ(after.prefetch_in, before.prefetch_in);
}

static CUdeviceptr other;

static void prefetch_other_in(void) {
    prefetch_in();
    prefetch_out();
    OK(cuMemPrefetchAsync(other, MANAGED, 0, b));
    OK(cuCtxSynchronize());
}

static void prefetch_other_out(void) {
    OK(cuMemPrefetchAsync(other, MANAGED, CU_DEVICE_CPU, b));
}

/* One in, the other out: then the other way round. */
static void prefetch_both_ways(void) {
    prefetch_in();
    prefetch_other_out();
    OK(cuCtxSynchronize());
}

static void prefetch_out_and_wait(void) {
    prefetch_out();
    OK(cuStreamSynchronize(a));
}

static void use_what_is_on_its_way(void) {
    prefetch_in();
    OK(scale(b, managed + MANAGED - 4, 1, 1));
    OK(cuStreamSynchronize(b));
}

TEST(a_kernel_waits_for_the_bytes_of_a_prefetch_that_nobody_waited_for) {
    setenv("EMU_PREFETCH_CALL_NS", "0", 1);
    setenv("EMU_PREFETCH_IN_NS", "0", 1);
    begin_with_time("16");
    managed = managed_memory(MANAGED);
    memset_managed();
    prefetch_out();
    OK(cuStreamSynchronize(a));
    check_call_time("the kernel", MANAGED / 44e9 * 16, prefetch_out_and_wait, use_what_is_on_its_way);
}

/* Without the page work of the calls, which one thread does one after the other. */
TEST(prefetches_share_their_rates) {
    setenv("EMU_PREFETCH_CALL_NS", "0", 1);
    setenv("EMU_PREFETCH_IN_NS", "0", 1);
    setenv("EMU_PREFETCH_OUT_NS", "0", 1);
    begin_with_time("16");
    managed = managed_memory(MANAGED);
    other = managed_memory(MANAGED);
    memset_managed();
    OK(cuMemsetD8Async(other, 2, MANAGED, b));
    check_call_time("in", MANAGED / 44e9 * 16, prefetch_out, prefetch_in_and_wait);
    check_call_time("out", MANAGED / 24e9 * 16, prefetch_in, prefetch_out_and_wait);
    check_call_time("both ways", 2 * MANAGED / 40e9 * 16, prefetch_other_in, prefetch_both_ways);
}

/* --- calls --- */

static CUmemGenericAllocationHandle handles[200];

static void launch_often(void) {
    for (int i = 0; i < 200; i++)
        OK(LAUNCH(a, "nop"));
}

static void create_handles(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    for (int i = 0; i < 200; i++)
        OK(cuMemCreate(&handles[i], 2 * MiB, &prop, 0));
}

static void release_handles(void) {
    for (int i = 0; i < 200; i++)
        if (handles[i])
            OK(cuMemRelease(handles[i]));
    memset(handles, 0, sizeof handles);
}

TEST(calls) {
    begin_with_time("100");
    check_call_time("200 launches", 200 * 2.9e-6 * 100, NULL, launch_often);
    check_call_time("200 handles of 2 MiB", 200 * 7e-6 * 100, release_handles, create_handles);
    release_handles();
    check_call_time("releasing 200", 200 * 8e-6 * 100, create_handles, release_handles);
}

TEST(a_gate_stops_the_clock_of_its_stream) {
    begin_with_time("1");
    float ms = 0;
    for (double end = now() + PATIENCE; now() < end;) {
        _Atomic uint32_t *gate = close_gate(a);
        OK(cuEventRecord(from, a));
        spin(a, 10000000);
        OK(cuEventRecord(to, a));
        sleep_ms(30);
        *gate = 1;
        OK(cuStreamSynchronize(a));
        OK(cuEventElapsedTime(&ms, from, to));
        if (fits(ms * 1e-3, 0.01))
            return;
    }
    TEST_FAIL("a kernel behind a gate: %g ms\n", (double)ms);
}
