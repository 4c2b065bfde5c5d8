/* Calls of every wrapped function of the driver and the libraries, with arguments that are drawn. */
#ifndef PROGRAM_EVERY_CALL_H
#define PROGRAM_EVERY_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "calls.h"

/* Handles and memory of the program's own, which arguments are drawn from. */
void objects_make(void);
/* All of them still work. */
void objects_use(void);
/* Makes those anew that a call has freed: of memory of ours a free may succeed where the driver's is refused. */
void objects_mend(void);

/* Makes the function's call `number`: the same arguments for each number. The driver refuses it. */
int call_drawn(const struct called *c, int variant, void *function, unsigned number);
/* NULL: there is none here. */
void *call_find(const struct called *c, int variant);
/* Where arguments that are pointers point to. */
void *call_scratch(void);

/* Runs the calls in a child (`raw`: made by the system call alone) in which no variable of the library's can be
 * written; `all`: nor anything that was allocated, but the mapping that has `writable`. Returns the child's status. */
struct child_calls {
    void (*call)(void *data);
    void *data;
    bool all;
    const void *writable;
};
int child_run(const struct child_calls *c, bool raw);

#endif
