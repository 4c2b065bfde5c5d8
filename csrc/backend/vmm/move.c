/* Moves: copied from alias to alias while the page stays usable where it was, then mapped anew. */
#include "backend/vmm/vmm.h"
#include "base/larger.h"

enum { BATCH = ULMS_FRAMES_COME, TRIES = 3, OUT_BYTES = 4 << 20, PARKED_BYTES = 2 << 20 };

struct span {
    struct vmm_range *range;
    size_t first, end; /* pages */
};

static struct span span_of(struct vmm *v, const struct vmm_move *m) {
    struct vmm_range *r = vmm_range_find(v, m->start);
    size_t first = r ? (m->start - r->start) / page_bytes : 0;
    size_t pages = r ? r->bytes / page_bytes : 0, end = first + m->bytes / page_bytes;
    return (struct span){r, first, end < pages ? end : pages};
}

/* Frames for up to BATCH of the pages [*first, end) that need one; moves *first behind them. What is stale gets its own
 * back, if that is idle. Neighbours get neighbours, in order, where there is something to copy: they share the copy. */
static bool provide_some(struct ulms_frames *f, const struct span *s, const struct vmm_move *m, size_t *first) {
    enum vmm_place to = m->to;
    struct ulms_claim *claims[BATCH];
    uint32_t frames[BATCH];
    size_t pages[BATCH], n = 0;
    for (; *first < s->end && n < BATCH; ++*first) {
        struct vmm_page *p = &s->range->page[*first];
        if (p->at == to || p->frame[to] != NO_FRAME)
            continue;
        claims[n] = to == VMM_DEVICE && p->at == VMM_STALE ? &p->claim : NULL;
        pages[n++] = *first;
    }
    bool enough = ulms_frames_come(f, claims, frames, n, m->copy);
    for (size_t i = 0; i < n; i++)
        s->range->page[pages[i]].frame[to] = frames[i];
    return enough;
}

/* Slots for those that found no frame. */
static bool provide_slots(struct vmm *v, const struct span *s) {
    bool enough = !s->range->reserved;
    for (size_t i = s->first; enough && i < s->end; i++) {
        struct vmm_page *p = &s->range->page[i];
        if (p->at != VMM_DEVICE || p->frame[VMM_HOST] != NO_FRAME)
            continue;
        vmm_page_file(v, p, vmm_file_take(v));
        enough = vmm_page_is_filed(p);
    }
    return enough;
}

static bool provide(struct vmm *v, const struct span *s, const struct vmm_move *m) {
    enum vmm_place to = m->to;
    /* a page that is there already, an earlier move having failed half-way, may have been written since */
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at == VMM_DEVICE && to == VMM_DEVICE)
            vmm_page_drop(v, &s->range->page[i], VMM_HOST);
    for (size_t first = s->first; first < s->end;)
        if (!provide_some(&v->pool[to].frames, s, m, &first))
            return m->file && provide_slots(v, s);
    return true;
}

static bool needs_copy(const struct vmm_move *m, const struct vmm_page *p) {
    bool has = vmm_page_is_vacant(p) && (m->to == VMM_HOST || !p->filled);
    return m->copy && p->at != m->to && !has && !(m->to == VMM_HOST && m->clean && p->filled);
}

static bool follows(const struct vmm_page *before, const struct vmm_page *p) {
    return !vmm_page_is_filed(before) && !vmm_page_is_filed(p) &&
           p->frame[VMM_DEVICE] == before->frame[VMM_DEVICE] + 1 && p->frame[VMM_HOST] == before->frame[VMM_HOST] + 1;
}

/* Neighbours here and there, that can go in one copy, from the first of [*first, end) on that has to: moves *first to
 * it, returns how many. */
static size_t next_copy(const struct vmm_move *m, const struct span *s, size_t *first) {
    const struct vmm_page *page = s->range->page;
    size_t n = 1;
    while (*first < s->end && !needs_copy(m, &page[*first]))
        ++*first;
    if (*first == s->end)
        return 0;
    while (*first + n < s->end && needs_copy(m, &page[*first + n]) && follows(&page[*first + n - 1], &page[*first + n]))
        n++;
    return n;
}

/* Sets `*under_way` if it leaves copies behind that nobody has waited for. */
static bool copy_in(struct vmm *v, const struct vmm_move *m, const struct span *s, CUstream stream, bool *under_way) {
    for (size_t i = s->first, n; (n = next_copy(m, s, &i)) > 0; i += n) {
        const struct vmm_page *p = &s->range->page[i];
        addr_t to = vmm_page_alias(v, p, VMM_DEVICE);
        bool filed = vmm_page_is_filed(p);
        *under_way = true;
        if (!(filed ? vmm_file_read(v, p->slot, to, stream)
                    : vmm_copy(to, vmm_page_alias(v, p, VMM_HOST), n * page_bytes, stream)))
            return false;
    }
    return true;
}

/* Likewise. In short pieces, as mapping waits for each; shorter ones where every page is mapped at the placeholder. */
static bool copy_out(struct vmm *v, const struct vmm_move *m, const struct span *s, CUstream stream, bool *under_way) {
    const uint64_t most = m->parks ? PARKED_BYTES : OUT_BYTES;
    bool good = true;
    for (size_t i = s->first, n; good && (n = next_copy(m, s, &i)) > 0; i += n) {
        const struct vmm_page *p = &s->range->page[i];
        addr_t from = vmm_page_alias(v, p, VMM_DEVICE);
        if (vmm_page_is_filed(p)) {
            good = vmm_file_write(v, p->slot, from, stream);
            continue;
        }
        addr_t to = vmm_page_alias(v, p, VMM_HOST);
        for (uint64_t at = 0, bytes = n * page_bytes; good && at < bytes; at += most) {
            uint64_t piece = smaller(bytes - at, most);
            good = d2h_queue_copy(&v->d2h_queue, to + at, from + at, piece, stream);
        }
    }
    *under_way = *under_way || !good;
    return good;
}

static void settle(struct vmm *v, const struct vmm_move *m, struct vmm_page *p) {
    if (p->at == VMM_DEVICE) {
        vmm_page_file(v, p, NO_SLOT);
        bool keeps = m->to == VMM_DEVICE ? m->keep : m->clean && p->filled;
        p->filled = keeps && p->frame[VMM_HOST] != NO_FRAME;
        if (!p->filled)
            vmm_page_drop(v, p, VMM_HOST);
    } else if (p->at == VMM_HOST || vmm_page_is_vacant(p) || vmm_page_is_filed(p)) {
        vmm_page_drop(v, p, VMM_DEVICE);
    }
}

static bool wait(CUstream stream) {
    for (int i = 0; i < TRIES; i++)
        if (vmm_wait(stream))
            return true;
    return false;
}

/* Whoever got these frames would find them overwritten. */
static void lose(const struct vmm_move *m, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at != m->to)
            s->range->page[i].frame[m->to] = NO_FRAME;
}

/* Nobody can use what is unmapped. */
static void look(struct vmm *v, const struct vmm_move *m, const struct span *s, CUstream stream) {
    for (size_t i = s->first, n; m->look && i < s->end; i += n) {
        for (n = 0; i + n < s->end && s->range->page[i + n].at == VMM_UNMAPPED;)
            n++;
        if (n > 0)
            m->look(v, s->range, i, n, m, stream);
        else
            n = 1;
    }
}

/* What leaves the device for the host, and for the placeholder. */
static void will_be_vacant(const struct vmm_move *m, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at == VMM_DEVICE && s->range->page[i].frame[VMM_HOST] != NO_FRAME)
            s->range->page[i].filled = m->copy;
}

static void adopt(struct vmm *v, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at == VMM_UNMAPPED && s->range->page[i].frame[VMM_DEVICE] != NO_FRAME) {
            vmm_placeholder_adopt(v, &s->range->page[i]);
            return;
        }
}

/* They are not mapped, and their content is on the host. */
static void give_up_device(struct vmm *v, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at == VMM_UNMAPPED)
            vmm_page_drop(v, &s->range->page[i], VMM_DEVICE);
}

/* Pages that leave for the file are mapped nowhere while they are there. False: one is still mapped. */
static bool unmap_filed(struct vmm *v, const struct span *s) {
    bool all = true;
    for (size_t i = s->first; all && i < s->end; i++)
        all = s->range->page[i].at != VMM_DEVICE || !vmm_page_is_filed(&s->range->page[i]) ||
              vmm_range_unmap(v, s->range, i, 1, VMM_UNMAPPED);
    return all;
}

/* They stay on the device after all. */
static void map_filed(struct vmm *v, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++)
        if (s->range->page[i].at == VMM_UNMAPPED && vmm_page_is_filed(&s->range->page[i]))
            vmm_range_map(v, s->range, i, 1, VMM_DEVICE);
}

/* Nobody uses them while they are away, so they stay mapped where they were, but for those in the file; all or none. */
static void make_stale(struct vmm *v, const struct vmm_move *m, const struct span *s, bool all) {
    for (size_t i = s->first; s->range && i < s->end; i++) {
        struct vmm_page *p = &s->range->page[i];
        if (all && p->at == VMM_DEVICE) {
            vmm_page_lies(p, VMM_STALE);
            p->filled = m->copy;
            ulms_frames_give_stale(&v->pool[VMM_DEVICE].frames, p->frame[VMM_DEVICE], &p->claim);
            p->frame[VMM_DEVICE] = NO_FRAME;
        }
        settle(v, m, p);
    }
    if (s->range)
        vmm_hold_places(v, s->range, s->first, s->end - s->first);
}

/* They have their frames; what has its own back is mapped there still. */
static void arrive(struct vmm *v, const struct span *s) {
    for (size_t i = s->first; i < s->end; i++) {
        struct vmm_page *p = &s->range->page[i];
        if (p->at == VMM_DEVICE)
            continue;
        if (p->at == VMM_STALE && p->claim.frame == p->frame[VMM_DEVICE])
            vmm_page_lies(p, VMM_DEVICE);
        ulms_frames_hold(&v->pool[VMM_DEVICE].frames, p->frame[VMM_DEVICE], s->range->start + i * page_bytes,
                         &p->claim);
    }
}

/* Those that are ok. False: not all of them. */
static bool remap(struct vmm *v, const struct vmm_move *m, const struct span *s, const bool *ok, size_t n,
                  CUstream stream, void (*vacated)(void *), void *data) {
    bool whole = true;
    for (size_t i = 0; i < n; i++) {
        if (ok[i] && m[i].to == VMM_DEVICE)
            arrive(v, &s[i]);
        if (ok[i] && m->parks)
            will_be_vacant(&m[i], &s[i]);
        whole = ok[i] && vmm_range_unmap(v, s[i].range, s[i].first, s[i].end - s[i].first, m[i].to) && whole;
        if (ok[i])
            look(v, &m[i], &s[i], stream);
        if (ok[i] && m->parks)
            adopt(v, &s[i]);
    }
    if (whole && vacated && m->to == VMM_HOST) {
        for (size_t i = 0; i < n; i++)
            give_up_device(v, &s[i]);
        vacated(data);
    }
    for (size_t i = 0; i < n; i++) {
        if (ok[i] && m->parks)
            vmm_hold_vacant(v, s[i].range, s[i].first, s[i].end - s[i].first);
        whole = ok[i] && vmm_range_map(v, s[i].range, s[i].first, s[i].end - s[i].first, m[i].to) && whole;
        for (size_t p = s[i].first; s[i].range && p < s[i].end; p++)
            settle(v, &m[i], &s[i].range->page[p]);
        if (s[i].range)
            vmm_hold_places(v, s[i].range, s[i].first, s[i].end - s[i].first);
    }
    return whole;
}

void vmm_range_written(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        if (r->page[i].at == VMM_DEVICE)
            vmm_page_drop(v, &r->page[i], VMM_HOST);
}

enum vmm_moved vmm_move(struct vmm *v, const struct vmm_move *m, size_t n, CUstream stream, void (*vacated)(void *),
                        void *data) {
    struct span s[VMM_MOVES];
    bool ok[VMM_MOVES], whole = true, under_way = false;
    for (size_t i = 0; i < n; i++) {
        s[i] = span_of(v, &m[i]);
        ok[i] = s[i].range && provide(v, &s[i], &m[i]) &&
                (m[i].to == VMM_HOST ? copy_out : copy_in)(v, &m[i], &s[i], stream, &under_way);
    }
    bool done = !under_way || wait(stream);
    for (size_t i = 0; i < n; i++) {
        if (!done && s[i].range)
            lose(&m[i], &s[i]);
        ok[i] = ok[i] && done;
        whole = whole && ok[i];
    }
    for (size_t i = 0; i < n && m->stale && whole; i++)
        whole = unmap_filed(v, &s[i]);
    for (size_t i = 0; i < n && m->stale && !whole; i++)
        if (s[i].range)
            map_filed(v, &s[i]);
    for (size_t i = 0; i < n && m->stale; i++)
        make_stale(v, &m[i], &s[i], whole);
    if (n > 0 && !m->stale)
        whole = remap(v, m, s, ok, n, stream, vacated, data);
    return whole ? VMM_MOVED : done ? VMM_STAYED : VMM_STUCK;
}
