/* Writing from inside a program that must not feel it: no signal of ours reaches it, and its files are left alone. */
#ifndef ULMS_OUTPUT_H
#define ULMS_OUTPUT_H

#include "types.h"

/* Writes all of it; interrupted and partial writes go on. False, with errno, when it cannot: neither a closed pipe nor
 * a file size limit raises a signal. Any thread. */
bool output_write(int fd, const void *data, size_t bytes);
/* A new file that its owner alone may use, whatever the umask. Nothing that exists is opened, a link neither: so no
 * other file is written to, and no pipe is waited for. -1, with errno; EEXIST also where a link leads nowhere. */
int output_create(const char *path);
/* Moves a descriptor of ours out of the range where the program expects its own; returns its number. */
int output_move(int fd);

#endif
