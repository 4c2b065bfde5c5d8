/* What the parts of the program share. */
#ifndef PROGRAM_TOUCHES_H
#define PROGRAM_TOUCHES_H

#include <string.h>

#include "device.h"
#include "emu.h"
#include "touched.h"

enum { N = 1000, ROWS = 7, WIDTH = 100 };

struct axpy {
    float a;
    CUdeviceptr x, y;
    uint64_t n;
};

extern CUcontext context, far_context; /* of the first device and of the second */
extern CUstream stream, far_stream;

/* Of the built-in kernels. */
CUfunction kernel(const char *name);

/* touches_graph.c: graphs in every way they come about. */
void graphs(CUdeviceptr x, CUdeviceptr y);
void any_nodes(CUdeviceptr x, CUdeviceptr y);
void changed(CUdeviceptr x, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b);
void words(CUdeviceptr a, CUdeviceptr b);

#endif
