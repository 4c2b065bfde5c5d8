/* What an allocation is charged: promised before the real call, committed or rolled back after it. Every kind of
 * allocation goes through these. */
#ifndef ULMS_CHARGE_H
#define ULMS_CHARGE_H

#include "base/patience.h"
#include "driver.h"
#include "types.h"

struct charge {
    bool recorded;
    bool managed;
    int device;
    enum memory_kind kind;
    uint64_t asked;   /* bytes, as the program said */
    uint64_t bytes;   /* promised; after the real call, charged */
    uint64_t context; /* 0: asked for when the memory is there */
    uint64_t coming;  /* bytes of the device that pages leave for */
    bool reserved;    /* it is the driver's pools or graphs that hold it: they are charged (reserved.h) */
    CUresult status;  /* what the program gets */
};

/* Whether memory of this kind is refused where it would pass the limit. */
bool charge_limited(int device, enum memory_kind kind);
/* Promises what the driver takes for so many bytes of plain memory. False when the quota refuses: status is then the
 * driver's out-of-memory error and the real function is not called. True also when nothing is recorded at all. */
bool charge_open(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* The same whatever the quota: nothing is refused. */
void charge_open_unlimited(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* As charge_open, for managed memory on a device that the backend serves; for plain memory on another. */
bool charge_open_managed(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* The quota refuses after all, as it turned out what the driver takes: counted and told. */
void charge_refuse(struct charge *c, uint64_t bytes);
/* So much plain memory is about to be there, which no limit bounds: where memory moves, pages leave for it. It is. */
void charge_comes(struct charge *c, uint64_t bytes);
void charge_came(struct charge *c);
/* Of one call that may be made again: whether the backend was asked, and how long others were waited for. */
struct charge_relief {
    bool asked;
    struct patience others;
};
/* The real call returned `status`: the driver had no memory, but the backend gave some back, or other processes may
 * within a moment that has passed now. RELIEVED makes the call again then. */
bool charge_relieved(const struct charge *c, struct charge_relief *r, CUresult status);
#define RELIEVED(c, call)                                                                                              \
    ({                                                                                                                 \
        struct charge_relief relief_ = {.asked = false};                                                               \
        CUresult last_ = (call);                                                                                       \
        while (charge_relieved((c), &relief_, last_))                                                                  \
            last_ = (call);                                                                                            \
        last_;                                                                                                         \
    })
/* The real call returned `status`, on success with `bytes` bytes at *start: commits, or rolls back. Where the driver
 * took more than the quota has, the memory is given back and the call refused. */
void charge_close(struct charge *c, CUresult status, CUdeviceptr *start, uint64_t bytes);
/* The same for memory without an address: what was charged stays charged on success, until charge_end. */
void charge_hold(struct charge *c, CUresult status);
void charge_end(const struct charge *c);
/* The charge is the thread's until it closes: if the thread jumps out of the call between, it is rolled back. */
void charge_keep(const struct charge *c);
void charge_jumped(void);

#endif
