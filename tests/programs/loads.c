/* loads PLAIN LOADING: allocates while another thread loads a library that allocates as it is loaded. The first library
 * is one whose memory stays plain. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "device.h"

USE(cuMemAlloc_v2)

enum { MIB = 1 << 20, PATIENCE_S = 150 };

extern CUcontext program_context;
extern bool program_loading;

CUcontext program_context;
bool program_loading;

static void *load(void *path) {
    if (!dlopen(path, RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t other;
    CUdeviceptr p;
    if (argc < 3)
        return 2;
    alarm(PATIENCE_S);
    program_context = use_device();
    MUST(cuMemAlloc_v2(&p, 4 * MIB)); /* what is looked up for that waits for the loader, too */
    load(argv[1]);
    if (pthread_create(&other, NULL, load, argv[2]))
        return 1;
    while (!__atomic_load_n(&program_loading, __ATOMIC_ACQUIRE))
        sched_yield();
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    pthread_join(other, NULL);
    return 0;
}
