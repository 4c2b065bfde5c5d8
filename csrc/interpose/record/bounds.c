#include "interpose/record/bounds.h"

#include "backend/backend.h"
#include "base/hot.h"
#include "base/page.h"
#include "driver/session.h"
#include "interpose/replace/deferred_free.h"
#include "interpose/replace/own.h"
#include "interpose/replace/provide.h"

/* Where the memory ends that begins with a: mappings of handles that follow one another are one for the driver. */
static addr_t end_of(const struct allocation *a) {
    struct allocation next = *a;
    addr_t end = a->start + a->bytes;
    while (next.kind == MEMORY_VMM && ledger_find(session.ledger, end, &next) && next.kind == MEMORY_VMM)
        end = next.start + next.bytes;
    return end;
}

bool bounds_left(const struct allocation *a, addr_t start, uint64_t bytes) {
    return bytes > a->start + a->bytes - start && provided(a) && bytes > end_of(a) - start;
}

bool bounds_outside(addr_t start) {
    struct allocation before;
    if (!ledger_managed(session.ledger))
        return false;
    if (ledger_find_before(session.ledger, start, &before) && provided(&before) &&
        start < before.start + whole_grains(before.bytes))
        return true;
    return deferred_holds(start) || (session.backend->holds && session.backend->holds(start));
}

/* The first allocation that reaches into the range is looked for first: most ranges lie in one. */
static bool any_provided(addr_t start, uint64_t bytes, bool mapped_too) {
    struct allocation a;
    if (!session_on || !ledger_managed(session.ledger))
        return false;
    bool found = ledger_find(session.ledger, start, &a);
    if (!found && bounds_outside(start))
        return mapped_too || !own_reserved(start);
    found = found || ledger_list(session.ledger, start, &a, 1) == 1;
    while (found && (a.start <= start || a.start - start < bytes)) {
        if (provided(&a) && (mapped_too || a.kind != MEMORY_VMM))
            return true;
        found = ledger_list(session.ledger, a.start + a.bytes, &a, 1) == 1;
    }
    return false;
}

bool bounds_replaced(addr_t start, uint64_t bytes) {
    return any_provided(start, bytes, true);
}

bool bounds_unmapped(addr_t start, uint64_t bytes) {
    return any_provided(start, bytes, false);
}

CUresult bounds_refusal(uint64_t stream) {
    enum { DEFAULT_STREAMS = 2 }; /* to ask for those may spoil a capture */
    unsigned flags;
    size_t left, all; /* told only by a context that is there, and not lost to an error */
    CUresult status = stream > DEFAULT_STREAMS ? REAL(cuStreamGetFlags, 0)((CUstream)(uintptr_t)stream, &flags)
                                               : REAL(cuMemGetInfo_v2, 0)(&left, &all);
    return status ? status : CUDA_ERROR_INVALID_VALUE;
}

static SELDOM bool kept(addr_t start, uint64_t bytes) {
    struct allocation a;
    return ledger_find(session.ledger, start, &a) ? !bounds_left(&a, start, bytes) : !bounds_outside(start);
}

HOT bool bounds_kept(addr_t start, uint64_t bytes) {
    return ledger_managed(session.ledger) == 0 || bytes == 0 || ledger_holds(session.ledger, start, bytes) ||
           kept(start, bytes);
}
