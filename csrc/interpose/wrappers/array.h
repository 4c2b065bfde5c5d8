/* What copies ask about arrays. */
#ifndef ULMS_ARRAY_H
#define ULMS_ARRAY_H

#include <stddef.h>

#include "driver.h"

/* Bytes of an element, as the driver describes the array. 0: it does not, or elements are not stored one by one. */
size_t array_element(CUarray array);
/* The context is gone, with all its arrays. */
void array_forget(uint64_t context);

#endif
