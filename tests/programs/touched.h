/* What operations truly touched, as the emulated device logged it. */
#ifndef PROGRAM_TOUCHED_H
#define PROGRAM_TOUCHED_H

#include "emu.h"
#include "must.h"

USE(cuCtxSynchronize)

/* Waits for the step's operations, prints "step NAME KERNELS", "true MODE ADDRESS BYTES" for each touch, and logs anew.
 */
static inline void end_of(const char *name, int kernels) {
    static struct emu_touch log[256];
    MUST(cuCtxSynchronize());
    size_t n = emu_log_read(0, log, sizeof log / sizeof *log);
    printf("step %s %d\n", name, kernels);
    for (size_t i = 0; i < n; i++)
        printf("true %u %llu %llu\n", log[i].mode, (unsigned long long)log[i].address,
               (unsigned long long)log[i].bytes);
    emu_log(1);
}

#endif
