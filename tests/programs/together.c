/* A recurrent network over more memory than a budget lets it keep, by a library whose kernels are one operation.
 *
 * together THREADS LAYERS MIB STEPS [work|own|turns] prints a sum for each layer of each thread, and counters. work,
 * own: in the middle of a call memory is cleared that it was handed, or that is the library's. turns: no thread begins
 * before the last one has ended. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "device.h"
#include "library.h"

USE(cuCtxSynchronize)
USE(cuStreamSynchronize)
USE(cuMemAlloc_v2)
USE(cuMemsetD8Async)
USE(cuMemcpyDtoH_v2)
USE(cudnnRNNForward)

enum { LAYERS_MAX = 16, THREADS_MAX = 4 };

static CUcontext context;
static int layers, steps;
static size_t bytes;
static void *clears; /* a descriptor that says what is cleared; NULL: nothing */
static CUdeviceptr reserve[THREADS_MAX][LAYERS_MAX];

static CUdeviceptr filled(unsigned char value, CUstream stream) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, bytes));
    MUST(cuMemsetD8Async(p, value, bytes, stream));
    return p;
}

static void *run(void *argument) {
    int thread = (int)(intptr_t)argument;
    CUdeviceptr weights[LAYERS_MAX];
    MUST(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    CUdeviceptr work = filled(3, stream);
    for (int i = 0; i < layers; i++) {
        weights[i] = filled((unsigned char)(7 * i + thread + 1), stream);
        reserve[thread][i] = filled((unsigned char)i, stream);
    }
    for (int i = 0; i < steps * layers; i++) {
        MUST(cuMemsetD8Async(weights[i % layers] + bytes / 3, (unsigned char)i, bytes / 3, stream));
        int status =
            (int)cudnnRNNForward((cudnnHandle_t)stream, clears, CUDNN_FWD_MODE_TRAINING, NULL, NULL, NULL, NULL, NULL,
                                 NULL, NULL, NULL, NULL, NULL, NULL, bytes, (void *)(uintptr_t)weights[i % layers],
                                 bytes, (void *)(uintptr_t)work, bytes, (void *)(uintptr_t)reserve[thread][i % layers]);
        if (status) { /* the context goes on */
            fprintf(stderr, "refused %d, then %d\n", status, (int)cuCtxSynchronize());
            exit(1);
        }
    }
    MUST(cuStreamSynchronize(stream));
    return NULL;
}

static void print_sums(int thread) {
    uint32_t *host = malloc(bytes);
    for (int i = 0; i < layers; i++) {
        uint64_t sum = 0;
        MUST(cuMemcpyDtoH_v2(host, reserve[thread][i], bytes));
        for (size_t at = 0; at < bytes / sizeof *host; at++)
            sum = sum * 31 + host[at];
        printf("layer %d of %d: %llx\n", i, thread, (unsigned long long)sum);
    }
    free(host);
}

int main(int argc, char **argv) {
    if (argc < 5 || atoi(argv[1]) > THREADS_MAX || atoi(argv[2]) > LAYERS_MAX)
        return 2;
    int threads = atoi(argv[1]);
    pthread_t others[threads];
    layers = atoi(argv[2]);
    bytes = (size_t)atoi(argv[3]) << 20;
    steps = atoi(argv[4]);
    const char *how = argc > 5 ? argv[5] : "";
    bool turns = strcmp(how, "turns") == 0;
    clears = *how && !turns ? argv[5] : NULL;
    print_counters_at_exit();
    context = use_device();
    for (int i = 0; i < threads; i++) {
        pthread_create(&others[i], NULL, run, (void *)(intptr_t)i);
        if (turns)
            pthread_join(others[i], NULL);
    }
    for (int i = 0; i < threads && !turns; i++)
        pthread_join(others[i], NULL);
    for (int i = 0; i < threads; i++)
        print_sums(i);
    return 0;
}
