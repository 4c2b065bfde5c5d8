/* What the parts of the program share. */
#ifndef PROGRAM_MEMORY_H
#define PROGRAM_MEMORY_H

#include <stdio.h>

#include "device.h"
#include "emu.h"

enum { MIB = 1 << 20 };

extern CUcontext context;

/* How the driver holds memory. */
const char *held(CUdeviceptr p);

/* memory_told.c */
void attributes(void);
void ipc(void);
void dma(void);
void multicast(void);

#endif
