#include "ulms.h"

const char *ulms_version(void) {
    return ULMS_VERSION; // of pyproject.toml, by CMake
}
