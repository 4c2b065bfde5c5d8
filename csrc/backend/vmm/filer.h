/* What the threads of filer.c do, for who asks them to. All under the device's lock where nothing else is said. */
#ifndef ULMS_VMM_FILER_H
#define ULMS_VMM_FILER_H

#include "backend/vmm/memory.h"

enum { FILERS = 3 };

struct filer {
    struct pager_worker worker[FILERS];
    const char *idle; /* why no thread is there; NULL: one is */
    struct condition work;
    bool fills;                /* pages go to the file: */
    addr_t next;               /* from there on they were not looked at yet */
    bool whole;                /* no more does */
    unsigned writing, reading; /* pages that go, or come, just now */
    addr_t recall, end;        /* what of these addresses lies in the file is to come to the host */
    uint64_t recalled, failed; /* pages that did, and did not */
    unsigned pausing;          /* who asks for them lets no move begin: so many */
};

/* A page that a thread of these has. */
struct job {
    struct vmm_range *range;
    size_t page;
    uint64_t move;
};

typedef bool filer_asks(const struct pager *d, const struct job *j);

/* The first page of [*at, end) that is so; moves *at behind it. */
bool filer_next(const struct pager *d, addr_t *at, addr_t end, struct job *j, filer_asks *is);
/* It lies in the file. */
bool filer_is_filed(const struct pager *d, const struct job *j);
/* The page stays on the host until all operations of lower tickets have retired. */
void filer_keep(const struct job *j, uint64_t until);
/* The device's, made if need be; its threads run, or `idle` says why not. Without the lock. NULL: there is no memory.
 */
struct filer *filer_of(struct pager *d);

#endif
