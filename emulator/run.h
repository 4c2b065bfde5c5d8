/* An operation while it runs on a stream's worker: what it uses and what it costs. */
#ifndef EMU_RUN_H
#define EMU_RUN_H

#include "context.h"
#include "emu.h"

#include <setjmp.h>

struct range {
    uint64_t start, bytes;
};

struct emu_launch {
    CUcontext context;
    CUstream stream;
    struct device *device;
    const struct launch *kernel; /* NULL: not a kernel */
    const char *name;
    uint64_t operation;
    jmp_buf stop; /* where run_fail goes */
    CUresult error;

    /* Under the lock of areas.c: what must not go away while this runs. */
    struct range *uses;
    size_t use_count, use_room;
    atomic_bool stale; /* something it uses was taken away */
    struct emu_launch *next;

    /* Under pages_lock: its number, once it has touched managed pages, and how many that its arguments show. */
    uint64_t toucher, touched;

    /* What it costs. */
    uint64_t spent; /* declared, ns */
    uint64_t device_bytes;
    uint64_t host_read, host_written; /* over the link */
    uint64_t fault_bytes, evict_bytes;
    uint64_t prefetch_bytes;
    bool to_host;         /* the way they go */
    uint64_t waits_until; /* modelled time, ns: 0, or bytes that it uses are there */
    uint64_t clock;       /* modelled time at which it began, then ended, ns */
};

/* Ends the operation and poisons its context. Does not return. */
_Noreturn void run_fail(struct emu_launch *r, CUresult error);

/* areas.c: from begin to end, what it uses is not taken away under it. end returns the error if something was. */
void run_begin(struct emu_launch *r);
CUresult run_end(struct emu_launch *r);

#endif
