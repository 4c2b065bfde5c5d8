/* Functions: what is known of each kernel handle, looked up on every launch without a lock. */
#ifndef ULMS_FUNCTION_H
#define ULMS_FUNCTION_H

#include "launch/argument_arrays.h"
#include "launch/kernel_code.h"
#include "launch/op.h"

/* A run of aligned 8-byte words inside one parameter, each of which may be an address. */
struct word_run {
    uint16_t parameter;
    uint16_t skip; /* bytes from the parameter's start to the first word */
    uint16_t words;
    uint16_t offset; /* of the first word in the parameter buffer */
};

struct function {
    uint64_t handle; /* CUfunction or CUkernel */
    uint32_t id;     /* from 1, for the life of the process */
    uint32_t epoch;
    bool known;     /* the layout is; else launches are scanned blindly */
    bool ruled;     /* a launch is trusted if the rules of its code hold (launch/rules.h) */
    bool sparse;    /* of what is only read, the first may be a table */
    uint16_t flags; /* enum op_flag, of a launch that no rules hold for: 0 if its name or code is trusted */
    uint16_t parameters;
    uint16_t runs;
    uint16_t read_run;              /* this run and all behind it are only read; `runs`: none is known to be */
    uint16_t arrays;                /* id of the arrays of a parameter that is in no run; 0: none */
    const char *name;               /* as compiled; "?" when the driver does not tell */
    const struct kernel_code *code; /* NULL: it is not read */
    uint64_t launches;              /* relaxed atomics */
    uint64_t unmatched;             /* launches with arguments of which none was in the ledger */
    struct word_run run[];
};

enum { PARAMETERS_MAX = 4096 };

/* What the driver tells of a handle. Sizes and offsets in bytes, in parameter order. */
struct layout {
    bool known;
    const struct kernel_code *code; /* from the image */
    uint32_t parameters;
    uint16_t offset[PARAMETERS_MAX];
    uint16_t size[PARAMETERS_MAX];
    char name[1024];
};

/* Set before the first launch; fills in the layout. Called without a lock of ours held by this thread but functions'.
 */
extern void (*function_describe)(uint64_t handle, struct layout *out);
/* Called once for every new function. May be NULL. */
extern void (*function_named)(const struct function *f);

/* function_of will be asked for it next: brings what it will read nearer. */
void function_foresee(uint64_t handle);
/* NULL when there is no memory. Stays valid for the life of the process. */
struct function *function_of(uint64_t handle);
/* A module went: its handles may come back as other functions. Every layout is asked again on its next launch. */
void functions_forget(void);
/* The code has been read: the layouts of its functions are asked again on their next launch. */
void functions_review(const struct kernel_code *code);
/* The i-th function seen, from 0, or NULL past the last. */
const struct function *function_at(uint32_t i);

#endif
