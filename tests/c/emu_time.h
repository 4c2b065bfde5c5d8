/* What the tests of modelled time share: what lasts milliseconds lasts as long as the table in emulator/cost.c says,
 * within a tenth. EMU_TIME is large enough that this machine does the work itself in less. Other processes may make a
 * measurement too long, or too short where they delay the clock's reading at its start, so it is repeated. */
#ifndef EMU_TIME_H
#define EMU_TIME_H

#include "emu_api.h"

static const double PATIENCE = 40; /* s, for each measurement */

static CUstream a, b;
static CUevent from, to;
static double time_scale;

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void begin_with_time(const char *scale) {
    time_scale = strtod(scale, NULL);
    setenv("EMU_TIME", scale, 1);
    setenv("EMU_MEMORY", "2GiB", 1);
    begin();
    kernel("nop");
    a = new_stream(CU_STREAM_NON_BLOCKING);
    b = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&from, 0));
    OK(cuEventCreate(&to, 0));
}

static inline bool fits(double seconds, double expected) {
    return seconds >= 0.9 * expected && seconds <= 1.1 * expected;
}

/* What work puts into stream a takes so many modelled seconds, by events and by the wall. */
static inline void check_device_time(const char *what, double modelled, void (*work)(void)) {
    float ms = 0;
    double wall = 0, expected = modelled * time_scale;
    for (double end = now() + PATIENCE; now() < end;) {
        OK(cuCtxSynchronize());
        double began = now();
        OK(cuEventRecord(from, a));
        work();
        OK(cuEventRecord(to, a));
        OK(cuCtxSynchronize());
        wall = now() - began;
        OK(cuEventElapsedTime(&ms, from, to));
        bool good = fits(ms * 1e-3, expected);
        if (fits(wall, expected) && good)
            return;
    }
    TEST_FAIL("%s: %g s by events, %g s by the wall, modelled %g s\n", what, ms * 1e-3, wall, expected);
}

/* The calls that work makes take so many modelled seconds. before, if not NULL, makes ready for them. */
static inline void check_call_time(const char *what, double modelled, void (*before)(void), void (*work)(void)) {
    double seconds = 0, expected = modelled * time_scale;
    for (double end = now() + PATIENCE; now() < end;) {
        if (before)
            before();
        OK(cuCtxSynchronize());
        double began = now();
        work();
        seconds = now() - began;
        if (fits(seconds, expected))
            return;
    }
    TEST_FAIL("%s: %g s, modelled %g s\n", what, seconds, expected);
}

#endif
