/* What a kernel does to memory, as far as it was followed. */
#ifndef ULMS_ACCESS_H
#define ULMS_ACCESS_H

#include "code/value.h"
#include "code/verdict.h"

enum { ACCESSES = 2048 };

struct accesses {
    uint32_t count;
    struct access {
        value_t low, high; /* halves of the address */
        bool reads, writes, generic;
    } at[ACCESSES];
    struct words stored; /* that went into what the kernel stored anywhere */
    struct words chosen; /* that decide which place, outside the program's memory, is used */
    bool stored_other;
    bool maps;       /* tensor maps in the parameters are used */
    const char *odd; /* something that is not followed; NULL: nothing */
};

/* Nothing is added twice. */
void access_add(struct accesses *a, struct access access);
void access_store(struct accesses *a, const struct value *stored);
void access_choose(struct accesses *a, const struct value *place);
/* The verdict of all that was added. */
void access_judge(const struct accesses *a, const struct values *v, struct kernel_verdict *out);

#endif
