/* What the program asks about an address of memory that was provided: it is told of the memory it asked for, also where
 * the driver would not know at this moment. */
#ifndef ULMS_ATTRIBUTE_H
#define ULMS_ATTRIBUTE_H

#include "driver.h"
#include "ledger/ledger.h"

/* The provided allocation, or the one of another process, that the address is of. status: what the driver said; it may
 * not know the address, where its memory is being mapped anew. */
bool attribute_find(CUresult status, CUdeviceptr address, struct allocation *a);
/* Answers in the place of the driver, which said `status`. Returns what the program is told. */
CUresult attribute_corrected(CUresult status, void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
/* The same in a list, where an attribute that plain memory has not is no error. */
void attribute_disguise(void *data, CUpointer_attribute attribute, CUdeviceptr address, const struct allocation *a);

#endif
