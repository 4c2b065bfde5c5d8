/* Loaded images: which handle is which kernel of which image. Wanted where the driver does not tell parameters, or
 * where the kernels' code is read. */
#ifndef ULMS_INTERPOSE_IMAGE_H
#define ULMS_INTERPOSE_IMAGE_H

#include "driver.h"
#include "launch/function.h"

struct loaded;

/* The session begins: from now on code is read, if that is wanted and can be done. */
void loaded_begin(void);
/* A call that loads, or gives a handle, returned: whether the image is looked into. */
bool loaded_wanted(CUresult status);
/* The handle stands for the image at `start`. stays: it lies there until it is unloaded. changed: the driver may make
 * something else of it than it says. */
void loaded_enter(const void *handle, const void *start, bool stays, bool changed);
/* The same of the content of a file. */
void loaded_enter_file(const void *handle, const char *path);
/* `to` is another handle for what `from` stands for or, with a name, for that kernel of it. */
void loaded_derived(const void *from, const void *to, const char *name);

/* Fills in the name by which the program asked for the handle and, if the image tells, its layout. Any thread. */
void loaded_describe(uint64_t handle, struct layout *out);
/* The code of the kernel of that name, which the handle stands for, or comes from; not set: it is not read. False: the
 * handle is not known. Any thread. */
bool loaded_code(uint64_t handle, const char *kernel, const struct kernel_code **out);

/* An unload of a module or library: before the real call, which may give its handles to another thread at once; NULL
 * when nothing is known of it. */
struct loaded *loaded_unload_begin(const void *handle);
/* The real call returned: forgets the image, or keeps it after all. */
void loaded_unload_end(struct loaded *going, CUresult status);
/* A context goes with its modules, of which nobody tells: no handle is of code that was read any more. */
void loaded_forget(void);

#endif
