/* What a kernel's code asks of a launch, so that it uses nothing but what its arguments show. */
#ifndef ULMS_RULES_H
#define ULMS_RULES_H

#include "launch/function.h"
#include "ledger/ledger.h"

/* The arguments of a launch: a pointer to each, or (parameters NULL) all in one buffer of `bytes` bytes, or none. */
struct arguments {
    void *const *parameters;
    const void *buffer;
    size_t bytes;
};

/* f is ruled. Takes no lock. */
bool rules_hold(const struct function *f, const struct ledger *l, const struct arguments *a);

#endif
