/* A cubin: its kernels, and what analysis needs of them. */
#ifndef ULMS_CUBIN_H
#define ULMS_CUBIN_H

#include "code/view.h"
#include "code/words.h"

struct cubin {
    struct view file, names;
    uint64_t sections_at; /* in the file */
    uint32_t sections;
    uint32_t architecture; /* 90: sm_90 */
};

/* False: it is none, or its sections cannot be read. The bytes stay the caller's. */
bool cubin_open(struct cubin *c, struct view file);

enum { KERNEL_FUNCTIONS = 64, KERNEL_JUMPS = 256, KERNEL_ADDRESSES = 128, KERNEL_ENDS = 8 };

struct kernel {
    const char *name;
    uint32_t architecture;
    struct view text;    /* the kernel first, then functions that it calls */
    uint32_t parameters; /* where they begin in constant bank 0 */
    uint32_t parameter_bytes;
    struct words pointer; /* those that lie in parameters of 8 bytes and more */
    uint32_t functions;
    uint32_t function[KERNEL_FUNCTIONS]; /* where they begin in the text */
    uint32_t jumps;
    struct jump {
        uint32_t at, target; /* an indirect branch, and one of its targets: offsets in the text */
    } jump[KERNEL_JUMPS];
    uint32_t addresses;
    struct address {
        uint32_t at;      /* an instruction into which the loader writes half of a symbol's address */
        uint32_t ordinal; /* equal for equal symbols */
        uint8_t half;
    } address[KERNEL_ADDRESSES];
    uint32_t ends;
    uint32_t end[KERNEL_ENDS]; /* words of 8 bytes in bank 4 with the address of a function that never returns */
};

/* Fills k with the kernel whose code is section i. False: that section is no kernel's code, or something about it is
 * odd or too large. */
bool cubin_kernel(const struct cubin *c, uint32_t i, struct kernel *k);
/* The name of the kernel whose attributes are section i; NULL: it is none. */
const char *cubin_info(const struct cubin *c, uint32_t i, struct view *out);
/* The section with the code of the kernel of that name; 0: there is none. */
#define CUBIN_SEVERAL UINT32_MAX
uint32_t cubin_find(const struct cubin *c, const char *kernel);

#endif
