/* Checkpoints of another process: what it is then, and what the driver refuses. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu_api.h"

static char name[] = "/tmp/emu-checkpoint-XXXXXX";
static int said[2], heard[2]; /* pipes from the other process, and to it */
static pid_t other;

static void say(int to[2]) {
    CHECK_EQ(write(to[1], "", 1), 1);
}

static void hear(int from[2]) {
    char c;
    CHECK_EQ(read(from[0], &c, 1), 1);
}

/* Another process has done this, and then writes a number to its memory each time that it hears. */
static void start(CUdeviceptr (*prepare)(void)) {
    close(mkstemp(name));
    setenv("EMU_SHARED", name, 1);
    setenv("EMU_MEMORY", "64MiB", 1);
    CHECK(pipe(said) == 0 && pipe(heard) == 0);
    other = fork();
    if (other == 0) {
        begin();
        CUdeviceptr p = prepare();
        for (float i = 1;; i++) {
            say(said);
            hear(heard);
            OK(fill(NULL, p, i, 1));
            CHECK(first_float(p) == i);
        }
    }
    hear(said);
    begin();
}

static void end(void) {
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    unlink(name);
}

static bool answers(int ms) {
    struct pollfd p = {.fd = said[0], .events = POLLIN};
    bool any = poll(&p, 1, ms) == 1;
    if (any)
        hear(said);
    return any;
}

static CUprocessState state(void) {
    CUprocessState now;
    OK(cuCheckpointProcessGetState(other, &now));
    return now;
}

static CUresult lock(unsigned ms) {
    CUcheckpointLockArgs args = {.timeoutMs = ms};
    return cuCheckpointProcessLock(other, &args);
}

static CUdeviceptr plain(void) {
    return device_memory(40 * MiB);
}

static CUdeviceptr managed(void) {
    return managed_memory(2 * MiB);
}

static CUdeviceptr on_host(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, 2 * MiB, &prop, 0));
    return plain();
}

static CUdeviceptr behind_a_gate(void) {
    close_gate(NULL);
    return plain();
}

TEST(it_is_away_and_comes_back) {
    start(plain);
    CHECK_EQ(memory_used(), 40 * MiB);
    OK(lock(0));
    CHECK_EQ(state(), CU_PROCESS_STATE_LOCKED);
    say(heard);
    CHECK(!answers(100));
    OK(cuCheckpointProcessCheckpoint(other, NULL));
    CHECK_EQ(state(), CU_PROCESS_STATE_CHECKPOINTED);
    CHECK_EQ(memory_used(), 0);
    CHECK(!answers(100));
    OK(cuCheckpointProcessRestore(other, NULL));
    CHECK_EQ(memory_used(), 40 * MiB);
    CHECK(!answers(100));
    OK(cuCheckpointProcessUnlock(other, NULL));
    CHECK_EQ(state(), CU_PROCESS_STATE_RUNNING);
    CHECK(answers(10000));
    end();
}

TEST(each_step_needs_the_one_before) {
    start(plain);
    CHECK_EQ(cuCheckpointProcessCheckpoint(other, NULL), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(cuCheckpointProcessRestore(other, NULL), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(cuCheckpointProcessUnlock(other, NULL), CUDA_ERROR_ILLEGAL_STATE);
    OK(lock(0));
    CHECK_EQ(lock(0), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuCheckpointProcessCheckpoint(other, NULL));
    CHECK_EQ(cuCheckpointProcessUnlock(other, NULL), CUDA_ERROR_ILLEGAL_STATE);
    end();
    CHECK_EQ(cuCheckpointProcessRestore(other, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(managed_memory_is_refused) {
    start(managed);
    OK(lock(0));
    CHECK_EQ(cuCheckpointProcessCheckpoint(other, NULL), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuCheckpointProcessUnlock(other, NULL));
    say(heard);
    CHECK(answers(10000));
    end();
}

TEST(handles_of_host_memory_do_not_come_back) {
    start(on_host);
    OK(lock(0));
    OK(cuCheckpointProcessCheckpoint(other, NULL));
    CHECK_EQ(cuCheckpointProcessRestore(other, NULL), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cuCheckpointProcessUnlock(other, NULL), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(state(), CU_PROCESS_STATE_CHECKPOINTED);
    end();
}

TEST(one_that_has_no_room_once_never_comes_back) {
    start(plain);
    OK(lock(0));
    OK(cuCheckpointProcessCheckpoint(other, NULL));
    CUdeviceptr mine = device_memory(32 * MiB);
    CHECK_EQ(cuCheckpointProcessRestore(other, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree_v2(mine));
    CHECK_EQ(cuCheckpointProcessRestore(other, NULL), CUDA_ERROR_OPERATING_SYSTEM);
    end();
}

TEST(work_that_does_not_end_is_waited_for) {
    start(behind_a_gate);
    CHECK_EQ(lock(100), CUDA_ERROR_NOT_READY);
    CHECK_EQ(state(), CU_PROCESS_STATE_RUNNING);
    end();
}
