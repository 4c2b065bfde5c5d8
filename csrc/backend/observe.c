#include "backend/backend.h"

static void let_pass(struct op *op) {
    (void)op;
}

static void let_go(const struct op *op) {
    (void)op;
}

const struct backend backend_observe = {.name = "observe", .admit = let_pass, .settle = let_go};
