/* The pools' memory: a handle for each frame, mapped at its alias. Consecutive frames share what calls can share. */
#include <stdlib.h>

#include "backend/vmm/vmm.h"

static bool make_one(struct vmm_pool *p, uint32_t frame) {
    if (!vmm_create(&p->handles[frame], page_bytes, p->location, false))
        return false;
    if (vmm_map(vmm_alias(p, frame), page_bytes, p->handles[frame]))
        return true;
    vmm_release(p->handles[frame]);
    return false;
}

static bool unmake(void *own, uint32_t first, size_t n) {
    struct vmm_pool *p = own;
    if (!vmm_unmap(vmm_alias(p, first), n * page_bytes))
        return false;
    for (uint32_t i = first; i < first + n; i++) {
        if (p->pieces[i])
            vmm_pieces_release(p->pieces[i]);
        else
            vmm_release(p->handles[i]);
        p->pieces[i] = NULL;
    }
    gate_leave(&p->gate, n);
    return true;
}

static size_t make(void *own, uint32_t first, size_t n) {
    struct vmm_pool *p = own;
    size_t made = 0;
    gate_enter(&p->gate, n);
    while (made < n && make_one(p, first + (uint32_t)made))
        made++;
    gate_leave(&p->gate, n - made);
    if (made == 0 || vmm_allow(vmm_alias(p, first), made * page_bytes, &p->users))
        return made;
    unmake(p, first, made);
    return 0;
}

bool vmm_pool_open(struct vmm_pool *p, CUmemLocation location, int32_t device, uint64_t bytes,
                   struct frames_limit *limit) {
    static const struct frames_memory memory = {make, unmake};
    uint64_t count = bytes / page_bytes;
    *p = (struct vmm_pool){.location = location};
    p->users.access[p->users.count++] =
        (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    p->handles = calloc(count, sizeof *p->handles);
    p->pieces = calloc(count, sizeof *p->pieces);
    p->aliases = p->handles && p->pieces ? vmm_reserve(count * page_bytes) : 0;
    if (p->aliases && frames_open(&p->frames, count, &memory, p, limit))
        return true;
    if (p->aliases)
        vmm_unreserve(p->aliases, count * page_bytes);
    free(p->handles);
    free(p->pieces);
    return false;
}
