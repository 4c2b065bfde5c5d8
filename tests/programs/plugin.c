/* A plugin that calls the driver it is linked with. */
#include "ways.h"

#define X(name, symbol) extern __typeof__(*(pfn_##symbol)NULL) symbol;
WAYS(X)
#undef X

void run(void) {
#define X(name, symbol) symbol,
    const struct driver d = {WAYS(X)};
#undef X
    ways_work(&d);
}
