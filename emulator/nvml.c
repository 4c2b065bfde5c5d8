/* A small libnvidia-ml.so.1 for the emulated devices. What of their memory is used it learns from the emulator's
 * libcuda.so.1 where this process has loaded it, otherwise from the file EMU_SHARED. */
#include "device.h"
#include "environment.h"
#include "nvml/abi.h"
#include "shared.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_int opened;

/* A handle is the address of one of these. */
static char places[DEVICES_MAX];

static unsigned devices_here(void) {
    uint64_t n = environment_number("EMU_DEVICES", 1);
    return n < DEVICES_MAX ? (unsigned)n : DEVICES_MAX;
}

/* -1: no such device. */
static int ordinal(nvmlDevice_t device) {
    ptrdiff_t i = (char *)device - places;
    return i >= 0 && i < (ptrdiff_t)devices_here() ? (int)i : -1;
}

typedef int (*memory_function)(int, uint64_t *, uint64_t *);
static _Atomic(memory_function) ask_driver; /* NULL: not loaded yet */

/* Trap: only until it is found, for it waits for the loader's lock. A child of a raw clone never gets that where
 * another thread had it. */
__attribute__((constructor)) static void find_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    memory_function found = NULL;
    if (driver)
        *(void **)&found = dlsym(driver, "emu_device_memory");
    atomic_store(&ask_driver, found);
}

static void read_memory(int device, uint64_t *used, uint64_t *total) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!atomic_load(&ask_driver))
        find_driver();
    memory_function ask = atomic_load(&ask_driver);
    if (!ask || ask(device, used, total) != 0) {
        pthread_once(&once, shared_open);
        *used = shared_memory(device).used;
        *total = environment_number("EMU_MEMORY", 8ull << 30);
    }
}

#define CHECK_OPEN()                                                                                                   \
    do {                                                                                                               \
        if (!atomic_load(&opened))                                                                                     \
            return NVML_ERROR_UNINITIALIZED;                                                                           \
    } while (0)
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        CHECK_OPEN();                                                                                                  \
        if (!(condition))                                                                                              \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                        \
    } while (0)

/* A function that does the same under a later name. */
#define SAME(symbol, other) EXPORT extern __typeof__(other) symbol __attribute__((alias(#other)))

EXPORT nvmlReturn_t nvmlInit(void) {
    atomic_fetch_add(&opened, 1);
    return NVML_SUCCESS;
}
SAME(nvmlInit_v2, nvmlInit);

EXPORT nvmlReturn_t nvmlShutdown(void) {
    CHECK_OPEN();
    atomic_fetch_sub(&opened, 1);
    return NVML_SUCCESS;
}

static nvmlReturn_t put_text(char *out, unsigned length, const char *text) {
    int n = out ? snprintf(out, length, "%s", text) : -1;
    return n < 0 ? NVML_ERROR_INVALID_ARGUMENT : (unsigned)n < length ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count) {
    CHECK(count);
    *count = devices_here();
    return NVML_SUCCESS;
}
SAME(nvmlDeviceGetCount_v2, nvmlDeviceGetCount);

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *out) {
    CHECK(out && index < devices_here());
    *out = (nvmlDevice_t)&places[index];
    return NVML_SUCCESS;
}
SAME(nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetHandleByIndex);

/* The bytes that cuDeviceGetUuid answers, as text; of a part of a device as newer drivers name it, or older ones. */
static void uuid_text(int device, char out[64]) {
    uint64_t mig = environment_number("EMU_MIG", 0);
    const char *begins = mig == 2 ? "MIG-GPU-" : mig ? "MIG-" : "GPU-";
    snprintf(out, 64, "%s656d756c-6174-6564-2d67-70752d0000%02x%s", begins, (unsigned)device, mig == 2 ? "/1/0" : "");
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned length) {
    char text[64];
    CHECK(ordinal(device) >= 0);
    uuid_text(ordinal(device), text);
    return put_text(out, length, text);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *wanted, nvmlDevice_t *out) {
    CHECK(wanted && out);
    for (unsigned i = 0; i < devices_here(); i++) {
        char text[64];
        uuid_text((int)i, text);
        if (strcmp(text, wanted) == 0)
            return nvmlDeviceGetHandleByIndex(i, out);
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned length) {
    CHECK(ordinal(device) >= 0);
    return put_text(out, length, "Emulated GPU");
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    uint64_t used, total;
    CHECK(memory && ordinal(device) >= 0);
    read_memory(ordinal(device), &used, &total);
    memory->total = total;
    memory->reserved = 0;
    memory->used = used;
    memory->free = total - used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlMemory_v2_t all;
    CHECK(memory);
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo_v2(device, &all);
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = all.total, .used = all.used, .free = all.free};
    return result;
}
