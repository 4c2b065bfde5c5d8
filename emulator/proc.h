/* Every symbol of the driver, from the tables in hooks/. */
#ifndef EMU_PROC_H
#define EMU_PROC_H

#include <stddef.h>
#include <stdint.h>

struct proc_row {
    const char *symbol, *base;
    uint32_t since;        /* driver version from which asking for the base gives this symbol */
    void *function, *twin; /* twin: for per-thread default streams, or NULL */
};

extern const struct proc_row proc_rows[];
extern const size_t proc_row_count;

/* The version that a symbol, or its twin, came with; 0: not in the tables. */
uint32_t proc_since(const char *symbol);

#endif
