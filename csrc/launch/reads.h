/* Kernels of which it is known what they only read. */
#ifndef ULMS_READS_H
#define ULMS_READS_H

#include <stdint.h>

/* name: as compiled. The parameter from which on all are only read, as the kernel's source says; 0: none is known. */
uint16_t kernel_reads_from(const char *name);

#endif
