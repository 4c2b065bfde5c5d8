/* Kernels by their machine code. A thread of ours reads it; until then a kernel is not known. */
#ifndef ULMS_KERNEL_CODE_H
#define ULMS_KERNEL_CODE_H

#include "code/verdict.h"

struct code_source; /* an image, while it is loaded */
struct kernel_code; /* of one kernel; lives as long as the process */

/* Kernels are read from now on, for devices of that architecture (90: sm_90). */
void kernel_code_begin(uint32_t architecture);
/* False: no kernel is read. */
bool kernel_code_on(void);

/* The image at `start`, of `bytes` bytes or CODE_UNSIZED. stays: it lies there until it is unloaded; else it is copied.
 * NULL: it is not read. Any thread. */
struct code_source *code_source_open(const void *start, uint64_t bytes, bool stays);
/* Before the real call that unloads the image. */
void code_source_close(struct code_source *s);
/* Whether its kernels are few, and read as soon as the program has their handles. */
bool code_source_eager(const struct code_source *s);

/* Asks for the kernel of that name to be read. NULL: no memory. */
const struct kernel_code *kernel_code_of(struct code_source *s, const char *name);
/* NULL: it is being read. The rules behind the last one are not there. */
const struct kernel_verdict *kernel_code_verdict(const struct kernel_code *k);

#endif
