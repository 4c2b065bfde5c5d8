/* Memory of another process: a child allocates it, the parent uses it.
 *
 * Prints after each step "STEP USED COPIED", of the device's ledger and of copies whose bytes were seen, then
 * "BYTES/CHARGED/KIND" for each allocation that ulms.so has. Without it there are none, and the numbers are 0. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "counters.h"
#include "device.h"

USE(cuMemAlloc_v2)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpyDtoH_v2)
USE(cuIpcGetMemHandle)
USE(cuIpcOpenMemHandle_v2)
USE(cuIpcCloseMemHandle)
USE(cuMemCreate)
USE(cuMemRelease)
USE(cuMemExportToShareableHandle)
USE(cuMemImportFromShareableHandle)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemMap)
USE(cuMemUnmap)
USE(cuMemSetAccess)

enum { PLAIN = 3 << 20, MAPPED = 4 << 20 };
static const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

struct offer {
    CUipcMemHandle plain;
    int mapped; /* a file of the child's */
};

static void tell(const char *step) {
    size_t (*list)(struct ulms_allocation *, size_t) =
        (size_t (*)(struct ulms_allocation *, size_t))dlsym(RTLD_DEFAULT, "ulms_allocations");
    const struct ulms_stats *(*stats)(void) = (const struct ulms_stats *(*)(void))dlsym(RTLD_DEFAULT, "ulms_stats");
    counter_reader counter = find_counter();
    struct ulms_allocation live[8];
    size_t n = list ? list(live, 8) : 0;
    printf("%s %llu %llu", step, stats ? (unsigned long long)stats()->memory[0].used : 0,
           counter ? (unsigned long long)counter("copied_bytes") : 0);
    for (size_t i = 0; i < n; i++)
        printf(" %llu/%llu/%u", (unsigned long long)live[i].bytes, (unsigned long long)live[i].charged, live[i].kind);
    printf("\n");
}

/* Offers memory until the parent closes its end. */
static int offer(int to, int until) {
    CUdeviceptr plain;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = device,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    struct offer o;
    char end;
    use_device();
    MUST(cuMemAlloc_v2(&plain, PLAIN));
    MUST(cuIpcGetMemHandle(&o.plain, plain));
    MUST(cuMemCreate(&handle, MAPPED, &prop, 0));
    MUST(cuMemExportToShareableHandle(&o.mapped, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return write(to, &o, sizeof o) != sizeof o || read(until, &end, 1) != 0;
}

/* Words there and back: the memory is the one that was meant. */
static void use(CUdeviceptr p, size_t bytes) {
    unsigned wrote = 0x5eed, read = 0;
    MUST(cuMemcpyHtoD_v2(p + bytes - sizeof wrote, &wrote, sizeof wrote));
    MUST(cuMemcpyDtoH_v2(&read, p + bytes - sizeof wrote, sizeof read));
    if (read != wrote)
        abort();
}

static void import_plain(const struct offer *o) {
    CUdeviceptr p;
    MUST(cuIpcOpenMemHandle_v2(&p, o->plain, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    use(p, PLAIN);
    tell("opened");
    MUST(cuIpcCloseMemHandle(p));
    tell("closed");
}

static void import_mapped(const struct offer *o, pid_t child) {
    CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child, o->mapped);
    int file = open(path, O_RDWR | O_CLOEXEC);
    MUST(cuMemImportFromShareableHandle(&handle, (void *)(long)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    MUST(cuMemAddressReserve(&p, MAPPED, 0, 0, 0));
    MUST(cuMemMap(p, MAPPED, 0, handle, 0));
    MUST(cuMemSetAccess(p, MAPPED, &access, 1));
    use(p, MAPPED);
    tell("mapped");
    MUST(cuMemRelease(handle));
    tell("released");
    MUST(cuMemUnmap(p, MAPPED));
    MUST(cuMemAddressFree(p, MAPPED));
    tell("unmapped");
}

int main(void) {
    int offered[2], until[2], status;
    struct offer o;
    if (pipe(offered) || pipe(until))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(until[1]);
        _exit(offer(offered[1], until[0]));
    }
    close(offered[1]);
    if (read(offered[0], &o, sizeof o) != sizeof o)
        return 1;
    use_device();
    import_plain(&o);
    import_mapped(&o, child);
    close(until[1]);
    waitpid(child, &status, 0);
    return status;
}
