/* Advice that pages of managed memory are mostly read. Back and forth on what is written now and then, it would cost
 * more than it saves. A page that leaves loses it: prefetched to the host with it, the page would keep its place on the
 * device beside the host's copy. */
#include <stdbool.h>

#include "ulms.h"

int ulms_advise(uint8_t *pages, size_t n, uint32_t kind, uint32_t flags) {
    bool fills = kind == ULMS_FILL, keeps = fills && flags & ULMS_MOVE_KEEP;
    uint8_t all = ULMS_ADVICE_KEPT, any = 0;
    for (size_t i = 0; i < n; i++) {
        all &= pages[i];
        any |= pages[i];
    }
    if (keeps ? all || any & ULMS_ADVICE_WRITTEN : !(any & ULMS_ADVICE_KEPT))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (keeps)
            pages[i] = ULMS_ADVICE_KEPT;
        else if (pages[i] == ULMS_ADVICE_KEPT)
            pages[i] = fills ? ULMS_ADVICE_WRITTEN : 0;
    return keeps ? ULMS_ADVISE_KEEP : ULMS_ADVISE_UNKEEP;
}
