/* Which memory a kernel may touch, from its machine code. Nothing is run; no CUDA, no thread, no clock. */
#ifndef ULMS_VERDICT_H
#define ULMS_VERDICT_H

#include "code/cubin.h"
#include "code/image.h"

enum verdict {
    VERDICT_UNKNOWN,
    VERDICT_DIRECT,  /* no value that was loaded enters an address */
    VERDICT_INDEXED, /* loaded values are added to one base, if the rules hold at the launch */
    VERDICT_FOLLOWS  /* an address was loaded */
};

enum { VERDICT_RULES = 24 };

struct kernel_verdict {
    enum verdict verdict;
    const char *reason; /* of VERDICT_UNKNOWN and VERDICT_FOLLOWS: words for a log; lives for ever */
    uint32_t steps;     /* instructions that were looked at, with repetitions */
    uint32_t parameter_bytes;
    /* Of VERDICT_DIRECT and VERDICT_INDEXED: words at whose address memory is read, and written. */
    struct words reads, writes;
    /* Words that went into values that the kernel stores: pointers may be among them. */
    struct words stores;
    /* Of VERDICT_INDEXED. At the launch exactly one of `one` must hold a device address (if there are any), and none of
     * `none`. A word is an address if it lies in an allocation. */
    uint32_t rules;
    struct verdict_rule {
        struct words one, none;
    } rule[VERDICT_RULES];
};

static inline bool verdict_decides(const struct kernel_verdict *v) {
    return v->verdict == VERDICT_DIRECT || v->verdict == VERDICT_INDEXED;
}

/* As logs have it. */
const char *verdict_word(enum verdict verdict);
/* Needs some MiB of memory for the time of the call. Any thread. */
void verdict_of(const struct kernel *k, struct kernel_verdict *out);
/* What holds of the kernel of that name whichever of the image's cubins is loaded. */
void verdict_in(const struct code_image *i, const char *name, struct kernel_verdict *out);

#endif
