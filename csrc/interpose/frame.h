/* The calls that the thread is in. */
#ifndef ULMS_FRAME_H
#define ULMS_FRAME_H

/* Between a library that asks for memory and us lies at most the CUDA runtime and an allocator of its own. */
enum { FRAME_MAX = 16 };

/* Where the calls return to, the innermost first, our own included; returns how many. Without the loader. */
int frame_list(void *frames[FRAME_MAX]);

#endif
