/* Answers about memory, as the ledger has it: what the program may hold is the capacity, and all its questions agree.
 */
#include "base/capacity.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/reserved.h"
#include "interpose/replace/provide.h"

#include <string.h>

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static uint64_t used_on(int device) {
    return session_on && device >= 0 ? ledger_used(session.ledger, device) : 0;
}

/* What a program limited to the capacity, above 0, sees free of `free_bytes`; device may be DEVICE_NONE. */
static uint64_t free_within(uint64_t capacity, int device, uint64_t free_bytes) {
    uint64_t left = less(capacity, used_on(device) + capacity_others(device));
    return capacity_is_group(device) ? left : smaller(free_bytes, left);
}

/* What would be free if all memory were plain. The driver told free_bytes, in which absent pages are free. */
static uint64_t free_if_plain(int device, uint64_t free_bytes) {
    uint64_t room = provide_room(device);
    return room && ledger_managed(session.ledger) > 0 ? less(room, used_on(device)) : free_bytes + provide_held(device);
}

CUresult custom_cuMemGetInfo_v2(int variant, size_t *free, size_t *total) {
    CUresult status = REAL(cuMemGetInfo_v2, variant)(free, total);
    int device = context_device();
    session_uses(device);
    uint64_t capacity = session_on ? capacity_of(device) : 0;
    if (status != CUDA_SUCCESS)
        return status;
    reserved_look_again(device, false);
    if (free)
        *free = free_if_plain(device, *free);
    if (total && capacity)
        *total = capacity = smaller(*total, capacity);
    if (free && capacity)
        *free = free_within(capacity, device, *free);
    return status;
}

CUresult custom_cuDeviceTotalMem_v2(int variant, size_t *bytes, CUdevice dev) {
    CUresult status = REAL(cuDeviceTotalMem_v2, variant)(bytes, dev);
    session_uses(dev);
    uint64_t capacity = session_on ? capacity_of(dev) : 0;
    if (status == CUDA_SUCCESS && bytes && capacity)
        *bytes = smaller(*bytes, capacity);
    return status;
}

enum { UUID_TEXT = 36 };

/* 8-4-4-4-12 hexadecimal digits, the way NVML writes what the driver gives as 16 bytes. */
static void uuid_text(const unsigned char *b, char out[UUID_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[b[i] >> 4];
        *out++ = digits[b[i] & 15];
    }
}

static bool is_named(CUresult status, const CUuuid *uuid, const char *digits) {
    char known[UUID_TEXT];
    if (status != CUDA_SUCCESS)
        return false;
    uuid_text((const unsigned char *)uuid->bytes, known);
    return strncmp(known, digits, UUID_TEXT) == 0;
}

/* "GPU-digits"; a MIG device is "MIG-digits", which the driver's newer question answers, or, of older drivers,
 * "MIG-GPU-digits/i/j" with those of the device that it is part of. */
static int ordinal_of(nvmlDevice_t device) {
    char asked[96] = "";
    CUuuid own, parent;
    if (!session_on || REAL(nvmlDeviceGetUUID, 0)(device, asked, sizeof asked) != NVML_SUCCESS)
        return DEVICE_NONE;
    const char *digits = asked + (strncmp(asked, "MIG-", 4) == 0 ? 4 : 0);
    digits += strncmp(digits, "GPU-", 4) == 0 ? 4 : 0;
    for (int d = 0; d < session.devices; d++)
        if (is_named(REAL(cuDeviceGetUuid_v2, 0)(&own, d), &own, digits) ||
            is_named(REAL(cuDeviceGetUuid, 0)(&parent, d), &parent, digits))
            return d;
    return DEVICE_NONE;
}

/* False: nothing is limited. */
static bool limit(nvmlDevice_t device, unsigned long long *total, unsigned long long *free, unsigned long long *used) {
    int ordinal = ordinal_of(device);
    session_uses(ordinal);
    uint64_t capacity = ordinal == DEVICE_NONE ? options_capacity_early() : capacity_of(ordinal);
    if (!capacity)
        return false;
    *total = smaller(*total, capacity);
    *free = free_within(*total, ordinal, *free);
    *used = *total - smaller(*free, *total);
    return true;
}

nvmlReturn_t custom_nvmlDeviceGetMemoryInfo(int variant, nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t status = REAL(nvmlDeviceGetMemoryInfo, variant)(device, memory);
    if (status == NVML_SUCCESS && memory)
        limit(device, &memory->total, &memory->free, &memory->used);
    return status;
}

nvmlReturn_t custom_nvmlDeviceGetMemoryInfo_v2(int variant, nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlReturn_t status = REAL(nvmlDeviceGetMemoryInfo_v2, variant)(device, memory);
    if (status == NVML_SUCCESS && memory && limit(device, &memory->total, &memory->free, &memory->used))
        memory->reserved = 0; /* counted in what is not free */
    return status;
}
