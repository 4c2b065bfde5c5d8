/* What every exported function does first: count, fail if told to, check that the caller may call it. And how its body
 * is defined. */
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

/* CUDA_SUCCESS, or what the function must answer. *c: the current context where one is needed. *inside: call_leave
 * counts it as over. */
CUresult call_enter(struct call *call, unsigned need, CUcontext *c, bool *inside);
/* checkpoint.c: waits while the process is locked by another one. */
void checkpoint_pass(bool *inside);
void call_leave(const bool *inside);
/* Says once on stderr that a function is not emulated; CUDA_ERROR_NOT_SUPPORTED. */
CUresult call_absent(struct call *call);
/* The same for a part of a function that is otherwise emulated. */
#define NOT_EMULATED(what)                                                                                             \
    do {                                                                                                               \
        static struct call part = {.name = what};                                                                      \
        return call_absent(&part);                                                                                     \
    } while (0)

/* The body of an exported function. Programs enter by a function made from hooks/, which counts the call, fails if told
 * to, and checks what it needs (enum call_need). c is the current context where one is needed. */
#define CALL(symbol, need, ...)                                                                                        \
    const unsigned need_##symbol = (need);                                                                             \
    CUresult body_##symbol(CUcontext c __VA_OPT__(, ) __VA_ARGS__)
/* The same of a function with a twin for per-thread default streams: s is the stream that the handle means. */
#define CALL_ON(symbol, ...)                                                                                           \
    const unsigned need_##symbol = CALL_CONTEXT;                                                                       \
    CUresult body_##symbol(CUcontext c, CUstream s __VA_OPT__(, ) __VA_ARGS__)
/* A function with the parameters and the body of another one, which stands above. */
#define SAME(symbol, other)                                                                                            \
    extern __typeof__(need_##other) need_##symbol __attribute__((alias("need_" #other)));                              \
    __typeof__(body_##other) body_##symbol __attribute__((alias("body_" #other)))

#define BODY __attribute__((weak, visibility("hidden")))
#include "emulator_bodies.h"

/* What an exported function begins with: declares c. */
#define ENTER_AS(exported, need)                                                                                       \
    static struct call self = {.name = exported};                                                                      \
    CUcontext c = NULL;                                                                                                \
    __attribute__((cleanup(call_leave))) bool inside = false;                                                          \
    CUresult begun = call_enter(&self, (need), &c, &inside);                                                           \
    if (begun != CUDA_SUCCESS)                                                                                         \
    return begun
#define ENTER(symbol, exported)                                                                                        \
    ENTER_AS(exported, body_##symbol ? need_##symbol : CALL_ANY);                                                      \
    if (!body_##symbol)                                                                                                \
    return call_absent(&self)

/* Checks of arguments. */
#define INVALID_IF(condition)                                                                                          \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            return CUDA_ERROR_INVALID_VALUE;                                                                           \
    } while (0)
#define CHECK_DEVICE(d)                                                                                                \
    do {                                                                                                               \
        if (!device_valid(d))                                                                                          \
            return CUDA_ERROR_INVALID_DEVICE;                                                                          \
    } while (0)
/* Ends the function with what the call answered unless it succeeded. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        CUresult tried = (call);                                                                                       \
        if (tried != CUDA_SUCCESS)                                                                                     \
            return tried;                                                                                              \
    } while (0)
/* Ends a function that tells one value. */
#define TELL(out, value)                                                                                               \
    do {                                                                                                               \
        INVALID_IF(!(out));                                                                                            \
        *(out) = (value);                                                                                              \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

/* --- failures, fail.c --- */

/* CUDA_SUCCESS, or the error that this call was told to answer. */
CUresult fail_now(const char *symbol);
/* The calling thread spares it (emu_spare). */
bool fail_spares(const char *symbol);
/* True when `name` names `symbol`: the same, or the same without _v2, _ptsz, _ptds. */
bool call_named(const char *symbol, const char *name);

#endif
