/* Modelled time of kernels, copies, memory that the program maps itself, and calls. */
#include "emu_time.h"

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
    double one = COPY / 55.5e9;
    check_device_time("one copy in", one, copy_in);
    check_device_time("one copy out", one, copy_out);
    check_call_time("two the same way", 2 * one, NULL, copy_in_twice);
    check_call_time("two both ways", COPY / 50.5e9, NULL, copy_both_ways);
    check_device_time("8 copies of 64 KiB at 17.8 GB/s", 8 * 65536 / 17.8e9, copy_small);
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
    check_call_time("a host handle of 16 MiB", 788e-6, NULL, make_host_handle);
    OK(cuMemAddressReserve(&far, HANDLE, 0, 0, 0));
    OK(cuMemMap(far, HANDLE, 0, handle, 0));
    check_call_time("access to it", 151e-6, NULL, allow);
    read_in_place();
    check_device_time("reading it in place", HANDLE / 51e9, read_in_place);
    check_device_time("reading and writing it", HANDLE / 42e9, update_in_place);
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
    check_call_time("reading it beside a copy in", HANDLE / 51e9 + 2 * HANDLE / 55.5e9, NULL, read_beside_a_copy_in);
    check_call_time("reading it beside a copy out", 2 * HANDLE / 50.5e9, NULL, read_beside_a_copy_out);
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
    check_call_time("200 launches", 200 * 2.9e-6, NULL, launch_often);
    check_call_time("200 handles of 2 MiB", 200 * 7e-6, release_handles, create_handles);
    release_handles();
    check_call_time("releasing 200", 200 * 8e-6, create_handles, release_handles);
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
