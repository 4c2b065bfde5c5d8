/* Addresses the program reserves, and what it maps there. */
#ifndef EMU_VMM_H
#define EMU_VMM_H

#include "memory.h"

/* The address lies in a range the program reserved. */
bool vmm_reserved(uint64_t address);
/* The addresses lose their bytes: the device's own come back in their place. */
void vmm_unmap_bytes(uint64_t start, uint64_t bytes);
/* The bytes of these addresses are at the offset of this file. False: the system has no mapping left. */
bool vmm_map_bytes(uint64_t start, uint64_t bytes, int file, uint64_t offset);

#endif
