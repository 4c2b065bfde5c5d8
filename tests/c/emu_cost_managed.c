/* Modelled time of managed memory: faults, prefetches, advice. */
#include "emu_time.h"

enum { MANAGED = 64 * MiB, PART = 16 * MiB };

static CUdeviceptr managed, sum;

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
    begin_with_time("64");
    managed = managed_memory(MANAGED);
    memset_managed();
    check_call_time("the call of a prefetch out", 47e-3 * share + 62e-6, prefetch_in, prefetch_out);
    check_call_time("the call of a prefetch in", 28e-3 * share + 62e-6, prefetch_out, prefetch_in);
    check_call_time("the whole prefetch in", 28e-3 * share + 62e-6, prefetch_out, prefetch_in_and_wait);
    check_call_time("20 of what is there", 20 * (460e-6 * share + 1.9e-6), prefetch_in, prefetch_often);
    check_call_time("a memset that faults pages in", MANAGED / 14e9 + MANAGED / 4150e9, prefetch_out, memset_absent);
    check_call_time("a discard", 3.2e-3 * share, NULL, discard);
}

static void advise_in_place(void) {
    OK(cuMemAdvise(managed, PART, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    OK(cuMemAdvise(managed, PART, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
}

static void take_back_in_place(void) {
    OK(cuMemAdvise(managed, PART, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0));
    OK(cuMemAdvise(managed, PART, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
}

static void read_managed(void) {
    uint64_t n = PART / 4;
    OK(LAUNCH(a, "reduce_sum", &sum, &managed, &n));
}

static void update_managed(void) {
    OK(scale(a, managed, 1, PART / 4));
}

TEST(managed_memory_in_place) {
    struct emu_traffic before, after;
    double share = PART / 1073741824.;
    begin_with_time("400");
    sum = device_memory(4);
    managed = managed_memory(PART);
    OK(cuMemsetD8Async(managed, 2, PART, a));
    OK(cuMemPrefetchAsync(managed, PART, CU_DEVICE_CPU, a));
    OK(cuStreamSynchronize(a));
    emu_traffic(&before);
    check_call_time("the advice", 2 * 45e-3 * share, take_back_in_place, advise_in_place);
    check_call_time("taking it back", 2 * 45e-3 * share, advise_in_place, take_back_in_place);
    advise_in_place();
    check_device_time("reading it in place", PART / 51e9, read_managed);
    check_device_time("reading and writing it", PART / 42e9, update_managed);
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
    check_call_time("the kernel", MANAGED / 44e9, prefetch_out_and_wait, use_what_is_on_its_way);
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
    check_call_time("in", MANAGED / 44e9, prefetch_out, prefetch_in_and_wait);
    check_call_time("out", MANAGED / 24e9, prefetch_in, prefetch_out_and_wait);
    check_call_time("both ways", 2 * MANAGED / 40e9, prefetch_other_in, prefetch_both_ways);
}
