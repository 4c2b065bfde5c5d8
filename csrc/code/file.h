/* The images in a file's bytes: the one that it is, or fat binaries wherever they lie. */
#ifndef ULMS_CODE_FILE_H
#define ULMS_CODE_FILE_H

#include "code/view.h"

/* The first image from `at` on, which moves behind its beginning. False: there is none. */
bool code_file_next(const struct view *file, uint64_t *at, struct view *image);

#endif
