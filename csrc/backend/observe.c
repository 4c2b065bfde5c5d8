#include "backend/backend.h"

static bool serve_none(int32_t device) {
    (void)device;
    return false;
}

const struct backend backend_observe = {.name = "observe", .serves = serve_none};
