#include "broker/suspend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/group.h"

static const char of_share[] = "share:", of_process[] = "pid:"; /* no name has a colon */

/* What stands behind the prefix; NULL: the text begins otherwise. */
static const char *behind(const char *text, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* 0: it is none. */
static long process_number(const char *text) {
    bool good = *text > '0' && *text <= '9' && !text[strspn(text, "0123456789")];
    return good ? strtol(text, NULL, 10) : 0;
}

/* joiners: who joins its group later is suspended, too. */
static void suspend_one(struct tenant *t, const struct share_suspend *said, bool joiners, uint64_t now) {
    bool suspended = said->suspended;
    group_of(t->group)->suspended = suspended && (joiners || group_of(t->group)->suspended);
    t->own = false;
    if (*said->folder || *t->page->file.folder)
        share_page_file(t->page, said->folder);
    tenant_suspend(t, suspended, now);
}

void suspend_own(struct tenant *t, bool suspended, uint64_t now) {
    if (!t->own && (!suspended || t->lease.suspended == POLICY_SUSPENDED))
        return;
    t->own = suspended;
    tenant_suspend(t, suspended, now);
}

static bool suspend(uint32_t group, long pid, const struct share_suspend *said, uint64_t now) {
    bool any = false;
    for (struct tenant *t = tenants_first(); t; t = t->next)
        if (group ? t->group == group : pid && t->pid == pid) {
            any = true;
            suspend_one(t, said, group > 0, now);
        }
    return any;
}

bool suspend_named(const struct share_suspend *said, uint64_t now, char why[SHARE_TEXT_MAX]) {
    const char *who = said->who;
    const char *share = behind(who, of_share), *process = behind(who, of_process);
    uint32_t group = process ? 0 : group_named(share ? share : who);
    long pid = share ? 0 : process_number(process ? process : who);
    snprintf(why, SHARE_TEXT_MAX, "no program shares a GPU under that name or process number (`pump share status`)");
    if (group && pid) {
        snprintf(why, SHARE_TEXT_MAX, "a share has this name: type %s%ld for the share, %s%ld for the process",
                 of_share, pid, of_process, pid);
        return false;
    }
    return suspend(group, pid, said, now);
}
