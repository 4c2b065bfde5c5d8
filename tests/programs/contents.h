/* What the parts of the program share: memory in blocks, each of one word, and its judge. */
#ifndef PROGRAM_CONTENTS_H
#define PROGRAM_CONTENTS_H

#include <string.h>

#include "device.h"
#include "emu.h"
#include "framework.h"

enum { MIB = 1 << 20, WORDS = MIB / 4, BLOCKS = 8, BLOCK_MIB = 4 };

extern CUcontext context;
extern CUstream stream;
extern CUdeviceptr block[BLOCKS];
extern unsigned host[BLOCK_MIB * WORDS];

void set(CUdeviceptr p, unsigned value, size_t mib, CUstream s);
/* Ends the program unless so many MiB of `host` are the value. */
void judge(unsigned value, size_t mib);
/* The same of memory, in the stream's order. */
void expect(CUdeviceptr p, unsigned value, size_t mib, CUstream s);
/* Each block has its number for its value. */
void set_blocks(CUstream s);
void fill_blocks(void);

/* contents_graph.c */
void graph(void);
void reordered(void);
void disabled(void);
void unread(void);

/* contents_cut.c */
void pieces(void);
void replayed(void);

/* contents_copy.c */
void copies(void);

#endif
