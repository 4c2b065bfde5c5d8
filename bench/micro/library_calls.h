/* Calls of CUDA's libraries on the look-alikes, each to be made hooked and not, on operands at random among many
 * blocks. */
#ifndef BENCH_LIBRARY_CALLS_H
#define BENCH_LIBRARY_CALLS_H

#include "library.h" /* generated: the libraries' types */

enum { SETS = 64, OPERANDS = 12, BLOCKS = 10000, BLOCK = 4096 };

/* What one call is made of: blocks that it works on. */
struct operands {
    void *at[OPERANDS];
};

struct bench_call {
    const char *name;                                        /* of the function */
    void (*run)(void *function, const struct operands *set); /* calls it once */
};

/* What a program that looks the function up gets under ulms.so. Ends the process when there is none. */
void *hooked(const char *name);

/* Each makes handles and descriptors for these sets, and returns its calls; the last has no name. */
const struct bench_call *blas_calls(const struct operands *sets);
const struct bench_call *dnn_calls(const struct operands *sets);
const struct bench_call *nccl_calls(void);

/* Ends the process at an error of a library. */
void check(int status);

#endif
