/* What every exported function does first: count, fail if told to, check that the caller may call it. */
#ifndef EMU_CALL_H
#define EMU_CALL_H

#include "cuda/abi.h"

#include <stdatomic.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

struct call {
    const char *name;
    atomic_ullong count, spared; /* of these, by emu_spare */
    atomic_uint since;           /* driver version it came with */
    atomic_bool listed, said;
    struct call *next;
};

enum call_need {
    CALL_ANY = 0,         /* may come before cuInit */
    CALL_DRIVER = 1,      /* after cuInit, and not in the child of a fork */
    CALL_PASSES = 2 | 1,  /* passing the lock of the current context, if there is one */
    CALL_CONTEXT = 4 | 3, /* with a living context current, passing its lock */
    CALL_UNSAFE = 8,      /* not while a stream captures */
    CALL_POISONED = 16,   /* also in a context that has failed */
};

/* CUDA_SUCCESS, or what the function must answer. *c: the current context where one is needed. */
CUresult call_enter(struct call *call, unsigned need, CUcontext *c);
/* Says once on stderr that a function is not emulated; CUDA_ERROR_NOT_SUPPORTED. */
CUresult call_absent(struct call *call);
/* The same for a part of a function that is otherwise emulated. */
#define NOT_EMULATED(what)                                                                                             \
    do {                                                                                                               \
        static struct call part = {.name = what};                                                                      \
        return call_absent(&part);                                                                                     \
    } while (0)

/* First line of an exported function: declares c, the current context. */
#define BEGIN_AS(call_, need)                                                                                          \
    CUcontext c = NULL;                                                                                                \
    CUresult begun = call_enter((call_), (need), &c);                                                                  \
    if (begun != CUDA_SUCCESS)                                                                                         \
        return begun;                                                                                                  \
    (void)c
#define BEGIN(need)                                                                                                    \
    static struct call self = {.name = __func__};                                                                      \
    BEGIN_AS(&self, need)

/* An exported function and its twin for per-thread default streams, with one body that takes `per_thread` as well.
 * The body starts with BEGIN_AS(call, need). */
#define UNWRAP(...) __VA_ARGS__
#define STREAMED(symbol, suffix, params, args)                                                                         \
    static CUresult symbol##_body(struct call *call, bool per_thread, UNWRAP params);                                  \
    EXPORT CUresult symbol params {                                                                                    \
        static struct call self = {.name = #symbol};                                                                   \
        return symbol##_body(&self, false, UNWRAP args);                                                               \
    }                                                                                                                  \
    EXPORT CUresult symbol##suffix params {                                                                            \
        static struct call self = {.name = #symbol #suffix};                                                           \
        return symbol##_body(&self, true, UNWRAP args);                                                                \
    }                                                                                                                  \
    static CUresult symbol##_body(struct call *call, bool per_thread, UNWRAP params)

/* --- failures, fail.c --- */

void fail_read_environment(void);
/* CUDA_SUCCESS, or the error that this call was told to answer. */
CUresult fail_now(const char *symbol);
/* The calling thread spares it (emu_spare). */
bool fail_spares(const char *symbol);
/* True when `name` names `symbol`: the same, or the same without _v2, _ptsz, _ptds. */
bool call_named(const char *symbol, const char *name);

#endif
