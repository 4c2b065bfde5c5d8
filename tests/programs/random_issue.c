/* The calls that give a work to a stream: many that do the same, one of them is chosen. */
#include "random_program.h"

enum { FORM_STEP = 7 };

static void launch(struct actor *a, const struct arguments *given, int stream, uint32_t form) {
    struct arguments copy = *given;
    void *parameters[8];
    CUstream s = a->stream[stream];
    CUfunction f = a->kernel[copy.kernel];
    size_t bytes = copy.size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, copy.bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {3, 1, 1, 64, 1, 1, .hStream = s};
    kernel_parameters(copy.kernel, copy.bytes, parameters);
    switch (form % 6) {
    case 0:
        CU(cuLaunchKernel, f, 1, 2, 1, 32, 1, 1, 0, s, NULL, extra);
        break;
    case 1:
        CU(cuLaunchKernelEx, &config, f, parameters, NULL);
        break;
    case 2:
        if (!a->capturing) {
            CU(cuLaunchCooperativeKernel, f, 4, 1, 1, 32, 1, 1, 0, s, parameters);
            break;
        } /* fall through */
    case 3:
        if (stream == PER_THREAD) {
            CU(cuLaunchKernel_ptsz, f, 2, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
            break;
        } /* fall through */
    default:
        CU(cuLaunchKernel, f, 8, 1, 1, 128, 1, 1, 0, s, parameters, NULL);
    }
}

static void set_line(struct actor *a, const CUDA_MEMSET_NODE_PARAMS *m, int stream, uint32_t form) {
    CUstream s = a->stream[stream];
    bool plain = stream == LEGACY && form % 2 && !a->capturing;
    if (m->elementSize == 1 && plain)
        CU(cuMemsetD8_v2, m->dst, (unsigned char)m->value, m->width);
    else if (m->elementSize == 1)
        CU(cuMemsetD8Async, m->dst, (unsigned char)m->value, m->width, s);
    else if (m->elementSize == 2 && plain)
        CU(cuMemsetD16_v2, m->dst, (unsigned short)m->value, m->width);
    else if (m->elementSize == 2)
        CU(cuMemsetD16Async, m->dst, (unsigned short)m->value, m->width, s);
    else if (plain)
        CU(cuMemsetD32_v2, m->dst, m->value, m->width);
    else if (stream == PER_THREAD && form % 2)
        CU(cuMemsetD32Async_ptsz, m->dst, m->value, m->width, NULL);
    else
        CU(cuMemsetD32Async, m->dst, m->value, m->width, s);
}

static void set_rows(struct actor *a, const CUDA_MEMSET_NODE_PARAMS *m, int stream, uint32_t form) {
    CUstream s = a->stream[stream];
    bool plain = stream == LEGACY && form % 2 && !a->capturing;
    if (m->elementSize == 1 && plain)
        CU(cuMemsetD2D8_v2, m->dst, m->pitch, (unsigned char)m->value, m->width, m->height);
    else if (m->elementSize == 1)
        CU(cuMemsetD2D8Async, m->dst, m->pitch, (unsigned char)m->value, m->width, m->height, s);
    else if (plain)
        CU(cuMemsetD2D32_v2, m->dst, m->pitch, m->value, m->width, m->height);
    else
        CU(cuMemsetD2D32Async, m->dst, m->pitch, m->value, m->width, m->height, s);
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *c) {
    return (CUDA_MEMCPY2D){.srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcPitch = c->srcPitch,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height};
}

static void copy_rows(struct actor *a, const CUDA_MEMCPY3D *c, int stream, uint32_t form) {
    CUDA_MEMCPY2D two = flat(c);
    bool waits = stream == LEGACY && form % 2 && !a->capturing;
    if (form % 4 < 2 && waits)
        CU(cuMemcpy2D_v2, &two);
    else if (form % 4 < 2)
        CU(cuMemcpy2DAsync_v2, &two, a->stream[stream]);
    else if (waits)
        CU(cuMemcpy3D_v2, c);
    else
        CU(cuMemcpy3DAsync_v2, c, a->stream[stream]);
}

/* Two copies in one call. */
static void copy_batch(const CUDA_MEMCPY3D *c, CUstream s) {
    size_t half = c->WidthInBytes / 2, bytes[] = {half, c->WidthInBytes - half}, index = 0;
    CUdeviceptr to[] = {c->dstDevice, c->dstDevice + half}, from[] = {c->srcDevice, c->srcDevice + half};
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CU(cuMemcpyBatchAsync_v2, to, from, bytes, 2, &how, &index, 1, s);
}

static void copy_line(struct actor *a, const CUDA_MEMCPY3D *c, int stream, uint32_t form) {
    CUstream s = a->stream[stream];
    bool waits = stream == LEGACY && form % 2 && !a->capturing;
    if (waits && form % 4 == 1)
        CU(cuMemcpyDtoD_v2, c->dstDevice, c->srcDevice, c->WidthInBytes);
    else if (waits)
        CU(cuMemcpy, c->dstDevice, c->srcDevice, c->WidthInBytes);
    else if (form % 8 == 2 && !a->capturing)
        CU(cuMemcpyPeerAsync, c->dstDevice, a->context, c->srcDevice, a->context, c->WidthInBytes, s);
    else if (form % 8 == 4 && !a->capturing && stream != LEGACY)
        copy_batch(c, s);
    else if (form % 8 == 6 && stream == PER_THREAD)
        CU(cuMemcpyAsync_ptsz, c->dstDevice, c->srcDevice, c->WidthInBytes, NULL);
    else if (form % 2)
        CU(cuMemcpyAsync, c->dstDevice, c->srcDevice, c->WidthInBytes, s);
    else
        CU(cuMemcpyDtoDAsync_v2, c->dstDevice, c->srcDevice, c->WidthInBytes, s);
}

static void copy_host(struct actor *a, const CUDA_MEMCPY3D *c, int stream, uint32_t form) {
    CUstream s = a->stream[stream];
    bool waits = stream == LEGACY && form % 2 && !a->capturing;
    if (c->srcMemoryType == CU_MEMORYTYPE_HOST && waits)
        CU(cuMemcpyHtoD_v2, c->dstDevice, c->srcHost, c->WidthInBytes);
    else if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
        CU(cuMemcpyHtoDAsync_v2, c->dstDevice, c->srcHost, c->WidthInBytes, s);
    else if (waits)
        CU(cuMemcpyDtoH_v2, c->dstHost, c->srcDevice, c->WidthInBytes);
    else
        CU(cuMemcpyDtoHAsync_v2, c->dstHost, c->srcDevice, c->WidthInBytes, s);
}

void work_issue(struct actor *a, const struct step *s, const struct work *w, int stream) {
    uint32_t form = s->form;
    bool host = w->copy.srcMemoryType == CU_MEMORYTYPE_HOST || w->copy.dstMemoryType == CU_MEMORYTYPE_HOST;
    order_before(a, stream, w->use, w->uses);
    if (w->kind == WORK_LAUNCH)
        launch(a, &w->arguments, stream, form);
    else if (w->kind == WORK_HOST)
        CU(cuLaunchHostFunc, a->stream[stream], w->host.fn, w->host.userData);
    else if (w->kind == WORK_MEMSET && w->memset.height == 1)
        set_line(a, &w->memset, stream, form);
    else if (w->kind == WORK_MEMSET)
        set_rows(a, &w->memset, stream, form);
    else if (w->copy.Height > 1 || (form % FORM_STEP == 0))
        copy_rows(a, &w->copy, stream, form);
    else if (host)
        copy_host(a, &w->copy, stream, form);
    else
        copy_line(a, &w->copy, stream, form);
    order_after(a, stream, w->use, w->uses);
}

void work_do(struct actor *a, const struct step *s) {
    struct work w;
    if (s->kind == STEP_GATHER || s->kind == STEP_SCATTER || s->kind == STEP_HIDDEN)
        work_point(a);
    work_prepare(a, s, &w);
    work_issue(a, s, &w, s->stream);
}
