/* Memory that the program freed where its context could not be waited for: it stays until nothing runs there. */
#ifndef ULMS_VMM_DEFERRED_RELEASE_H
#define ULMS_VMM_DEFERRED_RELEASE_H

#include "backend/vmm/memory.h"

/* Waits for the context, as the driver's free does, but spoils no capture. *status: what the driver said, if it was
 * asked. False: nobody knows what runs there. */
bool vmm_context_wait(uint64_t context, CUresult *status);
/* Nothing runs in the context, or comes to its end so soon. */
bool vmm_context_over(uint64_t context, uint64_t patience_ns);
/* A part that the program freed, of a context that could not be waited for. */
void deferred_release_add(struct vmm_part *p, uint64_t context);
/* What is deferred ends where nothing runs, or comes to its end so soon. What runs longer may end only by what the
 * program does next. False: nothing ended. */
bool deferred_release_end(uint64_t patience_ns);
/* See backend.h. */
void vmm_context_synced(uint64_t context);
void vmm_forgotten(uint64_t gone);

#endif
