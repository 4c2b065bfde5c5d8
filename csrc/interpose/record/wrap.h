/* What every generated wrapper says: open, touch, admit, real call, close. */
#ifndef ULMS_WRAP_H
#define ULMS_WRAP_H

#include "driver/real.h"
#include "launch/op.h"

/* Starts an operation. False: call the real function and nothing else (recording is off, or this call comes from
 * inside another wrapper). Nothing may be recorded of the call before this says true. */
bool wrap_open(struct op *op, enum api api, enum op_kind kind, uint64_t stream);
/* Adds a touch of [start, start + bytes), known exactly from the call's arguments. bytes 0 adds none. Around what is
 * used it has holes, or is a guess. False: it added none. One that leaves its allocation refuses the operation. */
bool wrap_touch_around(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode);
void wrap_touch(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode);
/* All touches are known: the backend may hold the operation here. */
void wrap_admit(struct op *op);
static inline bool wrap_refused(const struct op *op) {
    return op && __builtin_expect(op->status != CUDA_SUCCESS, 0);
}
/* The real call of an operation, or of none (NULL). It is not made of one that was refused: of what leaves its
 * allocation as the driver refuses it, by the backend as out of memory. */
#define RUN(op, call) (wrap_refused(op) ? (CUresult)(op)->status : (call))
/* The real call returned: record it. */
void wrap_close(struct op *op, CUresult status);
/* Whether the host may have written what a copy takes from there: then it is looked at for addresses. */
bool wrap_host_writes(addr_t src);
/* After a successful copy from host memory to dst: looks for ledger addresses among what was copied. */
void wrap_pointers(struct op *op, addr_t dst, const void *src, uint64_t bytes);
/* The same of a copy between device addresses, which are those of pinned or managed memory, too. Few bring addresses
 * from there: who need not know of all of them does not pay for the look. */
void wrap_pinned(struct op *op, addr_t dst, const void *src, uint64_t bytes);
/* The operation, which may run later and more than once, brings these bytes of host memory to the device. */
void wrap_from_host(struct op *op, const void *src, uint64_t bytes);
/* Tells the backend of ledger addresses in host memory that is about to be brought, or was, to the device. */
void wrap_look(const void *src, uint64_t bytes);
/* Where memory cannot be read, kernels may use any address from now on. */
void wrap_try_reading(void);
/* Tells the backend of an address, if the word is one, that kernels may come by without being handed it. */
void wrap_hide(uint64_t word);

#endif
