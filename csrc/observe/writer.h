/* The one thread that empties the rings into the trace file. It exists from writer_open to writer_close, has every
 * signal blocked, takes no lock and calls no malloc. */
#ifndef ULMS_WRITER_H
#define ULMS_WRITER_H

#include "types.h"

/* Creates the file, under a name of its own if there is one already, with its header, and starts the thread. False:
 * told in one ERROR line. Once at a time. */
bool writer_open(const char *path, const char *header);
/* There is much to write: do not wait for the next round. Any thread. */
void writer_wake(void);
/* Counts the drop of a record that had no ring to go to. Any thread. */
void writer_lose(void);
/* Writes what the rings hold, ends the file and joins the thread; gives up after some seconds. Any thread. */
void writer_close(void);
/* In the child of a fork: there is no thread, the file is the parent's. */
void writer_forget(void);

#endif
