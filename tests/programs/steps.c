/* Programs of several shapes over more memory than a budget lets them keep, for the backends that move memory.
 *
 * steps SHAPE LAYERS MIB STEPS [NAME]...: LAYERS buffers of MIB MiB for each thing of which the shape has one a layer.
 * Prints what it computed: the same under every policy and without ulms.so. Under ulms.so "counter NAME VALUE" follows
 * for each of its counters, and "driver NAME CALLS" for each NAME that follows STEPS: calls that are not the program's
 * own, which never fail on demand; "driver failed CALLS": those that did. */
#define _GNU_SOURCE
#include "steps.h"

#include <pthread.h>

#include "counters.h"
#include "part.h"

enum { THREADS = 3 };

#define LEGACY ((CUstream)1)
#define OWN    ((CUstream)2)

/* Weights, their momentum, and activations that live from the forward to the backward pass. */
static void train(void) {
    CUdeviceptr weight[LAYERS_MAX], momentum[LAYERS_MAX], active[LAYERS_MAX + 1];
    CUstream s = new_stream();
    float *input = malloc(floats * sizeof *input), rate = 0.01f, decay = 0.9f, half = 0.5f;
    MUST(cuMemAlloc_v2(&arena, (layers + 1) * floats * sizeof(float)));
    for (uint64_t l = 0; l < layers; l++) {
        weight[l] = allocate();
        momentum[l] = allocate();
        set(weight[l], 0.1f * (float)(l + 1), s);
        MUST(cuMemsetD32Async(momentum[l], 0, floats, s));
    }
    for (uint64_t step = 0; step < steps; step++) {
        MUST(cuStreamSynchronize(s));
        for (uint64_t i = 0; i < floats; i++)
            input[i] = (float)((i * 7 + step) % 13) / 13;
        active[0] = block_take();
        MUST(cuMemcpyHtoD_v2(active[0], input, floats * sizeof *input));
        for (uint64_t l = 0; l < layers; l++) {
            active[l + 1] = block_take();
            LAUNCH(add, s, &active[l + 1], &active[l], &weight[l], &floats);
            LAUNCH(scale, s, &active[l + 1], &half, &floats);
        }
        MUST(cuStreamSynchronize(s));
        for (uint64_t l = layers; l-- > 0;) {
            LAUNCH(scale, s, &momentum[l], &decay, &floats);
            accumulate(momentum[l], rate, active[l + 1], s);
            accumulate(weight[l], rate, momentum[l], s);
            block_give(active[l + 1]);
        }
        block_give(active[0]);
    }
    MUST(cuStreamSynchronize(s));
    for (uint64_t l = 0; l < layers; l++) {
        print("weight", weight[l]);
        print("momentum", momentum[l]);
    }
    free(input);
}

/* Weights that are only read, layer after layer; `s` and what the result is called. */
static void infer_on(CUstream s, const char *name) {
    CUdeviceptr weight[LAYERS_MAX], state = allocate();
    float part = 0.001f;
    for (uint64_t l = 0; l < layers; l++) {
        weight[l] = allocate();
        set(weight[l], (float)(l + 1), s);
    }
    set(state, 1, s);
    for (uint64_t step = 0; step < steps; step++) {
        for (uint64_t l = 0; l < layers; l++)
            accumulate(state, part, weight[l], s);
        MUST(cuStreamSynchronize(s));
    }
    print(name, state);
    for (uint64_t l = 0; l < layers; l++)
        MUST(cuMemFree_v2(weight[l]));
    MUST(cuMemFree_v2(state));
}

static void infer(void) {
    CUstream s;
    MUST(cuStreamCreate(&s, 0));
    infer_on(s, "infer");
    MUST(cuStreamDestroy_v2(s));
}

static void defaults(void) {
    infer_on(NULL, "null");
    infer_on(LEGACY, "legacy");
    infer_on(OWN, "own");
}

static CUcontext context;

static void *one_thread(void *name) {
    MUST(cuCtxSetCurrent(context));
    CUstream s = new_stream();
    infer_on(strcmp(name, "1") ? s : OWN, "thread");
    MUST(cuStreamDestroy_v2(s));
    return NULL;
}

static void several_threads(void) {
    pthread_t thread[THREADS];
    static char names[THREADS][2] = {"0", "1", "2"};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, one_thread, names[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* A chain over two streams: each layer is computed on one from the layer before, on the other. */
static void two_streams(void) {
    CUdeviceptr value[LAYERS_MAX];
    CUstream s[2];
    CUevent done[2];
    float grow = 0.25f;
    for (int i = 0; i < 2; i++) {
        MUST(cuStreamCreate(&s[i], i));
        MUST(cuEventCreate(&done[i], 2));
    }
    for (uint64_t l = 0; l < layers; l++) {
        value[l] = allocate();
        set(value[l], (float)l, s[l % 2]);
    }
    MUST(cuCtxSynchronize());
    for (uint64_t step = 0; step < steps; step++) {
        for (uint64_t l = 1; l < layers; l++) {
            accumulate(value[l], grow, value[l - 1], s[l % 2]);
            MUST(cuEventRecord(done[l % 2], s[l % 2]));
            MUST(cuStreamWaitEvent(s[1 - l % 2], done[l % 2], 0));
        }
        MUST(cuMemcpyDtoDAsync_v2(value[0], value[layers - 1], floats * sizeof(float), s[layers % 2]));
        MUST(cuStreamSynchronize(s[layers % 2]));
    }
    for (int i = 0; i < 2; i++) {
        MUST(cuStreamDestroy_v2(s[i])); /* work may be left in it */
        MUST(cuEventDestroy_v2(done[i]));
    }
    for (uint64_t l = 0; l < layers; l++)
        print("value", value[l]);
}

static void *meanwhile(void *unused) {
    MUST(cuCtxSetCurrent(context));
    infer_on(OWN, "meanwhile");
    return unused;
}

/* A captured step, launched again and again; at the same time another thread launches by itself. */
static void graph(void) {
    CUdeviceptr weight[LAYERS_MAX], state = allocate();
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    pthread_t other;
    float part = 0.001f;
    set(state, 1, s);
    for (uint64_t l = 0; l < layers; l++) {
        weight[l] = allocate();
        set(weight[l], (float)(l + 1), s);
    }
    pthread_create(&other, NULL, meanwhile, NULL);
    for (uint64_t step = 0; step < steps; step++) {
        MUST(cuStreamBeginCapture_v2(s,
                                     step % 2 ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        for (uint64_t l = step % layers; l < layers && l < step % layers + 2; l++)
            accumulate(state, part, weight[l], s);
        MUST(cuStreamEndCapture(s, &graph));
        MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cuGraphLaunch(exec, s));
        MUST(cuGraphLaunch(exec, s));
        MUST(cuStreamSynchronize(s));
        MUST(cuGraphExecDestroy(exec));
        MUST(cuGraphDestroy(graph));
    }
    pthread_join(other, NULL);
    print("graph", state);
}

/* Another graph is given a part of a block. */
static void divide_anew(CUdeviceptr block, CUstream s) {
    CUgraph graph;
    int64_t part = (int64_t)(floats * sizeof(float) / 4);
    MUST(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    report(block, part);
    MUST(cuStreamEndCapture(s, &graph));
    report(block, -part);
    MUST(cuGraphDestroy(graph));
}

/* Blocks given out while a graph is captured and taken back right after: the graph goes on using them, and what it left
 * there is used behind it, though the framework has given a part of one to another graph. */
static void pool(void) {
    CUdeviceptr block[LAYERS_MAX], sum = allocate(), left = allocate();
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    float one = 1;
    MUST(cuMemAlloc_v2(&arena, (layers + 1) * floats * sizeof(float)));
    MUST(cuMemsetD32Async(arena, 0, (layers + 1) * floats, s));
    set(sum, 0, s);
    MUST(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (uint64_t l = 0; l < layers; l++) {
        block[l] = block_take();
        accumulate(block[l], one, sum, s);
        accumulate(sum, one, block[l], s);
    }
    MUST(cuStreamEndCapture(s, &graph));
    for (uint64_t l = 0; l < layers; l++)
        block_give(block[l]);
    divide_anew(block[0], s);
    MUST(cuStreamSynchronize(s));
    usleep(50 * 1000); /* what has been done is known soon after */
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint64_t step = 0; step < steps; step++) {
        infer_on(s, "between");
        set(sum, (float)step, s);
        MUST(cuGraphLaunch(exec, s));
        infer_on(s, "behind");
        set(left, 0, s);
        for (uint64_t l = 0; l < layers; l++)
            accumulate(left, one, block[l], s);
        MUST(cuStreamSynchronize(s));
        print("left", left);
    }
    MUST(cuStreamSynchronize(s));
    print("sum", sum);
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

/* Memory that comes and goes, freed while work on it is under way. */
static void churn(void) {
    CUdeviceptr value[LAYERS_MAX], sum = allocate(), brief;
    CUstream s = new_stream();
    float one = 1;
    set(sum, 0, s);
    for (uint64_t step = 0; step < steps; step++) {
        for (uint64_t l = 0; l < layers; l++) {
            value[l] = allocate();
            set(value[l], (float)(l + step), s);
        }
        for (uint64_t l = 0; l < layers; l++) {
            MUST(cuMemAllocAsync(&brief, floats * sizeof(float), s));
            LAUNCH(copy, s, &brief, &value[l], &floats);
            accumulate(sum, one, brief, s);
            MUST(cuMemFreeAsync(brief, s));
        }
        for (uint64_t l = 0; l < layers; l += 1 + step % 2)
            MUST(cuMemFree_v2(value[l]));
        for (uint64_t l = 1; step % 2 && l < layers; l += 2)
            MUST(cuMemFree_v2(value[l]));
    }
    MUST(cuStreamSynchronize(s));
    print("sum", sum);
}

/* Contexts of the program's own, each destroyed with its memory and work in it. */
static void contexts(void) {
    for (uint64_t step = 0; step < steps; step++) {
        CUcontext own;
        CUmodule module;
        MUST(cuCtxCreate_v2(&own, 0, 0));
        MUST(cuModuleLoadData(&module, "emu:builtin"));
        MUST(cuModuleGetFunction(&fill, module, "fill"));
        MUST(cuModuleGetFunction(&axpy, module, "axpy"));
        uint64_t all = steps;
        steps = 2;
        infer_on(LEGACY, "context");
        steps = all;
        set(allocate(), 1, NULL);
        MUST(cuCtxDestroy_v2(own));
    }
}

/* Memory that kernels reach through an address no argument shows, among memory that they reach openly: allocated so,
 * and given out again by a framework after it was used openly. */
static void hidden(void) {
    CUdeviceptr secret[LAYERS_MAX], open[LAYERS_MAX], block[LAYERS_MAX], variable;
    CUmodule module;
    CUfunction write_hidden;
    CUstream s;
    size_t bytes;
    float one = 1;
    MUST(cuStreamCreate(&s, 0));
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&write_hidden, module, "write_hidden"));
    MUST(cuModuleGetGlobal_v2(&variable, &bytes, module, "hidden"));
    for (uint64_t l = 0; l < layers; l++) {
        float value = (float)l;
        secret[l] = allocate();
        open[l] = allocate();
        MUST(cuMemcpyHtoD_v2(variable, &secret[l], sizeof secret[l]));
        LAUNCH(write_hidden, s, &value, &floats);
        set(open[l], value, s);
    }
    MUST(cuMemAlloc_v2(&arena, (layers + 1) * floats * sizeof(float)));
    for (uint64_t l = 0; l < layers; l++) {
        float value = 10 + (float)l;
        block[l] = block_take();
        set(block[l], one, s);
        MUST(cuStreamSynchronize(s));
        block_give(block[l]);
        block[l] = block_take();
        MUST(cuMemcpyHtoD_v2(variable, &block[l], sizeof block[l]));
        LAUNCH(write_hidden, s, &value, &floats);
    }
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t l = 0; l < layers; l++)
            accumulate(open[l], one, open[(l + 1) % layers], s);
    MUST(cuStreamSynchronize(s));
    for (uint64_t l = 0; l < layers; l++) {
        print("secret", secret[l]);
        print("block", block[l]);
        print("open", open[l]);
    }
}

static void note(void *data) {
    ++*(int *)data;
}

/* Host functions in between, the program's own managed memory, and exit with work under way. */
static void host(void) {
    CUdeviceptr value[LAYERS_MAX];
    CUstream s;
    int notes = 0;
    float grow = 0.5f;
    MUST(cuStreamCreate(&s, 0));
    for (uint64_t l = 0; l < layers; l++) {
        MUST(cuMemAllocManaged(&value[l], floats * sizeof(float), 1));
        set(value[l], (float)l, s);
    }
    for (uint64_t step = 0; step < steps; step++)
        for (uint64_t l = 0; l < layers; l++) {
            accumulate(value[l], grow, value[(l + 1) % layers], s);
            MUST(cuLaunchHostFunc(s, note, &notes));
        }
    MUST(cuStreamSynchronize(s));
    printf("notes %d\n", notes);
    for (uint64_t l = 0; l < layers; l++)
        print("value", value[l]);
    for (uint64_t l = 0; l < layers; l++)
        set(value[l], 0, s);
}

static const struct part shapes[] = {
    {"train", train},         {"infer", infer}, {"defaults", defaults}, {"threads", several_threads},
    {"streams", two_streams}, {"graph", graph}, {"pool", pool},         {"churn", churn},
    {"contexts", contexts},   {"host", host},   {"hidden", hidden},     {NULL, NULL}};

static void print_calls(char **names, int n) {
    for (int i = 0; i < n; i++)
        printf("driver %s %llu\n", names[i], (unsigned long long)(emu_calls(names[i]) - emu_calls_spared(names[i])));
    printf("driver failed %llu\n", (unsigned long long)emu_failed());
}

int main(int argc, char **argv) {
    CUmodule module;
    if (argc < 5)
        return 2;
    layers = strtoull(argv[2], NULL, 0);
    floats = (strtoull(argv[3], NULL, 0) << 20) / sizeof(float);
    steps = strtoull(argv[4], NULL, 0);
    print_counters_at_exit();
    context = use_device();
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    struct {
        CUfunction *f;
        const char *name;
    } kernels[] = {{&fill, "fill"}, {&copy, "copy"}, {&scale, "scale"}, {&axpy, "axpy"}, {&add, "add"}};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        MUST(cuModuleGetFunction(kernels[i].f, module, kernels[i].name));
    int status = run_part(shapes, argc, argv);
    print_calls(argv + 5, argc - 5);
    return status;
}
