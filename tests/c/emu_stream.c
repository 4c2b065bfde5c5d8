/* Streams and events: who waits for whom, and who does not. */
#include "emu_api.h"

#include <stdatomic.h>

/* Host functions in a stream note the order in which they ran. */
static _Atomic int next_place;

static void note(void *place) {
    *(int *)place = atomic_fetch_add(&next_place, 1);
}

/* Waits until the test opens it. */
static _Atomic int note_opened;

static void late_note(void *place) {
    while (!note_opened)
        sleep_ms(1);
    note(place);
}

TEST(a_stream_keeps_its_order) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4);
    OK(fill(s, p, 1, 1));
    for (int i = 0; i < 100; i++)
        OK(scale(s, p, i % 2 ? 0.5f : 2, 1));
    OK(fill(s, p, 3, 1));
    OK(scale(s, p, 2, 1));
    OK(cuStreamSynchronize(s));
    OK(cuStreamQuery(s));
    CHECK(first_float(p) == 6);
}

TEST(streams_run_beside_each_other) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    _Atomic uint32_t *gate = close_gate(a);
    int place = -1;
    OK(cuLaunchHostFunc(b, note, &place));
    OK(cuStreamSynchronize(b));
    CHECK_EQ(place, 0);
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    *gate = 1;
    OK(cuStreamSynchronize(a));
}

TEST(the_legacy_stream_waits_for_blocking_streams_and_they_for_it) {
    begin();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), apart = new_stream(CU_STREAM_NON_BLOCKING);
    int first = -1, second = -1, third = -1, other = -1;
    OK(cuLaunchHostFunc(blocking, late_note, &first));
    OK(cuLaunchHostFunc(NULL, note, &second));
    OK(cuLaunchHostFunc(blocking, note, &third));
    OK(cuLaunchHostFunc(apart, note, &other));
    OK(cuStreamSynchronize(apart));
    sleep_ms(20); /* in which others do not begin */
    note_opened = 1;
    OK(cuCtxSynchronize());
    CHECK_EQ(other, 0);
    CHECK_EQ(first, 1);
    CHECK_EQ(second, 2);
    CHECK_EQ(third, 3);
}

TEST(waiting_for_the_legacy_stream_waits_for_blocking_streams) {
    begin();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    int first = -1;
    OK(cuLaunchHostFunc(blocking, late_note, &first));
    CHECK_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    note_opened = 1;
    OK(cuStreamSynchronize(NULL));
    CHECK_EQ(first, 0);
}

static void *use_own_default(void *p) {
    CUdeviceptr out = *(CUdeviceptr *)p;
    float value = 2;
    uint64_t n = 1;
    CUcontext c;
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    OK(cuLaunchKernel_ptsz(kernel("fill"), 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&out, &value, &n}, NULL));
    OK(cuStreamSynchronize_ptsz(NULL));
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
    return NULL;
}

TEST(each_thread_has_a_default_stream) {
    begin();
    CUdeviceptr p = device_memory(4);
    kernel("fill");
    /* This thread's is closed; another's is not the same. */
    _Atomic uint32_t *gate = close_gate(CU_STREAM_PER_THREAD);
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        pthread_create(&t, NULL, use_own_default, &p);
        pthread_join(t, NULL);
    }
    CHECK_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    CHECK_EQ(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    *gate = 1;
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(first_float(p) == 2);
}

TEST(events_order_streams) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e;
    int first = -1, second = -1;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventQuery(e)); /* never recorded: done */
    OK(cuLaunchHostFunc(a, late_note, &first));
    OK(cuEventRecord(e, a));
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuLaunchHostFunc(b, note, &second));
    sleep_ms(20); /* in which it does not begin */
    note_opened = 1;
    OK(cuStreamSynchronize(b));
    CHECK(first == 0 && second == 1);
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
}

TEST(a_wait_is_for_the_record_before_it) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e;
    OK(cuEventCreate(&e, 0));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    _Atomic uint32_t *gate = close_gate(a);
    OK(cuEventRecord(e, a)); /* a later record is not waited for */
    OK(cuStreamSynchronize(b));
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK(cuEventDestroy_v2(e));
    *gate = 1;
    OK(cuStreamSynchronize(a));
}

TEST(elapsed_time) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent from, to, untimed;
    float ms;
    int place;
    double began = test_seconds();
    OK(cuEventCreate(&from, 0));
    OK(cuEventCreate(&to, 0));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK_EQ(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(from, s));
    OK(cuEventSynchronize(from));
    OK(cuLaunchHostFunc(s, late_note, &place));
    OK(cuEventRecord(to, s));
    CHECK_EQ(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_NOT_READY);
    sleep_ms(20);
    note_opened = 1;
    OK(cuEventSynchronize(to));
    OK(cuEventElapsedTime(&ms, from, to));
    CHECK(ms > 19 && ms < 1e3 * (test_seconds() - began) + 1);
    CHECK_EQ(cuEventElapsedTime(&ms, from, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST(waiting_for_words) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = device_memory(16);
    OK(cuMemsetD8_v2(word, 0, 16));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32_v2(a, word, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWaitValue64_v2(a, word + 8, 6, CU_STREAM_WAIT_VALUE_AND));
    int place = -1;
    OK(cuLaunchHostFunc(a, note, &place));
    OK(cuStreamWriteValue32_v2(b, word, 5, 0));
    OK(cuStreamSynchronize(b));
    sleep_ms(5);
    CHECK_EQ(place, -1);
    CUstreamBatchMemOpParams ops[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = word + 8, .value64 = 2}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = word, .value = 5, .flags = 1}}};
    OK(cuStreamBatchMemOp_v2(b, 2, ops, 0));
    OK(cuStreamSynchronize(a));
    CHECK_EQ(place, 0);
    CHECK_EQ(cuStreamWaitValue32_v2(a, managed_memory(4), 0, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuStreamWaitValue32_v2(a, word + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
    /* GEQ is cyclic */
    OK(cuStreamWriteValue32_v2(b, word, 2, 0));
    OK(cuStreamWaitValue32_v2(b, word, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamSynchronize(b));
}

static CUstream callback_stream;
static CUresult callback_status = CUDA_ERROR_UNKNOWN, from_inside;

static void callback(CUstream s, CUresult status, void *data) {
    callback_stream = s;
    callback_status = status;
    from_inside = cuMemAlloc_v2(data, 4);
}

TEST(host_functions_may_not_call_the_driver) {
    begin();
    CUdeviceptr p;
    CUstream s = new_stream(0);
    OK(cuStreamAddCallback(s, callback, &p, 0));
    OK(cuStreamSynchronize(s));
    CHECK_EQ(callback_stream, s);
    CHECK_EQ(callback_status, CUDA_SUCCESS);
    CHECK_EQ(from_inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST(a_destroyed_stream_does_what_it_was_given) {
    begin();
    CUdeviceptr p = device_memory(4);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    _Atomic uint32_t *gate = close_gate(s);
    OK(fill(s, p, 8, 1));
    OK(cuStreamDestroy_v2(s));
    *gate = 1;
    float seen = 0;
    for (int i = 0; seen != 8 && i < 30000; i++, sleep_ms(1))
        seen = first_float(p);
    CHECK(seen == 8);
}

static void open_late(void *gate) {
    sleep_ms(20); /* in which whoever does not wait would be through */
    *(_Atomic uint32_t *)gate = 1;
}

TEST(who_waits_for_a_context_or_frees_memory_waits_for_destroyed_streams) {
    begin();
    for (int frees = 0; frees < 2; frees++) {
        CUdeviceptr p = device_memory(4), other = device_memory(4);
        CUstream s = new_stream(CU_STREAM_NON_BLOCKING), opening = new_stream(CU_STREAM_NON_BLOCKING);
        _Atomic uint32_t *gate = close_gate(s);
        OK(fill(s, p, 8, 1));
        OK(cuStreamDestroy_v2(s));
        OK(cuLaunchHostFunc(opening, open_late, (void *)gate));
        OK(cuStreamDestroy_v2(opening));
        OK(frees ? cuMemFree_v2(other) : cuCtxSynchronize());
        CHECK(first_float(p) == 8);
    }
}

TEST(priorities_are_accepted) {
    begin();
    CUstream s;
    int priority;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -9));
    OK(cuStreamGetPriority(s, &priority));
    CHECK_EQ(priority, -5);
    CHECK_EQ(cuStreamCreate(&s, 7), CUDA_ERROR_INVALID_VALUE);
}

TEST(kernels_and_functions_are_different_handles) {
    begin();
    CUlibrary library;
    CUkernel k;
    CUfunction f;
    const char *name;
    size_t offset, size;
    OK(cuLibraryLoadData(&library, EMU_BUILTIN, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, library, "axpy"));
    OK(cuKernelGetFunction(&f, k));
    CHECK((void *)f != (void *)k);
    OK(cuKernelGetName(&name, k));
    CHECK_STR(name, "axpy");
    OK(cuFuncGetName(&name, f));
    CHECK_STR(name, "axpy");
    OK(cuKernelGetParamInfo(k, 1, &offset, &size));
    CHECK_EQ(offset, 8);
    CHECK_EQ(size, 8);
    OK(cuFuncGetParamInfo(f, 3, &offset, NULL));
    CHECK_EQ(offset, 24);
    CHECK_EQ(cuFuncGetParamInfo(f, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuFuncGetParamInfo((CUfunction)k, 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuKernelGetParamInfo((CUkernel)f, 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr p = device_memory(4);
    float value = 4;
    uint64_t n = 1;
    OK(cuLibraryGetKernel(&k, library, "fill"));
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &value, &n}, NULL));
    CHECK(first_float(p) == 4);
    OK(cuLibraryUnload(library));
}

TEST(arguments_come_in_two_forms_and_are_copied) {
    begin();
    CUdeviceptr p = device_memory(8);
    struct {
        CUdeviceptr p;
        float value;
        uint64_t n;
    } buffer = {p, 6, 2};
    size_t bytes = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    _Atomic uint32_t *gate = close_gate(s);
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, NULL, 0};
    OK(cuLaunchKernelEx(&config, kernel("fill"), NULL, extra));
    memset(&buffer, 0xff, sizeof buffer);
    *gate = 1;
    OK(cuStreamSynchronize(s));
    CHECK(first_float(p + 4) == 6);
    bytes = 8;
    CHECK_EQ(cuLaunchKernel(kernel("fill"), 1, 1, 1, 1, 1, 1, 0, s, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuLaunchKernel(kernel("fill"), 0, 1, 1, 1, 1, 1, 0, s, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuLaunchKernel(kernel("fill"), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(the_builtin_kernels_compute) {
    begin();
    CUdeviceptr a = device_memory(1024), b = device_memory(1024), y = device_memory(1024);
    float values[6] = {1, 2, 3, 4, 5, 6}, out[6];
    uint64_t n = 6;
    OK(cuMemcpyHtoD_v2(a, values, sizeof values));
    OK(cuMemcpyHtoD_v2(b, values, sizeof values));
    OK(LAUNCH(NULL, "add", &y, &a, &b, &n));
    CHECK(first_float(y + 20) == 12);
    /* [2][3] by [3][2] */
    uint32_t m = 2, columns = 2, inner = 3, transposed = 0;
    float one = 1, zero = 0;
    OK(LAUNCH(NULL, "gemm", &y, &a, &b, &m, &columns, &inner, &one, &zero, &transposed));
    OK(cuMemcpyDtoH_v2(out, y, 16));
    CHECK(out[0] == 22 && out[1] == 28 && out[2] == 49 && out[3] == 64);
    transposed = 3; /* [3][2] read as [2][3], [2][3] read as [3][2] */
    OK(LAUNCH(NULL, "gemm", &y, &a, &b, &m, &columns, &inner, &one, &one, &transposed));
    CHECK(first_float(y) == 22 + 1 * 1 + 3 * 2 + 5 * 3);
    int32_t rows[2] = {1, 0};
    CUdeviceptr indices = device_memory(8), pointers = device_memory(16), list[2] = {a + 8, a};
    uint32_t count = 2, width = 3;
    OK(cuMemcpyHtoD_v2(indices, rows, sizeof rows));
    OK(LAUNCH(NULL, "embedding", &y, &a, &indices, &count, &width));
    CHECK(first_float(y) == 4 && first_float(y + 12) == 1);
    OK(cuMemcpyHtoD_v2(pointers, list, sizeof list));
    OK(LAUNCH(NULL, "gather", &y, &pointers, &count, &width));
    CHECK(first_float(y) == 3 && first_float(y + 12) == 1);
}

TEST(a_module_variable_hides_a_pointer) {
    begin();
    CUmodule m;
    CUfunction f;
    CUdeviceptr variable, p = device_memory(40);
    size_t bytes;
    OK(cuModuleLoadData(&m, EMU_BUILTIN));
    OK(cuModuleGetFunction(&f, m, "write_hidden"));
    OK(cuModuleGetGlobal_v2(&variable, &bytes, m, "hidden"));
    CHECK_EQ(bytes, 8);
    CHECK_EQ(cuModuleGetGlobal_v2(&variable, &bytes, m, "nowhere"), CUDA_ERROR_NOT_FOUND);
    OK(cuMemcpyHtoD_v2(variable, &p, sizeof p));
    float value = 13;
    uint64_t n = 10;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&value, &n}, NULL));
    CHECK(first_float(p + 36) == 13);
    OK(cuModuleUnload(m));
    CHECK_EQ(cuMemcpyDtoH_v2(&p, variable, 8), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuModuleLoadData(&m, "no image at all"), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST(the_log_tells_what_was_touched) {
    begin();
    CUdeviceptr x = device_memory(4096), y = device_memory(4096);
    float a = 1;
    uint64_t n = 100;
    OK(cuMemsetD8_v2(x, 0, 4096));
    OK(cuMemsetD8_v2(y, 0, 4096));
    OK(cuCtxSynchronize());
    emu_log(1);
    uint64_t before = emu_operations();
    OK(LAUNCH(NULL, "axpy", &a, &x, &y, &n));
    OK(cuMemcpyDtoD_v2(x + 8, y, 16));
    OK(cuCtxSynchronize());
    struct emu_touch t[8];
    CHECK_EQ(emu_log_read(0, t, 8), 4);
    CHECK_STR(t[0].name, "axpy");
    CHECK_EQ(t[0].operation, before + 1);
    CHECK_EQ(t[0].address, x);
    CHECK_EQ(t[0].bytes, 400);
    CHECK_EQ(t[0].mode, EMU_READ);
    CHECK_EQ(t[1].address, y);
    CHECK_EQ(t[1].mode, EMU_UPDATE);
    CHECK_STR(t[3].name, "copy");
    CHECK_EQ(t[3].operation, before + 2);
    CHECK_EQ(t[3].address, x + 8);
    CHECK_EQ(t[3].bytes, 16);
    CHECK_EQ(t[3].mode, EMU_WRITE);
    emu_log(0);
    OK(cuMemsetD8_v2(x, 0, 1));
    OK(cuCtxSynchronize());
    CHECK_EQ(emu_log_read(0, t, 8), 0);
}

/* As on an H100 (driver 580). */
TEST(the_legacy_stream_and_those_of_threads_wait_for_each_other) {
    begin();
    CUdeviceptr p = device_memory(4096);
    CUstream s[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, new_stream(CU_STREAM_DEFAULT),
                    new_stream(CU_STREAM_NON_BLOCKING)};
    static const bool waits[4][4] = {
        {true, true, true, false}, {true, true, false, false}, {true, false, true, false}, {false, false, false, true}};
    for (int gated = 0; gated < 4; gated++)
        for (int i = 0; i < 4; i++) {
            _Atomic uint32_t *gate = close_gate(s[gated]);
            OK(cuMemsetD8Async(p, 0, 16, s[i]));
            if (waits[gated][i])
                CHECK_EQ(cuStreamQuery(s[i]), CUDA_ERROR_NOT_READY);
            else
                OK(cuStreamSynchronize(s[i]));
            *gate = 1;
            OK(cuCtxSynchronize());
        }
}

TEST(a_reset_context_is_not_active_until_it_is_retained_again) {
    CUcontext c = begin(), again;
    CUdeviceptr p;
    unsigned flags;
    int active;
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK_EQ(active, 0);
    CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    CHECK(again == c);
    OK(cuMemAlloc_v2(&p, 4));
    for (int left = 2; left > 0; left--) {
        OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        CHECK_EQ(active, 1);
        OK(cuDevicePrimaryCtxRelease_v2(0));
    }
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK_EQ(active, 0);
    CHECK_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}
