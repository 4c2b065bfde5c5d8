/* Failures on demand, and the counts of calls. */
#include "emu_api.h"

TEST(a_call_fails_once_after_some_that_succeed) {
    begin();
    CUdeviceptr p;
    CHECK_EQ(emu_fail("cuMemAlloc:after=2:error=2"), 0);
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuMemAlloc_v2(&p, 4));
    CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&p, 4));
}

TEST(a_sticky_failure_stays_until_it_is_removed) {
    begin();
    CUdeviceptr p;
    CHECK_EQ(emu_fail("cuMemAlloc_v2:sticky,cuMemFree:error=1"), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cuMemFree_v2(0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(emu_fail(NULL), 0);
    OK(cuMemAlloc_v2(&p, 4));
}

TEST(a_name_means_all_its_versions) {
    begin();
    CUdeviceptr p = managed_memory(4);
    CUmemLocation there = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK_EQ(emu_fail("cuMemPrefetchAsync:after=1:sticky:error=801"), 0);
    OK(cuMemPrefetchAsync(p, 4, 0, NULL));
    CHECK_EQ(cuMemPrefetchAsync_v2(p, 4, there, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuMemPrefetchAsync(p, 4, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(a_call_may_begin_late) {
    begin();
    CUdeviceptr p;
    CHECK_EQ(emu_fail("cuMemAlloc:delay=20"), 0);
    double before = test_seconds();
    OK(cuMemAlloc_v2(&p, 4));
    CHECK(test_seconds() - before >= 0.02);
}

TEST(nonsense_is_refused_whole) {
    begin();
    CUdeviceptr p;
    CHECK_EQ(emu_fail("cuMemAlloc:after=x"), -1);
    CHECK_EQ(emu_fail("cuMemAlloc,cuMemFree:whatever"), -1);
    CHECK_EQ(emu_fail("cuMemAlloc:error="), -1);
    OK(cuMemAlloc_v2(&p, 4));
}

TEST(the_environment_says_the_same) {
    setenv("EMU_FAIL", "cuInit:error=100", 1);
    CHECK_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
    OK(cuInit(0));
}

TEST(any_call_may_fail) {
    CHECK_EQ(emu_fail("cuDriverGetVersion:error=3,cuLaunchKernel:error=719,cuStreamSynchronize:error=702"), 0);
    int version;
    CHECK_EQ(cuDriverGetVersion(&version), CUDA_ERROR_NOT_INITIALIZED);
    begin();
    CUdeviceptr p = device_memory(4);
    CHECK_EQ(fill(NULL, p, 1, 1), CUDA_ERROR_LAUNCH_FAILED);
    CHECK_EQ(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_TIMEOUT);
    OK(fill(NULL, p, 1, 1)); /* an injected error poisons nothing */
}

TEST(calls_are_counted) {
    begin();
    CUdeviceptr p = device_memory(4);
    CHECK_EQ(emu_calls("cuMemAlloc"), 1);
    CHECK_EQ(emu_calls("cuMemAlloc_v2"), 1);
    CHECK_EQ(emu_calls("cuMemAll"), 0);
    CHECK_EQ(emu_calls("cuStreamQuery"), 0);
    OK(cuStreamQuery(NULL));
    OK(cuStreamQuery_ptsz(NULL));
    CHECK_EQ(emu_calls("cuStreamQuery"), 2);
    CHECK_EQ(emu_calls("cuStreamQuery_ptsz"), 1);
    emu_fail("cuMemFree");
    CHECK_EQ(cuMemFree_v2(p), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(emu_calls("cuMemFree"), 1);
    CHECK_EQ(emu_failed(), 1);
    emu_fail("cuMemFree:after=1");
    emu_spare("cuMemFree");
    OK(cuMemFree_v2(p));
    OK(cuMemFree_v2(0));
    emu_spare("cuMemAlloc");
    CHECK_EQ(emu_calls_spared("cuMemFree"), 2);
    CHECK_EQ(emu_calls("cuMemFree"), 3);
    CHECK_EQ(emu_failed(), 1);
}
