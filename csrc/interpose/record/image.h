/* Loaded images, on a driver that does not tell parameters: which handle is which kernel of which image. */
#ifndef ULMS_INTERPOSE_IMAGE_H
#define ULMS_INTERPOSE_IMAGE_H

#include "driver.h"
#include "launch/function.h"
#include "launch/image.h"

struct loaded;

/* A call that loads, or gives a handle, returned: whether the image is looked into. */
bool loaded_wanted(CUresult status);
/* The content of a file; NULL: it tells nothing. */
struct image *loaded_read(const char *path);
/* The handle stands for the image, which is taken over. */
void loaded_enter(const void *handle, struct image *image);
/* `to` is another handle for what `from` stands for or, with a name, for that kernel of it. */
void loaded_derived(const void *from, const void *to, const char *name);

/* Fills in the name by which the program asked for the handle and, if the image tells, its layout. Any thread. */
void loaded_describe(uint64_t handle, struct layout *out);

/* An unload of a module or library: before the real call, which may give its handles to another thread at once; NULL
 * when nothing is known of it. */
struct loaded *loaded_unload_begin(const void *handle);
/* The real call returned: forgets the image, or keeps it after all. */
void loaded_unload_end(struct loaded *going, CUresult status);

#endif
