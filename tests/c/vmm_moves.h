/* What the tests of the remapping backend's moves share: moves of a range, and what they cost. */
#ifndef ULMS_TESTS_VMM_MOVES_H
#define ULMS_TESTS_VMM_MOVES_H

#include "vmm_device.h"

static inline bool move(const struct vmm_move *m) {
    return vmm_move(&v, m, 1, NULL, NULL, NULL) == VMM_MOVED;
}

static inline struct vmm_move whole(const struct vmm_range *r, enum vmm_place to) {
    return (struct vmm_move){.start = r->start, .bytes = r->bytes, .to = to, .copy = true};
}

/* A half of it, to the host. */
static inline struct vmm_move part(const struct vmm_range *r, unsigned half) {
    struct vmm_move m = whole(r, VMM_HOST);
    m.bytes /= 2;
    m.start += half * m.bytes;
    return m;
}

static inline uint64_t copied(void) {
    struct emu_traffic t;
    emu_traffic(&t);
    return t.copied_in + t.copied_out;
}

static inline uint64_t mapping_calls(void) {
    return emu_calls("cuMemMap") + emu_calls("cuMemUnmap") + emu_calls("cuMemSetAccess");
}

#endif
