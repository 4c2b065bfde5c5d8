/* Copies to the host. The driver gives access to what is mapped only behind all of them that are queued by then: so
 * they are short, and few, of all movers together; but more than one, or the link would wait for us after each. */
#include "backend/vmm.h"

enum { PIECE = 4 << 20 };

bool vmm_out_open(struct vmm *v) {
    return sem_init(&v->out, 0, VMM_OUT_QUEUED) == 0;
}

void vmm_out_begin(struct vmm_out *o, struct vmm *v, CUstream stream) {
    *o = (struct vmm_out){.v = v, .stream = stream, .good = true};
    for (unsigned i = 0; i < VMM_OUT_QUEUED; i++)
        o->piece[i].done = vmm_event_new();
}

/* Waits for the first that is queued, and for all of them where nothing marks its end. */
static void finish_first(struct vmm_out *o) {
    struct vmm_piece *p = &o->piece[o->first];
    bool done = (p->marked && vmm_event_wait(p->done)) || vmm_wait(o->stream);
    o->good = o->good && done;
    sem_post(&o->v->out);
    o->first = (o->first + 1) % VMM_OUT_QUEUED;
    o->queued--;
}

/* Who has something queued does not wait for others: they could wait for it. */
static void take_turn(struct vmm_out *o) {
    while (o->queued > 0 && sem_trywait(&o->v->out))
        finish_first(o);
    while (o->queued == 0 && sem_wait(&o->v->out))
        ;
}

static void send(struct vmm_out *o, addr_t to, addr_t from, uint64_t bytes) {
    take_turn(o);
    struct vmm_piece *p = &o->piece[(o->first + o->queued) % VMM_OUT_QUEUED];
    o->good = vmm_copy(to, from, bytes, o->stream) && o->good;
    p->marked = p->done && vmm_event_record(p->done, o->stream);
    o->queued++;
}

bool vmm_out_copy(struct vmm_out *o, addr_t to, addr_t from, uint64_t bytes) {
    for (uint64_t at = 0; o->good && at < bytes; at += PIECE)
        send(o, to + at, from + at, bytes - at < PIECE ? bytes - at : PIECE);
    return o->good;
}

bool vmm_out_end(struct vmm_out *o) {
    while (o->queued > 0)
        finish_first(o);
    for (unsigned i = 0; i < VMM_OUT_QUEUED; i++)
        if (o->piece[i].done)
            vmm_event_delete(o->piece[i].done);
    return o->good;
}
