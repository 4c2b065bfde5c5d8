/* Ranges of numbers, handed out and taken back: addresses, and places in memory files. Not locked. */
#ifndef EMU_SPACE_H
#define EMU_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct space_range {
    uint64_t start, end;
};

/* The free ranges, in order; none touches the next. */
struct space {
    struct space_range *free;
    size_t count, room;
};

/* Adds a range that is free from now on. False: no memory for the entry, and nothing changed. */
bool space_add(struct space *s, uint64_t start, uint64_t bytes);
/* The lowest aligned range that fits; 0 when none does. */
uint64_t space_take(struct space *s, uint64_t bytes, uint64_t alignment);
/* Takes exactly this range. False: not all of it is free. */
bool space_take_at(struct space *s, uint64_t start, uint64_t bytes);

/* True when the address lies in a free range. */
bool space_holds(const struct space *s, uint64_t address);

#endif
