/* Finds ledger addresses among the arguments of a launch. */
#ifndef ULMS_SCAN_H
#define ULMS_SCAN_H

#include "launch/function.h"
#include "launch/op.h"
#include "ledger/ledger.h"

/* Each adds to op->touches one touch for every block that an argument points into (mode update: the driver does not
 * know better; read, from f->read_run on, and if f->sparse the first of those sparse where no more than one part in
 * SPARSE_PART of it is written to others), none twice in a row of SCAN_NEAR, and sets op->flags. */
enum { SCAN_NEAR = 8, SCAN_BLIND_MAX = 64, SPARSE_PART = 8 };

/* grid: of the launch. parameters: one pointer to each argument, as the layout of f says. */
void scan_parameters(struct op *op, struct ledger *l, const struct function *f, struct grid grid,
                     void *const *parameters);
/* All arguments in one buffer of `bytes` bytes. With an unknown layout every aligned word of it is looked at. */
void scan_buffer(struct op *op, struct ledger *l, const struct function *f, struct grid grid, const void *buffer,
                 size_t bytes);
/* The layout is unknown (a driver before 12.4): looks at the first word behind each of the first SCAN_BLIND_MAX
 * readable pointers. The array has no end that could be known, so what lies behind it is looked at too, but only if
 * readable. */
void scan_blindly(struct op *op, struct ledger *l, void *const *parameters);
/* The touches from that one on may be of memory that is written after all. */
void scan_distrust(struct op *op, uint32_t from);

#endif
