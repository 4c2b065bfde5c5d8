/* Calls of the driver by programs that are linked with it: declared, and never refused. */
#ifndef PROGRAM_MUST_H
#define PROGRAM_MUST_H

#include <stdio.h>
#include <unistd.h>

#include "driver.h"

/* At file scope: the program calls this function. */
#define USE(f) extern __typeof__(*(pfn_##f)NULL) f;

/* Ends the program where the call is refused; from any thread. */
#define MUST(call) must((call), #call)
static inline void must(CUresult status, const char *what) {
    if (status == CUDA_SUCCESS)
        return;
    fflush(stdout);
    fprintf(stderr, "%s: error %d\n", what, (int)status);
    _exit(1);
}

#endif
