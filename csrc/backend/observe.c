#include "backend/backend.h"

static void let_pass(struct op *op) {
    (void)op;
}

static void let_go(const struct op *op) {
    (void)op;
}

static bool serve_none(int32_t device) {
    (void)device;
    return false;
}

const struct backend backend_observe = {.name = "observe", .admit = let_pass, .settle = let_go, .serves = serve_none};
