/* Training out of segments that grow, as PyTorch's expandable ones do: addresses for all that may come, handles of one
 * size mapped there one after the other, and unmapped in the middle where nothing lies on them.
 *
 * segments LAYERS MIB STEPS HANDLE_MIB told|untold: LAYERS buffers of MIB MiB each of weights, activations and
 * momentum. They lie across handles; told: the allocator's events tell of them. Prints what it computed, and under
 * ulms.so its counters. */
#define _GNU_SOURCE
#include "steps.h"

#include "counters.h"

USE(cuMemCreate)
USE(cuMemRelease)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemMap)
USE(cuMemUnmap)
USE(cuMemSetAccess)

enum { SLOTS_MAX = 4096, MIB = 1 << 20 };

static CUdeviceptr segment;
static uint64_t slot_bytes, slots;
static CUmemGenericAllocationHandle handle[SLOTS_MAX];
static bool told;

static void reserve_segment(void) {
    uint64_t needed = (3 * layers + 1) * floats * sizeof(float);
    slots = (needed + needed / 8 + slot_bytes - 1) / slot_bytes;
    MUST(cuMemAddressReserve(&segment, slots * slot_bytes, 0, 0, 0));
}

static void map_slots(uint64_t first, uint64_t end) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (uint64_t i = first; i < end; i++)
        MUST(cuMemCreate(&handle[i], slot_bytes, &prop, 0));
    for (uint64_t i = first; i < end; i++)
        MUST(cuMemMap(segment + i * slot_bytes, slot_bytes, 0, handle[i], 0));
    MUST(cuMemSetAccess(segment + first * slot_bytes, (end - first) * slot_bytes, &access, 1));
}

static void unmap_slots(uint64_t first, uint64_t end) {
    for (uint64_t i = first; i < end; i++) {
        MUST(cuMemUnmap(segment + i * slot_bytes, slot_bytes));
        MUST(cuMemRelease(handle[i]));
        handle[i] = 0;
    }
}

/* Handles behind [start, end) where there are none yet. */
static void map_all(uint64_t start, uint64_t end) {
    for (uint64_t i = start / slot_bytes, next; i < (end + slot_bytes - 1) / slot_bytes; i = next) {
        for (next = i + 1; handle[i] == 0 && next < (end + slot_bytes - 1) / slot_bytes && handle[next] == 0;)
            next++;
        if (handle[i] == 0)
            map_slots(i, next);
    }
}

/* The handles on which nothing else lies go. */
static void trim(uint64_t start, uint64_t end) {
    uint64_t first = (start + slot_bytes - 1) / slot_bytes, last = end / slot_bytes;
    if (first < last)
        unmap_slots(first, last);
}

static CUdeviceptr take(uint64_t place, uint64_t bytes) {
    map_all(place, place + bytes);
    if (told)
        report(segment + place, (int64_t)bytes);
    return segment + place;
}

static void give(CUdeviceptr p, uint64_t bytes) {
    if (told)
        report(p, -(int64_t)bytes);
}

static void train(void) {
    CUdeviceptr weight[LAYERS_MAX], momentum[LAYERS_MAX], active[LAYERS_MAX + 1];
    uint64_t bytes = floats * sizeof(float), middle = layers * bytes, behind = middle + (layers + 1) * bytes;
    CUstream s = new_stream();
    float rate = 0.01f, decay = 0.9f, half = 0.5f;
    for (uint64_t l = 0; l < layers; l++) {
        weight[l] = take(l * bytes, bytes);
        momentum[l] = take(behind + l * bytes, bytes);
        set(weight[l], 0.1f * (float)(l + 1), s);
        MUST(cuMemsetD32Async(momentum[l], 0, floats, s));
    }
    for (uint64_t step = 0; step < steps; step++) {
        active[0] = take(middle, bytes);
        set(active[0], 0.25f * (float)(step + 1), s);
        for (uint64_t l = 0; l < layers; l++) {
            active[l + 1] = take(middle + (l + 1) * bytes, bytes);
            LAUNCH(add, s, &active[l + 1], &active[l], &weight[l], &floats);
            LAUNCH(scale, s, &active[l + 1], &half, &floats);
        }
        for (uint64_t l = layers; l-- > 0;) {
            LAUNCH(scale, s, &momentum[l], &decay, &floats);
            accumulate(momentum[l], rate, active[l + 1], s);
            accumulate(weight[l], rate, momentum[l], s);
            give(active[l + 1], bytes);
        }
        give(active[0], bytes);
        if (step % 2) {
            MUST(cuStreamSynchronize(s));
            trim(middle, behind);
        }
    }
    MUST(cuStreamSynchronize(s));
    for (uint64_t l = 0; l < layers; l++) {
        print("weight", weight[l]);
        print("momentum", momentum[l]);
        give(weight[l], bytes);
        give(momentum[l], bytes);
    }
    for (uint64_t i = 0; i < slots; i++)
        if (handle[i])
            unmap_slots(i, i + 1);
    MUST(cuMemAddressFree(segment, slots * slot_bytes));
}

int main(int argc, char **argv) {
    CUmodule module;
    if (argc < 6)
        return 2;
    layers = strtoull(argv[1], NULL, 0);
    floats = (uint64_t)(strtod(argv[2], NULL) * MIB) / sizeof(float);
    steps = strtoull(argv[3], NULL, 0);
    slot_bytes = strtoull(argv[4], NULL, 0) * MIB;
    told = strcmp(argv[5], "told") == 0;
    (void)copy;
    (void)block_take;
    (void)block_give;
    (void)allocate;
    print_counters_at_exit();
    use_device();
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&fill, module, "fill"));
    MUST(cuModuleGetFunction(&scale, module, "scale"));
    MUST(cuModuleGetFunction(&axpy, module, "axpy"));
    MUST(cuModuleGetFunction(&add, module, "add"));
    reserve_segment();
    train();
    return 0;
}
