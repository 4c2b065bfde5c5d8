/* Kernel launches, in every form the driver has. */
#include "interpose/wrappers/launch.h"

#include "base/hot.h"
#include "driver/session.h"
#include "interpose/record/wrap.h"
#include "launch/call_extents.h"
#include "launch/rules.h"
#include "launch/scan.h"
#include "observe/stats.h"

/* `extra` is a list of (key, value) pairs up to CU_LAUNCH_PARAM_END. */
static inline struct arguments arguments_of(void **parameters, void **extra) {
    struct arguments a = {.parameters = parameters};
    for (void **e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
            a.buffer = e[1];
        else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
            a.bytes = *(const size_t *)e[1];
    }
    return a;
}

static HOT void scan(struct op *op, const struct function *f, struct grid grid, const struct arguments *a) {
    if (a->buffer)
        scan_buffer(op, session.ledger, f, grid, a->buffer, a->bytes);
    else if (a->parameters && f->known)
        scan_parameters(op, session.ledger, f, grid, a->parameters);
    else if (a->parameters)
        scan_blindly(op, session.ledger, a->parameters);
}

/* f is ruled: the launch may follow addresses that lie in memory, and what it only reads be written. */
static SELDOM void ask_rules(struct op *op, const struct function *f, const struct arguments *a) {
    if (rules_hold(f, session.ledger, a))
        return;
    op->flags |= f->flags;
    scan_distrust(op, 0);
}

HOT void launch_touch(struct op *op, const struct function *f, struct grid grid, void **parameters, void **extra) {
    struct arguments a = arguments_of(parameters, extra);
    struct call *call = call_under_way();
    if (!call || !call_extents_suffice(call)) {
        if (__builtin_expect(f != NULL, 1))
            scan(op, f, grid, &a);
        else
            op->flags |= OP_BLIND;
    }
    if (call)
        call_extents_carry(call, op);
    else if (f && f->ruled)
        ask_rules(op, f, &a);
    else
        op->flags |= f ? f->flags : OP_ROAMS;
}

static inline void count(struct function *f, struct op *op) {
    op->function = f->id;
    if (op->flags & OP_UNMATCHED)
        __atomic_fetch_add(&f->unmatched, 1, __ATOMIC_RELAXED);
    if (!(op->flags & OP_CAPTURED))
        __atomic_fetch_add(&f->launches, 1, __ATOMIC_RELAXED);
}

static HOT bool open(struct op *op, enum api api, uint64_t stream, CUfunction f, struct grid grid, void **parameters,
                     void **extra) {
    if (!session_on)
        return false;
    stats_foresee();
    ledger_foresee(session.ledger);
    function_foresee((uint64_t)(uintptr_t)f);
    if (!wrap_open(op, api, OP_LAUNCH, stream))
        return false;
    struct function *function = function_of((uint64_t)(uintptr_t)f);
    launch_touch(op, function, grid, parameters, extra);
    if (__builtin_expect(function != NULL, 1))
        count(function, op);
    wrap_admit(op);
    return true;
}

static HOT CUresult close(struct op *op, CUresult status) {
    wrap_close(op, status);
    return status;
}

HOT CUresult custom_cuLaunchKernel(int variant, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams, void **extra) {
    pfn_cuLaunchKernel real = REAL(cuLaunchKernel, variant);
    struct op op;
    bool ours = open(&op, API_cuLaunchKernel, stream_key(variant, hStream), f, (struct grid){gridDimX, gridDimY},
                     kernelParams, extra);
    CUresult status = RUN(ours ? &op : NULL, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                                  sharedMemBytes, hStream, kernelParams, extra));
    return ours ? close(&op, status) : status;
}

HOT CUresult custom_cuLaunchKernelEx(int variant, const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                     void **extra) {
    pfn_cuLaunchKernelEx real = REAL(cuLaunchKernelEx, variant);
    struct op op;
    bool ours = config && open(&op, API_cuLaunchKernelEx, stream_key(variant, config->hStream), f,
                               (struct grid){config->gridDimX, config->gridDimY}, kernelParams, extra);
    CUresult status = RUN(ours ? &op : NULL, real(config, f, kernelParams, extra));
    return ours ? close(&op, status) : status;
}

CUresult custom_cuLaunchCooperativeKernel(int variant, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                          unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                          unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                          void **kernelParams) {
    pfn_cuLaunchCooperativeKernel real = REAL(cuLaunchCooperativeKernel, variant);
    struct op op;
    bool ours = open(&op, API_cuLaunchCooperativeKernel, stream_key(variant, hStream), f,
                     (struct grid){gridDimX, gridDimY}, kernelParams, NULL);
    CUresult status = RUN(ours ? &op : NULL, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                                  sharedMemBytes, hStream, kernelParams));
    return ours ? close(&op, status) : status;
}

/* Whether a stream goes on when its own kernel is done, and does not wait for the others'. */
enum { NO_WAIT_AFTER = 2 };

/* One call, one kernel a device: recorded as one operation that runs numDevices kernels. */
CUresult custom_cuLaunchCooperativeKernelMultiDevice(int variant, CUDA_LAUNCH_PARAMS *launchParamsList,
                                                     unsigned int numDevices, unsigned int flags) {
    pfn_cuLaunchCooperativeKernelMultiDevice real = REAL(cuLaunchCooperativeKernelMultiDevice, variant);
    struct op op;
    if (!launchParamsList || numDevices == 0 ||
        !wrap_open(&op, API_cuLaunchCooperativeKernelMultiDevice, OP_LAUNCH,
                   stream_key(variant, launchParamsList[0].hStream)))
        return real(launchParamsList, numDevices, flags);
    uint64_t others[DEVICE_MAX];
    op.kernels = numDevices;
    op.others = others;
    for (unsigned int i = 0; i < numDevices; i++) {
        const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];
        if (flags & NO_WAIT_AFTER && i > 0 && op.other_count < DEVICE_MAX)
            others[op.other_count++] = stream_key(variant, p->hStream);
        struct function *function = function_of((uint64_t)(uintptr_t)p->function);
        launch_touch(&op, function, (struct grid){p->gridDimX, p->gridDimY}, p->kernelParams, NULL);
        if (function)
            count(function, &op);
    }
    wrap_admit(&op);
    return close(&op, RUN(&op, real(launchParamsList, numDevices, flags)));
}

/* What its parameters are was told by calls that nobody looks at. */
static bool open_unread(struct op *op, enum api api, uint64_t stream) {
    if (!wrap_open(op, api, OP_LAUNCH, stream))
        return false;
    launch_touch(op, NULL, (struct grid){0}, NULL, NULL);
    wrap_admit(op);
    return true;
}

CUresult custom_cuLaunch(int variant, CUfunction f) {
    struct op op;
    bool ours = open_unread(&op, API_cuLaunch, stream_key(variant, NULL));
    CUresult status = RUN(ours ? &op : NULL, REAL(cuLaunch, variant)(f));
    return ours ? close(&op, status) : status;
}

CUresult custom_cuLaunchGrid(int variant, CUfunction f, int grid_width, int grid_height) {
    struct op op;
    bool ours = open_unread(&op, API_cuLaunchGrid, stream_key(variant, NULL));
    CUresult status = RUN(ours ? &op : NULL, REAL(cuLaunchGrid, variant)(f, grid_width, grid_height));
    return ours ? close(&op, status) : status;
}

CUresult custom_cuLaunchGridAsync(int variant, CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    struct op op;
    bool ours = open_unread(&op, API_cuLaunchGridAsync, stream_key(variant, hStream));
    CUresult status = RUN(ours ? &op : NULL, REAL(cuLaunchGridAsync, variant)(f, grid_width, grid_height, hStream));
    return ours ? close(&op, status) : status;
}
