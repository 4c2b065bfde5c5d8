#include "ulms.h"

#ifndef ULMS_VERSION
#define ULMS_VERSION "0.1.0"
#endif

const char *ulms_version(void) {
    return ULMS_VERSION;
}
