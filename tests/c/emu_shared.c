/* Devices that several processes share: memory, and time. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu_time.h"

static char name[] = "/tmp/emu-shared-XXXXXX";
static int said[2], heard[2]; /* pipes from the other process, and to it */

/* Another process on the same devices. 0 in it, which ends with the test's. */
static pid_t start_other(void) {
    if (pipe(said) || pipe(heard))
        abort();
    return fork();
}

static void share(const char *memory) {
    close(mkstemp(name));
    setenv("EMU_SHARED", name, 1);
    setenv("EMU_MEMORY", memory, 1);
}

static void say(int to[2]) {
    CHECK_EQ(write(to[1], "", 1), 1);
}

static void hear(int from[2]) {
    char c;
    CHECK_EQ(read(from[0], &c, 1), 1);
}

static void take(uint64_t bytes) {
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc_v2(&p, bytes));
    say(said);
    hear(heard);
}

/* Another process that holds so much until it hears. */
static pid_t start_holder(uint64_t bytes) {
    pid_t other = start_other();
    if (!other) {
        take(bytes);
        _exit(0);
    }
    return other;
}

static uint64_t available(void) {
    size_t bytes, total;
    OK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static void end_of(pid_t other) {
    waitpid(other, NULL, 0);
    unlink(name);
}

TEST(what_another_holds_is_missing_until_it_ends) {
    share("64MiB");
    pid_t other = start_holder(40 * MiB);
    CUdeviceptr p;
    hear(said);
    begin();
    CHECK_EQ(available(), 24 * MiB);
    CHECK_EQ(cuMemAlloc_v2(&p, 32 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&p, 16 * MiB));
    CHECK_EQ(available(), 8 * MiB);
    say(heard);
    waitpid(other, NULL, 0);
    CHECK_EQ(available(), 48 * MiB);
    end_of(other);
}

TEST(what_a_killed_one_held_is_free_before_it_is_waited_for) {
    share("64MiB");
    pid_t other = start_holder(40 * MiB);
    CUdeviceptr p;
    siginfo_t dead;
    hear(said);
    begin();
    OK(cuMemAlloc_v2(&p, 16 * MiB));
    kill(other, SIGKILL);
    waitid(P_PID, (id_t)other, &dead, WEXITED | WNOWAIT);
    OK(cuMemAlloc_v2(&p, 48 * MiB));
    CHECK_EQ(available(), 0);
    end_of(other);
}

TEST(managed_pages_make_room_only_for_their_own_process) {
    share("16MiB");
    pid_t other = start_other();
    if (!other) {
        begin();
        CUdeviceptr p = managed_memory(8 * MiB);
        OK(cuMemPrefetchAsync(p, 8 * MiB, 0, NULL));
        OK(cuCtxSynchronize());
        say(said);
        hear(heard);
        _exit(0);
    }
    CUdeviceptr p;
    hear(said);
    begin();
    CUdeviceptr mine = managed_memory(8 * MiB);
    OK(cuMemPrefetchAsync(mine, 8 * MiB, 0, NULL));
    OK(cuCtxSynchronize());
    CHECK_EQ(available(), 0);
    OK(cuMemAlloc_v2(&p, 4 * MiB));
    CHECK_EQ(emu_page(mine), EMU_HOST);
    CHECK_EQ(cuMemAlloc_v2(&p, 6 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    say(heard);
    end_of(other);
}

static CUdeviceptr to_fill;
static void *from_host;

static void spin_for_20_ms(void) {
    uint64_t ns = 20000000;
    OK(LAUNCH(a, "spin", &ns));
}

static void copy(void) {
    OK(cuMemcpyHtoDAsync_v2(to_fill, from_host, 8 * MiB, a));
}

static void work_when_told(void (*work)(void)) {
    while (true) {
        hear(heard);
        work();
        OK(cuCtxSynchronize());
        say(said);
    }
}

/* Each of two processes does it once, both at the same time, in so many modelled seconds. */
static void check_both(const char *scale, double modelled, void (*work)(void)) {
    double seconds = 0, expected = modelled * strtod(scale, NULL);
    share("2GiB");
    pid_t other = start_other();
    begin_with_time(scale);
    to_fill = device_memory(8 * MiB);
    from_host = pinned_memory(8 * MiB);
    memset(from_host, 1, 8 * MiB);
    if (!other)
        work_when_told(work);
    for (double end = now() + PATIENCE; now() < end && !fits(seconds, expected);) {
        double began = now();
        say(heard);
        work();
        OK(cuCtxSynchronize());
        hear(said);
        seconds = now() - began;
    }
    kill(other, SIGKILL);
    end_of(other);
    if (!fits(seconds, expected))
        TEST_FAIL("%g s, modelled %g s\n", seconds, expected);
}

TEST(kernels_of_two_processes_take_turns) {
    check_both("5", 0.04, spin_for_20_ms);
}

TEST(copies_of_two_processes_share_the_link) {
    check_both("1000", 2 * 8 * MiB / 55.5e9, copy);
}

TEST(one_that_was_killed_has_no_turns) {
    share("2GiB");
    pid_t other = start_other();
    begin_with_time("1");
    if (!other) {
        uint64_t ns = 10000000000;
        OK(LAUNCH(a, "spin", &ns));
        say(said);
        hear(heard);
    }
    hear(said);
    sleep_ms(5);
    kill(other, SIGKILL);
    end_of(other);
    check_device_time("a kernel of 20 ms", 0.02, spin_for_20_ms);
}
