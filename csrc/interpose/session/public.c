#include "backend/backend.h"
#include "base/capacity.h"
#include "driver/home.h"
#include "driver/session.h"
#include "tenant/tenant.h"
#include "ulms.h"

size_t ulms_allocations(struct ulms_allocation *out, size_t n) {
    struct allocation list[LEDGER_LISTED];
    size_t count = 0;
    addr_t from = 0;
    while (session_on && !home_left() && count < n) {
        size_t want = n - count < LEDGER_LISTED ? n - count : LEDGER_LISTED,
               got = ledger_list(session.ledger, from, list, want);
        for (size_t i = 0; i < got; i++)
            out[count++] = (struct ulms_allocation){.start = list[i].start,
                                                    .bytes = list[i].bytes,
                                                    .charged = list[i].charged,
                                                    .device = list[i].device,
                                                    .kind = list[i].kind};
        if (got < want)
            break;
        from = list[got - 1].start + 1;
    }
    return count;
}

int ulms_grant(int device, uint64_t bytes) {
    if (!session_on || home_left() || !session.backend->granted || device < 0 || device >= DEVICE_MAX)
        return 0;
    capacity_grant(device, bytes);
    session.backend->granted(device);
    return 1;
}

int ulms_suspend(int suspended) {
    return tenants_suspend(suspended != 0);
}

int ulms_is_away(void) {
    return tenants_are_away();
}
