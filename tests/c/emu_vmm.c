/* Physical memory by handles: two addresses for one piece, remapping, rights, sharing. */
#include "emu_api.h"

#include <sys/socket.h>
#include <sys/wait.h>

static CUmemGenericAllocationHandle create(size_t bytes, CUmemLocationType where) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {where, 0}};
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, bytes, &prop, 0));
    return h;
}

static CUmemGenericAllocationHandle on_device(size_t bytes) {
    return create(bytes, CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr p;
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    return p;
}

static CUresult allow(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags) {
    CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cuMemSetAccess(p, bytes, &d, 1);
}

static CUresult sync_all(void) {
    return cuCtxSynchronize();
}

static const CUmemAccess_flags NONE = CU_MEM_ACCESS_FLAGS_PROT_NONE, READ = CU_MEM_ACCESS_FLAGS_PROT_READ,
                               BOTH = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

TEST(one_piece_at_two_addresses) {
    begin();
    CUmemGenericAllocationHandle h = on_device(4 * MiB);
    CHECK_EQ(memory_used(), 4 * MiB);
    CUdeviceptr a = reserve(4 * MiB), b = reserve(4 * MiB);
    OK(cuMemMap(a, 4 * MiB, 0, h, 0));
    OK(cuMemMap(b, 4 * MiB, 0, h, 0));
    OK(allow(a, 4 * MiB, BOTH));
    OK(allow(b, 4 * MiB, READ));
    OK(fill(NULL, a, 3, MiB));
    CHECK(first_float(b) == 3);
    OK(cuMemRelease(h));
    OK(cuMemUnmap(a, 4 * MiB));
    CHECK(first_float(b + 4 * MiB - 4) == 3); /* a mapping keeps it */
    CHECK_EQ(memory_used(), 6 * MiB);         /* with the image's variable */
    OK(cuMemUnmap(b, 4 * MiB));
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuMemAddressFree(a, 4 * MiB));
    OK(cuMemAddressFree(b, 4 * MiB));
}

TEST(remapped_addresses_keep_what_moved_with_them) {
    begin();
    CUmemGenericAllocationHandle first = on_device(2 * MiB), second = on_device(2 * MiB);
    CUdeviceptr a = reserve(2 * MiB);
    for (int round = 0; round < 3; round++) {
        OK(cuMemMap(a, 2 * MiB, 0, round % 2 ? second : first, 0));
        OK(allow(a, 2 * MiB, BOTH));
        if (round < 2)
            OK(fill(NULL, a, (float)round, 10));
        else
            CHECK(first_float(a) == 0);
        OK(sync_all());
        OK(cuMemUnmap(a, 2 * MiB));
    }
}

TEST(one_run_over_several_handles) {
    begin();
    CUdeviceptr a = reserve(8 * MiB);
    for (int i = 0; i < 4; i++)
        OK(cuMemMap(a + (CUdeviceptr)i * 2 * MiB, 2 * MiB, 0, on_device(2 * MiB), 0));
    OK(allow(a, 8 * MiB, BOTH));
    OK(fill(NULL, a, 2, 2 * MiB));
    CHECK(first_float(a + 8 * MiB - 4) == 2);
    CHECK_EQ(cuMemUnmap(a, MiB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemAddressFree(a, 8 * MiB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(a, 8 * MiB));
    OK(cuMemAddressFree(a, 8 * MiB));
}

/* The kernel is tried in a context of its own, which it may spoil. */
static CUresult try_fill(CUdeviceptr p) {
    CUcontext own, popped;
    CUmodule m;
    CUfunction f;
    OK(cuCtxCreate_v2(&own, 0, 0));
    OK(cuModuleLoadData(&m, EMU_BUILTIN));
    OK(cuModuleGetFunction(&f, m, "fill"));
    float value = 1;
    uint64_t n = 1;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &value, &n}, NULL));
    CUresult result = cuCtxSynchronize();
    OK(cuCtxPopCurrent_v2(&popped));
    OK(cuCtxDestroy_v2(own));
    return result;
}

TEST(rights_are_enforced) {
    begin();
    CUdeviceptr a = reserve(2 * MiB);
    unsigned long long flags;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK_EQ(try_fill(a), CUDA_ERROR_ILLEGAL_ADDRESS); /* reserved only */
    CHECK_EQ(allow(a, 2 * MiB, BOTH), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(a, 2 * MiB, 0, on_device(2 * MiB), 0));
    CHECK_EQ(cuMemMap(a, 2 * MiB, 0, on_device(2 * MiB), 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(try_fill(a), CUDA_ERROR_ILLEGAL_ADDRESS); /* new mappings start without */
    OK(allow(a, 2 * MiB, READ));
    OK(cuMemGetAccess(&flags, &here, a));
    CHECK_EQ(flags, READ);
    CHECK_EQ(try_fill(a), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuMemcpyDtoH_v2(&(int){0}, a, 4));
    OK(allow(a, 2 * MiB, BOTH));
    CHECK_EQ(try_fill(a), CUDA_SUCCESS);
    OK(allow(a, 2 * MiB, NONE));
    CHECK_EQ(try_fill(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(a_node_is_of_what_is_mapped) {
    CUcontext c = begin();
    CUdeviceptr a = reserve(2 * MiB);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g, captured;
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = a, .elementSize = 1, .width = 64, .height = 1};
    OK(cuGraphCreate(&g, 0));
    CHECK_EQ(cuGraphAddMemsetNode(&node, g, NULL, 0, &m, c), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_EQ(cuMemsetD8Async(a, 0, 64, s), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyDtoDAsync_v2(a, a + 64, 64, s), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(a, 2 * MiB, 0, on_device(2 * MiB), 0));
    OK(cuMemsetD8Async(a, 0, 64, s));
    OK(cuMemcpyDtoDAsync_v2(a, a + 64, 64, s));
    OK(cuStreamEndCapture(s, &captured));
    OK(cuGraphAddMemsetNode(&node, g, NULL, 0, &m, c));
}

TEST(host_memory_by_handle) {
    begin();
    CUmemGenericAllocationHandle h = create(2 * MiB, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CUdeviceptr a = reserve(2 * MiB), b = reserve(2 * MiB);
    CHECK_EQ(memory_used(), 0);
    OK(cuMemMap(a, 2 * MiB, 0, h, 0));
    OK(allow(a, 2 * MiB, BOTH));
    CUmemAccessDesc host = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, BOTH};
    CHECK_SIGNAL(SIGSEGV, *(volatile float *)(uintptr_t)a = 1);
    OK(cuMemSetAccess(a, 2 * MiB, &host, 1));
    *(volatile float *)(uintptr_t)a = 4;
    OK(scale(NULL, a, 2, 1));
    OK(sync_all());
    CHECK(*(volatile float *)(uintptr_t)a == 8);
    OK(cuMemMap(b, 2 * MiB, 0, on_device(2 * MiB), 0));
    CHECK_EQ(cuMemSetAccess(b, 2 * MiB, &host, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(a, 2 * MiB));
    CHECK_SIGNAL(SIGSEGV, *(volatile float *)(uintptr_t)a = 1);
}

TEST(handles_are_counted) {
    begin();
    CUmemGenericAllocationHandle h = on_device(2 * MiB), again;
    CUdeviceptr a = reserve(2 * MiB);
    CUmemAllocationProp prop;
    OK(cuMemMap(a, 2 * MiB, 0, h, 0));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)a));
    CHECK_EQ(again, h);
    OK(cuMemRelease(h));
    OK(cuMemUnmap(a, 2 * MiB));
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, again));
    CHECK_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    OK(cuMemRelease(again));
    CHECK_EQ(memory_used(), 0);
}

TEST(a_handle_that_is_gone_is_no_other) {
    begin();
    CUmemGenericAllocationHandle gone = on_device(2 * MiB);
    CUmemAllocationProp prop;
    OK(cuMemRelease(gone));
    CUmemGenericAllocationHandle next = on_device(2 * MiB);
    CHECK(next != gone);
    CHECK_EQ(cuMemRelease(gone), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemMap(reserve(2 * MiB), 2 * MiB, 0, gone, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemGetAllocationPropertiesFromHandle(&prop, gone), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(next));
}

TEST(the_device_is_full) {
    setenv("EMU_MEMORY", "8MiB", 1);
    begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle h;
    on_device(6 * MiB);
    CHECK_EQ(cuMemCreate(&h, 4 * MiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemCreate(&h, MiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&h, 2 * MiB, &prop, 0));
}

/* Passes a descriptor between processes. */
static void send_fd(int to, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK_EQ(sendmsg(to, &m, 0), 1);
}

static int receive_fd(int from) {
    int fd;
    char control[CMSG_SPACE(sizeof fd)], byte;
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK_EQ(recvmsg(from, &m, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

TEST(another_process_imports_a_handle) {
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t child = fork();
    if (child == 0) {
        CUmemGenericAllocationHandle h;
        int fd = receive_fd(sockets[1]);
        begin();
        OK(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        CUdeviceptr a = reserve(4 * MiB);
        OK(cuMemMap(a, 4 * MiB, 0, h, 0));
        OK(allow(a, 4 * MiB, BOTH));
        CHECK(first_float(a + 2 * MiB) == 21);
        OK(fill(NULL, a, 22, 1));
        OK(sync_all());
        _exit(0);
    }
    begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle h;
    int fd, status;
    OK(cuMemCreate(&h, 4 * MiB, &prop, 0));
    CUdeviceptr a = reserve(4 * MiB);
    OK(cuMemMap(a, 4 * MiB, 0, h, 0));
    OK(allow(a, 4 * MiB, BOTH));
    OK(fill(NULL, a, 21, MiB));
    OK(sync_all());
    OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_fd(sockets[0], fd);
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK(first_float(a) == 22);
    CHECK_EQ(cuMemExportToShareableHandle(&fd, on_device(2 * MiB), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             CUDA_ERROR_INVALID_VALUE);
}

/* A kernel that uses its memory for as long as the test says. */
static _Atomic int inside, go_on;
static _Atomic pid_t unmapping;

static void linger(struct emu_launch *l) {
    volatile char *p = emu_use(l, EMU_ARG(l, uint64_t, 0), 2 * MiB, EMU_UPDATE);
    inside = 1;
    while (!go_on)
        sleep_ms(1);
    p[0]++;
}

static void *unmap_under_it(void *p) {
    unmapping = gettid();
    OK(cuMemUnmap(*(CUdeviceptr *)p, 2 * MiB));
    return NULL;
}

TEST(unmapping_under_a_kernel_fails_the_kernel) {
    static const struct emu_param params[] = {{0, 8}};
    static const struct emu_kernel kernels[] = {{"linger", params, 1, linger}};
    static const struct emu_image image = {
        .magic = {'E', 'M', 'U', 'I', 'M', 'A', 'G', 'E'}, .kernels = kernels, .kernel_count = 1};
    begin();
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoadData(&m, &image));
    OK(cuModuleGetFunction(&f, m, "linger"));
    CUdeviceptr a = reserve(2 * MiB);
    OK(cuMemMap(a, 2 * MiB, 0, on_device(2 * MiB), 0));
    OK(allow(a, 2 * MiB, BOTH));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a}, NULL));
    while (!inside)
        sleep_ms(1);
    pthread_t other;
    pthread_create(&other, NULL, unmap_under_it, &a);
    CHECK(falls_asleep(&unmapping));
    go_on = 1;
    pthread_join(other, NULL);
    CHECK_EQ(sync_all(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(work_behind_a_gate_sees_what_is_mapped_when_it_runs) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = reserve(2 * MiB);
    _Atomic uint32_t *gate = close_gate(s);
    OK(fill(s, a, 6, 10));
    OK(cuMemMap(a, 2 * MiB, 0, on_device(2 * MiB), 0));
    OK(allow(a, 2 * MiB, BOTH));
    *gate = 1;
    OK(cuStreamSynchronize(s));
    CHECK(first_float(a) == 6);
}
