/* How much memory the devices hold, where other processes can see it: in the file EMU_RESIDENT. */
#ifndef EMU_RESIDENT_H
#define EMU_RESIDENT_H

#include <stdint.h>

/* One row for each of DEVICES_MAX devices: bytes that all processes with the file hold, and the most they ever held;
 * of these, in pages of managed memory that were not discarded. */
struct resident {
    uint64_t used, most, pages, pages_most;
};

/* Maps the file; the process ends if that fails. Private rows if EMU_RESIDENT is not set. Once, by cuInit. */
void resident_open(void);
/* The device holds so many bytes more; less if negative. From any thread. */
void resident_change(int device, int64_t bytes);
/* So many of these bytes more are in pages of managed memory that were not discarded. */
void resident_change_pages(int device, int64_t bytes);
/* The most of both. */
struct resident resident_most(int device);

#endif
