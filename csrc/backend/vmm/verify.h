/* ULMS_VERIFY: whether any page was written by an operation that did not show it.
 *
 * A page that has moved is sealed with a checksum of its content. Every operation that shows that it may write there
 * breaks the seal. A page that moves again with its seal whole must have the content it was sealed with; and what was
 * copied of any page must be what it holds once nobody can write it any more. */
#ifndef ULMS_VMM_VERIFY_H
#define ULMS_VMM_VERIFY_H

#include "backend/vmm/memory.h"
#include "base/options.h"

static inline bool vmm_verifies(void) {
    return __builtin_expect(ulms_options.verify != VERIFY_OFF, 0);
}

/* The operation is issued next: its kernel will be named. */
void vmm_verify_issued(const struct op *op);
/* The operation was admitted, and touches d->admission.touches: n; opaque: it may write anything. Under the lock. */
void vmm_verify_admitted(struct pager *d, size_t n, bool opaque);
/* A page that is new: if it is on the host, what is there is sealed. In the device's context, without the lock. */
void vmm_verify_new(struct vmm *v, struct vmm_range *r, size_t page);
/* struct vmm_move's look. A page that was written in spite of all is copied again, so that nothing is lost. */
void vmm_verify_look(struct vmm *v, struct vmm_range *r, size_t first, size_t n, const struct vmm_move *m,
                     CUstream stream);
/* After a move: whether the context survived it. */
void vmm_verify_moved(const struct vmm *v, const struct vmm_move *m, CUstream stream);

#endif
