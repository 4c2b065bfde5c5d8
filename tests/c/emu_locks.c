/* What a second thread can still do while the program's thread is blocked in the driver: each row of the table that was
 * measured on an H200 (a gate is closed, with work behind it). */
#include "emu_api.h"

enum step { NOTHING, COPIED, WAITED, MAPPED, ALLOWED, UNMAPPED, PREFETCHED, ALL };

static CUcontext context;
static CUstream gated, other;
static CUdeviceptr victim, target, managed, place;
static CUmemGenericAllocationHandle handle;
static void *pinned, *pageable;
static CUevent event;
static _Atomic uint32_t *gate;
static _Atomic int step, returned, launched;
static _Atomic pid_t first_thread, second_thread;

enum { BYTES = 8 * MiB };

static void in_synchronize(void) {
    OK(cuStreamSynchronize(gated));
}

static void in_context_synchronize(void) {
    OK(cuCtxSynchronize());
}

static void in_event_synchronize(void) {
    OK(cuEventSynchronize(event));
}

static void in_allocate(void) {
    device_memory(4 * BYTES);
}

static void in_allocate_host(void) {
    pinned_memory(4 * BYTES);
}

static void in_pinned_copy(void) {
    OK(cuMemcpyHtoDAsync_v2(target, pinned, MiB, other));
}

static void in_full_queue(void) {
    for (launched = 0; launched < 3000; launched++)
        OK(LAUNCH(gated, "nop"));
}

static void in_free(void) {
    OK(cuMemFree_v2(victim));
}

static void in_pageable_copy(void) {
    OK(cuMemcpyHtoDAsync_v2(target, pageable, BYTES, gated));
}

static void *program(void *call) {
    first_thread = gettid();
    OK(cuCtxSetCurrent(context));
    ((void (*)(void))call)();
    returned = 1;
    return NULL;
}

static void *second(void *unused) {
    (void)unused;
    second_thread = gettid();
    CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuCtxSetCurrent(context));
    OK(cuMemcpyHtoDAsync_v2(target, pinned, BYTES, other));
    step = COPIED;
    OK(cuStreamSynchronize(other));
    step = WAITED;
    OK(cuMemMap(place, 2 * MiB, 0, handle, 0));
    step = MAPPED;
    OK(cuMemSetAccess(place, 2 * MiB, &d, 1));
    step = ALLOWED;
    OK(cuMemUnmap(place, 2 * MiB));
    step = UNMAPPED;
    OK(cuMemPrefetchAsync(managed, BYTES, 0, other));
    step = PREFETCHED;
    OK(cuStreamSynchronize(other));
    step = ALL;
    return NULL;
}

/* As much time as a busy machine may need. */
static void wait_for(const _Atomic int *value, int wanted) {
    for (int ms = 0; ms < 60000 && *value < wanted; ms++)
        sleep_ms(1);
    CHECK_EQ(*value, wanted);
}

/* The program's thread makes the call; the second thread gets as far as `reached`, and no further. */
static void row(void (*call)(void), int blocks, enum step reached) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    context = begin();
    gated = new_stream(CU_STREAM_NON_BLOCKING);
    other = new_stream(CU_STREAM_NON_BLOCKING);
    victim = device_memory(BYTES);
    target = device_memory(BYTES);
    managed = managed_memory(BYTES);
    pinned = pinned_memory(BYTES);
    pageable = malloc(BYTES);
    memset(pageable, 1, BYTES);
    OK(cuMemCreate(&handle, 2 * MiB, &prop, 0));
    OK(cuMemAddressReserve(&place, 2 * MiB, 0, 0, 0));
    OK(cuEventCreate(&event, 0));
    kernel("nop");
    gate = close_gate(gated);
    OK(LAUNCH(gated, "nop"));
    OK(cuEventRecord(event, gated));

    pthread_t a, b;
    pthread_create(&a, NULL, program, (void *)call);
    if (!blocks)
        wait_for(&returned, 1);
    else
        CHECK(falls_asleep(&first_thread));
    pthread_create(&b, NULL, second, NULL);
    wait_for(&step, reached);
    CHECK(reached == ALL || falls_asleep(&second_thread)); /* it gets no further */
    CHECK_EQ(step, reached);
    CHECK_EQ(returned, !blocks);
    *gate = 1; /* a plain store opens it, whoever is stuck */
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    CHECK_EQ(step, ALL);
    OK(cuCtxSynchronize());
}

TEST(while_synchronizing_a_stream) {
    row(in_synchronize, 1, ALL);
}

TEST(while_synchronizing_the_context) {
    row(in_context_synchronize, 1, ALL);
}

TEST(while_synchronizing_an_event) {
    row(in_event_synchronize, 1, ALL);
}

TEST(while_allocating) {
    row(in_allocate, 0, ALL);
}

TEST(while_allocating_host_memory) {
    row(in_allocate_host, 0, ALL);
}

TEST(while_copying_pinned_memory_on_another_stream) {
    row(in_pinned_copy, 0, ALL);
}

TEST(while_launching_into_a_full_queue) {
    row(in_full_queue, 1, NOTHING);
}

TEST(while_freeing) {
    row(in_free, 1, NOTHING);
}

static void *map_something(void *unused) {
    (void)unused;
    second_thread = gettid();
    OK(cuCtxSetCurrent(context));
    OK(cuMemMap(place, 2 * MiB, 0, handle, 0));
    step = MAPPED;
    return NULL;
}

TEST(a_free_stops_mapping_too) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    context = begin();
    gated = new_stream(CU_STREAM_NON_BLOCKING);
    victim = device_memory(BYTES);
    OK(cuMemCreate(&handle, 2 * MiB, &prop, 0));
    OK(cuMemAddressReserve(&place, 2 * MiB, 0, 0, 0));
    gate = close_gate(gated);
    pthread_t a, b;
    pthread_create(&a, NULL, program, (void *)in_free);
    CHECK(falls_asleep(&first_thread));
    pthread_create(&b, NULL, map_something, NULL);
    CHECK(falls_asleep(&second_thread));
    CHECK_EQ(step, NOTHING);
    *gate = 1;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    CHECK_EQ(step, MAPPED);
}

TEST(while_copying_pageable_memory) {
    row(in_pageable_copy, 1, UNMAPPED);
}

TEST(a_full_queue_leaves_mapping_and_allocating_alone) {
    context = begin();
    gated = new_stream(CU_STREAM_NON_BLOCKING);
    kernel("nop");
    gate = close_gate(gated);
    pthread_t a;
    pthread_create(&a, NULL, program, (void *)in_full_queue);
    CHECK(falls_asleep(&first_thread));
    int depth = launched;
    CHECK_EQ(depth, 1018 - 1); /* the gate is the first */
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemCreate(&handle, 2 * MiB, &prop, 0));
    OK(cuMemAddressReserve(&place, 2 * MiB, 0, 0, 0));
    OK(cuMemMap(place, 2 * MiB, 0, handle, 0));
    OK(cuMemSetAccess(place, 2 * MiB, &d, 1));
    device_memory(4096);
    CHECK_EQ(launched, depth);
    *gate = 1;
    pthread_join(a, NULL);
    OK(cuCtxSynchronize());
}
