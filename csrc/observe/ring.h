/* A ring of records from one thread, the owner, to the writer. Neither ever waits for the other. A record lies in one
 * piece: what does not fit before the end goes to the start. Rings are never unmapped; they pass from thread to thread.
 */
#ifndef ULMS_RING_H
#define ULMS_RING_H

#include "types.h"

enum {
    RING_BYTES = 1 << 20,
    RING_RESERVE = RING_BYTES / 8, /* kept for records that later ones refer to */
    RINGS_MAX = 256
};

enum ring_state { RING_FREE, RING_OWNED, RING_LEFT /* its thread has ended; free once empty */ };

struct ring {
    /* the owner's line */
    uint64_t head; /* bytes ever filled; head and tail fall on the same offset modulo RING_BYTES */
    uint64_t next; /* head after the commit */
    uint64_t seen; /* a past value of tail */
    uint64_t lost; /* records dropped, ever */
    /* the writer's line */
    uint64_t tail __attribute__((aligned(64)));
    uint64_t told; /* drops reported, ever */
    /* both; changes once a lap */
    uint64_t wrap __attribute__((aligned(64))); /* offset behind the last record of the lap that the tail is in */
    uint32_t thread;
    uint32_t state; /* enum ring_state */
    struct ring *next_ring;
    unsigned char data[RING_BYTES] __attribute__((aligned(64)));
};

/* A ring for the calling thread, or NULL: no memory, or RINGS_MAX in use. */
struct ring *ring_take(uint32_t thread);
/* Owner: ends; what is in it is still written. */
void ring_leave(struct ring *r);
/* Every ring there has been; the next one is next_ring. */
struct ring *ring_first(void);
/* Forgets all rings, in the child of a fork. */
void ring_forget(void);

/* Owner: room for one record of at most RING_BYTES / 4, a multiple of 8; NULL: full, and the drop is counted. */
void *ring_fill(struct ring *r, uint32_t bytes, bool keep);
/* Owner: hands over the record just filled. True when the writer should not wait for its next round. */
bool ring_commit(struct ring *r);

/* Writer: a run of whole records; 0: empty. */
size_t ring_peek(struct ring *r, const unsigned char **data);
/* Writer: has done with that many bytes of the run. */
void ring_drain(struct ring *r, size_t bytes);

#endif
