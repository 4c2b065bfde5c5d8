/* A function for every symbol of the driver that is not emulated: it says so. What is emulated takes its place, for
 * these are weak. This file knows no prototypes. */
#include "call.h"
#include "emulator_rows.h"
#include "proc.h"

#define STUB(symbol)                                                                                                   \
    EXPORT __attribute__((weak)) CUresult symbol(void) {                                                               \
        ENTER_AS(#symbol, CALL_ANY);                                                                                   \
        return call_absent(&self);                                                                                     \
    }
#define TWIN_none(symbol)
#define TWIN_ptsz(symbol)                STUB(symbol##_ptsz)
#define TWIN_ptds(symbol)                STUB(symbol##_ptds)
#define STUBS(symbol, base, since, twin) STUB(symbol) TWIN_##twin(symbol)

EMULATOR_ROWS(STUBS)

#define ADDRESS_none(symbol)           NULL
#define ADDRESS_ptsz(symbol)           (void *)symbol##_ptsz
#define ADDRESS_ptds(symbol)           (void *)symbol##_ptds
#define ROW(symbol, base, since, twin) {#symbol, #base, since, (void *)symbol, ADDRESS_##twin(symbol)},

const struct proc_row proc_rows[] = {EMULATOR_ROWS(ROW)};
const size_t proc_row_count = sizeof proc_rows / sizeof *proc_rows;
