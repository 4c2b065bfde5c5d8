/* Managed memory: where its pages are, what moves them, and what that moves. */
#include <fcntl.h>
#include <unistd.h>

#include "emu_api.h"

static const CUmemLocation DEVICE = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, HOST = {CU_MEM_LOCATION_TYPE_HOST, 0};

static struct emu_traffic traffic(void) {
    struct emu_traffic t;
    OK(cuCtxSynchronize());
    emu_traffic(&t);
    return t;
}

static float *host(CUdeviceptr p) {
    return (float *)(uintptr_t)p;
}

TEST(both_sides_see_the_same_bytes) {
    begin();
    CUdeviceptr p = managed_memory(3 * MiB);
    host(p)[0] = 5;
    OK(scale(NULL, p, 2, 1));
    OK(fill(NULL, p + 2 * MiB, 7, 1));
    OK(cuCtxSynchronize());
    CHECK(host(p)[0] == 10 && host(p + 2 * MiB)[0] == 7);
    OK(cuMemFree_v2(p));
    CHECK_SIGNAL(SIGSEGV, *(volatile float *)host(p) = 1);
}

TEST(a_kernel_faults_pages_in) {
    begin();
    CUdeviceptr p = managed_memory(6 * MiB);
    CHECK_EQ(emu_page(p), EMU_NOWHERE);
    OK(fill(NULL, p, 1, 2 * MiB / 4)); /* what was never stored comes without bytes */
    CHECK_EQ(traffic().fault_bytes, 0);
    CHECK_EQ(traffic().faults, 1);
    CHECK_EQ(emu_page(p), 0);
    CHECK_EQ(emu_page(p + 2 * MiB), EMU_NOWHERE);
    CHECK_EQ(memory_used(), 4 * MiB); /* a page, and the image's variable */
    OK(cuMemPrefetchAsync(p, 6 * MiB, CU_DEVICE_CPU, NULL));
    CHECK_EQ(traffic().prefetch_out, 2 * MiB);
    CHECK_EQ(emu_page(p), EMU_HOST);
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(scale(NULL, p, 2, 1));
    CHECK_EQ(traffic().fault_bytes, 2 * MiB);
    CHECK(first_float(p) == 2);
}

TEST(both_versions_of_prefetch) {
    begin();
    CUdeviceptr p = managed_memory(8 * MiB);
    CHECK_EQ(emu_page(p), EMU_NOWHERE);
    memset(host(p), 1, 8 * MiB); /* a page's first store is seen */
    CHECK_EQ(emu_page(p), EMU_HOST);
    OK(cuMemPrefetchAsync(p, 8 * MiB, 0, NULL));
    CHECK_EQ(traffic().prefetch_in, 8 * MiB);
    CHECK_EQ(emu_page(p), 0);
    emu_touch_from_host(p, 1); /* a later one has to be told */
    CHECK_EQ(emu_page(p), EMU_HOST);
    OK(cuMemPrefetchAsync(p, 8 * MiB, 0, NULL));
    OK(cuMemPrefetchAsync_v2(p, 4 * MiB, HOST, 0, NULL));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_page(p + 2 * MiB), EMU_HOST);
    CHECK_EQ(emu_page(p + 4 * MiB), 0);
    OK(cuMemPrefetchAsync_v2(p, 8 * MiB, DEVICE, 0, NULL));
    CHECK_EQ(traffic().prefetch_in, 14 * MiB); /* what is there is not moved again */
    CHECK_EQ(cuMemPrefetchAsync(p, 8 * MiB, 3, NULL), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cuMemPrefetchAsync(p, 9 * MiB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemPrefetchAsync(device_memory(4 * MiB), 4 * MiB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    int last;
    OK(cuMemRangeGetAttribute(&last, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 8 * MiB));
    CHECK_EQ(last, 0);
}

TEST(a_prefetch_goes_in_the_order_of_its_stream) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = managed_memory(2 * MiB);
    _Atomic uint32_t *gate = close_gate(s);
    OK(cuMemPrefetchAsync(p, 2 * MiB, 0, s));
    sleep_ms(10);
    CHECK_EQ(emu_page(p), EMU_NOWHERE);
    *gate = 1;
    OK(cuStreamSynchronize(s));
    CHECK_EQ(emu_page(p), 0);
}

TEST(a_prefetch_in_an_idle_stream_has_done_its_page_work_when_it_returns) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = managed_memory(64 * MiB);
    memset(host(p), 0, 64 * MiB);
    for (int i = 0; i < 32; i++) {
        OK(cuMemPrefetchAsync(p + (CUdeviceptr)i * 2 * MiB, 2 * MiB, 0, s));
        CHECK_EQ(emu_page(p + (CUdeviceptr)i * 2 * MiB), 0);
        OK(fill(other, p + (CUdeviceptr)i * 2 * MiB, 1, 1));
        OK(cuStreamSynchronize(s));
    }
    CHECK_EQ(traffic().faults, 0);
}

TEST(the_least_recently_used_page_leaves_a_full_device) {
    setenv("EMU_MEMORY", "8MiB", 1);
    begin();
    kernel("fill"); /* takes a granule: three pages fit */
    CUdeviceptr p = managed_memory(16 * MiB);
    for (int i = 0; i < 3; i++)
        OK(fill(NULL, p + (CUdeviceptr)i * 2 * MiB, (float)i, 1));
    OK(scale(NULL, p, 1, 1)); /* page 0 is now younger than 1 */
    OK(fill(NULL, p + 6 * MiB, 3, 1));
    CHECK_EQ(traffic().evicted, 2 * MiB);
    CHECK_EQ(emu_page(p + 2 * MiB), EMU_HOST);
    CHECK_EQ(emu_page(p), 0);
    for (int i = 0; i < 8; i++) /* more than there is, several times over */
        OK(fill(NULL, p + (CUdeviceptr)i * 2 * MiB, (float)i, 2 * MiB / 4));
    for (int i = 0; i < 8; i++)
        CHECK(first_float(p + (CUdeviceptr)i * 2 * MiB + 1024) == (float)i);
    CHECK_EQ(memory_used(), 8 * MiB);
}

TEST(an_allocation_drives_managed_pages_out) {
    setenv("EMU_MEMORY", "8MiB", 1);
    begin();
    CUdeviceptr p = managed_memory(8 * MiB);
    memset(host(p), 1, 8 * MiB);
    OK(cuMemPrefetchAsync(p, 8 * MiB, 0, NULL));
    CHECK_EQ(traffic().evicted, 0);
    device_memory(6 * MiB);
    CHECK_EQ(traffic().evicted, 6 * MiB);
    CHECK_EQ(emu_page(p + 4 * MiB), EMU_HOST);
    CHECK_EQ(emu_page(p + 6 * MiB), 0);
    device_memory(2 * MiB);
    OK(cuMemsetD8_v2(p, 2, 8 * MiB)); /* no room at all: used where it lies */
    CHECK_EQ(traffic().in_place, 8 * MiB);
    CHECK_EQ(*(char *)host(p + 7 * MiB), 2);
}

TEST(mostly_read_pages_are_copied_and_dropped_for_nothing) {
    begin();
    CUdeviceptr p = managed_memory(2 * MiB), sum = device_memory(4);
    uint64_t n = 2 * MiB / 4;
    memset(host(p), 0, 2 * MiB);
    OK(cuMemAdvise(p, 2 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    struct emu_traffic before = traffic();
    OK(LAUNCH(NULL, "reduce_sum", &sum, &p, &n));
    CHECK_EQ(traffic().fault_bytes - before.fault_bytes, 2 * MiB);
    CHECK_EQ(emu_page(p), 0);
    OK(cuMemPrefetchAsync(p, 2 * MiB, CU_DEVICE_CPU, NULL)); /* both copies stay */
    CHECK_EQ(emu_page(p), 0);
    OK(cuMemAdvise(p, 2 * MiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
    CHECK_EQ(emu_page(p), EMU_HOST);
    CHECK_EQ(traffic().prefetch_out, before.prefetch_out);
    OK(cuMemAdvise(p, 2 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    OK(LAUNCH(NULL, "reduce_sum", &sum, &p, &n));
    OK(fill(NULL, p, 1, 1)); /* written: the host's copy is no longer valid */
    OK(cuMemPrefetchAsync(p, 2 * MiB, CU_DEVICE_CPU, NULL));
    CHECK_EQ(traffic().prefetch_out - before.prefetch_out, 2 * MiB);
}

TEST(what_is_preferred_elsewhere_is_used_in_place) {
    begin();
    CUdeviceptr p = managed_memory(4 * MiB);
    OK(cuMemAdvise_v2(p, 4 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, HOST));
    OK(cuMemAdvise_v2(p, 4 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, DEVICE));
    OK(fill(NULL, p, 1, MiB));
    CHECK_EQ(traffic().in_place, 4 * MiB);
    CHECK_EQ(traffic().faults, 0);
    CHECK_EQ(emu_page(p), EMU_HOST);
    int place, who[2];
    OK(cuMemRangeGetAttribute(&place, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 4 * MiB));
    CHECK_EQ(place, CU_DEVICE_CPU);
    OK(cuMemRangeGetAttribute(who, sizeof who, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4 * MiB));
    CHECK_EQ(who[0], 0);
    CHECK_EQ(who[1], CU_DEVICE_INVALID);
    OK(cuMemAdvise(p, 4 * MiB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
    OK(cuMemAdvise(p, 4 * MiB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0));
    OK(fill(NULL, p, 1, MiB));
    CHECK_EQ(traffic().fault_bytes, 4 * MiB);
}

TEST(discarded_pages_move_without_their_bytes) {
    begin();
    CUdeviceptr p = managed_memory(4 * MiB), ranges[] = {p};
    size_t sizes[] = {4 * MiB}, first = 0;
    CUmemLocation there = DEVICE, home = HOST;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(fill(s, p, 1, MiB));
    OK(cuMemDiscardBatchAsync(ranges, sizes, 1, 0, s));
    OK(fill(s, p, 2, 1)); /* the first page lives again */
    OK(cuMemPrefetchBatchAsync(ranges, sizes, 1, &home, &first, 1, 0, s));
    CHECK_EQ(traffic().prefetch_out, 2 * MiB);
    CHECK_EQ(traffic().dropped, 2 * MiB);
    CHECK(host(p)[0] == 2);
    CHECK_EQ(*(unsigned char *)host(p + 2 * MiB), 0xdd);
    OK(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 1, &there, &first, 1, 0, s));
    CHECK_EQ(traffic().prefetch_in, 0);
    CHECK_EQ(emu_page(p), 0);
}

TEST(batches_have_a_place_for_each_range) {
    begin();
    CUdeviceptr p = managed_memory(6 * MiB), ranges[] = {p, p + 2 * MiB, p + 4 * MiB};
    size_t sizes[] = {2 * MiB, 2 * MiB, 2 * MiB}, first[] = {0, 2};
    CUmemLocation places[] = {DEVICE, HOST};
    OK(fill(NULL, p, 1, 6 * MiB / 4));
    OK(cuMemPrefetchAsync(p, 6 * MiB, CU_DEVICE_CPU, NULL));
    OK(cuMemPrefetchBatchAsync(ranges, sizes, 3, places, first, 2, 0, new_stream(0)));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_page(p), 0);
    CHECK_EQ(emu_page(p + 2 * MiB), 0);
    CHECK_EQ(emu_page(p + 4 * MiB), EMU_HOST);
}

TEST(copies_touch_managed_memory_as_kernels_do) {
    begin();
    CUdeviceptr p = managed_memory(2 * MiB);
    static char bytes[2 * MiB];
    memset(bytes, 9, sizeof bytes);
    OK(cuMemcpyHtoD_v2(p, bytes, sizeof bytes));
    CHECK_EQ(emu_page(p), 0);
    CHECK_EQ(traffic().copied_in, 2 * MiB);
    CHECK_EQ(((char *)host(p))[12345], 9);
}

TEST(a_page_belongs_to_one_of_two_devices) {
    setenv("EMU_DEVICES", "2", 1);
    begin();
    CUdeviceptr p = managed_memory(2 * MiB);
    OK(fill(NULL, p, 1, 1));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_page(p), 0);
    OK(cuMemPrefetchAsync(p, 2 * MiB, 1, NULL));
    CHECK_EQ(traffic().prefetch_in, 2 * MiB);
    CHECK_EQ(emu_page(p), 1);
    uint64_t used, total;
    CHECK_EQ(emu_device_memory(1, &used, &total), 0);
    CHECK_EQ(used, 2 * MiB);
    CHECK_EQ(emu_device_memory(2, &used, &total), -1);
}

TEST(the_operation_that_touched_most_pages_counts) {
    begin();
    CUdeviceptr p = managed_memory(6 * MiB), q = managed_memory(2 * MiB);
    OK(cuMemPrefetchAsync(p, 6 * MiB, 0, NULL));
    CHECK_EQ(emu_touched_peak(0), 0);
    OK(fill(NULL, q, 1, 1));
    OK(fill(NULL, q, 1, 1));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_touched_peak(0), 2 * MiB);
    OK(cuMemcpyDtoD_v2(p + 3 * MiB, p, 3 * MiB)); /* the page in the middle is touched twice */
    OK(fill(NULL, q, 1, 1));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_touched_peak(0), 6 * MiB);
}

TEST(the_peak_of_a_device_stays_and_others_can_read_it) {
    char name[] = "/tmp/emu-resident-XXXXXX";
    close(mkstemp(name));
    setenv("EMU_SHARED", name, 1);
    begin();
    uint64_t used, total, before, file[2] = {0};
    CHECK_EQ(emu_device_memory(0, &before, &total), 0);
    CUdeviceptr p = managed_memory(6 * MiB);
    OK(cuMemPrefetchAsync(p, 6 * MiB, 0, NULL));
    OK(cuMemPrefetchAsync(p, 6 * MiB, CU_DEVICE_CPU, NULL));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_device_memory(0, &used, &total), 0);
    CHECK_EQ(used, before);
    CHECK_EQ(emu_device_peak(0), before + 6 * MiB);
    int fd = open(name, O_RDONLY);
    CHECK_EQ(read(fd, file, sizeof file), sizeof file);
    CHECK_EQ(file[0], used);
    CHECK_EQ(file[1], before + 6 * MiB);
    close(fd);
    unlink(name);
}
