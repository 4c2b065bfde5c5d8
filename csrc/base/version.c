#include "ulms.h"

#ifndef ULMS_VERSION /* CMake has it from pyproject.toml; benchmarks and tests compile without CMake */
#define ULMS_VERSION "unknown"
#endif

const char *ulms_version(void) {
    return ULMS_VERSION;
}
