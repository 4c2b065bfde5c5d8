/* Launches while everything fits, counted by callgrind in counted_launches.
 *
 *   refit before   nothing ever moved
 *   refit after    more was allocated than fits, used, and freed again
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "emu.h"
#include "framework.h"

USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamSynchronize)

enum { BLOCK_BYTES = 4 << 20, KEPT = 4, BLOCKS = 16, LAUNCHES = 256, LOOK_NS = 50000000 };

static void touch(struct emu_launch *l) {
    unsigned *word = emu_use(l, EMU_ARG(l, CUdeviceptr, 0), BLOCK_BYTES, EMU_UPDATE);
    word[0]++;
}

static const struct emu_param parameters[] = {{0, sizeof(CUdeviceptr)}};
static const struct emu_kernel kernel = {"touch", parameters, 1, touch};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

static CUfunction function;
static CUstream stream;
static CUdeviceptr block[BLOCKS];

static void allocate(int first, int end) {
    for (int i = first; i < end; i++) {
        MUST(cuMemAlloc_v2(&block[i], BLOCK_BYTES));
        report(block[i], BLOCK_BYTES);
    }
}

static void launch(int i) {
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&block[i]}, NULL));
}

__attribute__((noinline)) static void counted_launches(void) {
    for (int i = 0; i < LAUNCHES; i++)
        launch(i % KEPT);
}

static uint64_t unread(void) {
    uint64_t (*counter)(const char *) = (uint64_t (*)(const char *))dlsym(RTLD_DEFAULT, "ulms_counter");
    return counter("launches_unread");
}

/* Until launches are not looked at any more. */
static void wait_until_all_fits(void) {
    for (uint64_t before; before = unread(), launch(0), unread() == before;) {
        MUST(cuStreamSynchronize(stream));
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
}

int main(int argc, char **argv) {
    CUmodule module;
    use_device();
    stream = new_stream();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, "touch"));
    allocate(0, KEPT);
    if (argc > 1 && strcmp(argv[1], "after") == 0) {
        allocate(KEPT, BLOCKS);
        for (int i = 0; i < 2 * BLOCKS; i++)
            launch(i % BLOCKS);
        MUST(cuStreamSynchronize(stream));
        for (int i = KEPT; i < BLOCKS; i++) {
            report(block[i], -BLOCK_BYTES);
            MUST(cuMemFree_v2(block[i]));
        }
    }
    wait_until_all_fits();
    for (int i = 0; i < LAUNCHES; i++) /* what is done once is done */
        launch(i % KEPT);
    MUST(cuStreamSynchronize(stream));
    counted_launches();
    MUST(cuStreamSynchronize(stream));
    return 0;
}
