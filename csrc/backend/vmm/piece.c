/* Frames of pieces: handles that may be exported. A frame whose neighbours belong to different allocations has a piece
 * for each grain, so that another process is given those of one allocation alone. The driver clears new memory, and
 * such a frame is never used again: nobody is given what others left behind. */
#include <stdlib.h>

#include "backend/vmm/vmm.h"

void vmm_pieces_release(struct vmm_pieces *s) {
    for (size_t i = 0; i < s->count; i++)
        vmm_release(s->handle[i]);
    free(s);
}

static struct vmm_pieces *create(CUmemLocation location, size_t n) {
    struct vmm_pieces *s = malloc(sizeof *s + n * sizeof s->handle[0]);
    if (!s)
        return NULL;
    *s = (struct vmm_pieces){.bytes = page_bytes / n};
    while (s->count < n && vmm_create(&s->handle[s->count], s->bytes, location, true))
        s->count++;
    if (s->count == n)
        return s;
    vmm_pieces_release(s);
    return NULL;
}

static bool map(const struct vmm_pieces *s, addr_t at, const struct vmm_users *users) {
    size_t done = 0;
    while (done < s->count && vmm_map(at + done * s->bytes, s->bytes, s->handle[done]))
        done++;
    if (done == s->count && vmm_allow(at, page_bytes, users))
        return true;
    if (done > 0)
        vmm_unmap_again(at, done * s->bytes);
    return false;
}

static bool make(void *own, uint32_t frame, size_t n) {
    struct vmm_pool *p = own;
    gate_enter(&p->gate, 1);
    struct vmm_pieces *s = create(p->location, n);
    bool made = s && map(s, vmm_alias(p, frame), &p->users);
    if (s && !made)
        vmm_pieces_release(s);
    p->pieces[frame] = made ? s : NULL;
    gate_leave(&p->gate, !made);
    return made;
}

uint32_t vmm_frame_make_pieces(struct vmm_pool *p, size_t n) {
    return frames_make_once(&p->frames, make, n);
}

bool vmm_frame_map_pieces(const struct vmm_pool *p, uint32_t frame, addr_t page, const struct vmm_users *users) {
    return map(p->pieces[frame], page, users);
}
