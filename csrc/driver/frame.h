/* The calls that the thread is in. */
#ifndef ULMS_FRAME_H
#define ULMS_FRAME_H

/* Between a library that asks for memory and us lies at most the CUDA runtime and an allocator of its own. */
enum { FRAME_MAX = 16 };

/* Where the calls return to, the innermost first, our own included; returns how many. Without the loader. */
int frame_list(void *frames[FRAME_MAX]);
/* The path of the object that a frame of this thread is in; empty for the program itself, and where there is none. */
const char *frame_path(void *frame);

#endif
