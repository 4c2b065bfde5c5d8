#include "backend/um.h"

#include "backend/backend.h"

static void admit(struct op *op) {
    (void)op;
}

static void settle(const struct op *op) {
    (void)op;
}

static void arrived(addr_t start, uint64_t bytes, int32_t device) {
    (void)start;
    (void)bytes;
    (void)device;
}

static void leaving(addr_t start, uint64_t bytes) {
    (void)start;
    (void)bytes;
}

const struct backend backend_um = {.name = "um",
                                   .admit = admit,
                                   .settle = settle,
                                   .serves = um_serves,
                                   .provide = um_provide,
                                   .arrived = arrived,
                                   .leaving = leaving};
