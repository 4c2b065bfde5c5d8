/* What lies in the memory of another process that has this library, too. */
#ifndef EMU_SAVED_H
#define EMU_SAVED_H

#include <stdbool.h>
#include <stddef.h>

/* `here` is an object of the library, in this process. False: the process is not there, or has not this library. */
bool saved_read(int pid, const void *here, void *out, size_t bytes);
bool saved_write(int pid, const void *here, const void *from, size_t bytes);

#endif
