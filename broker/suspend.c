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

bool suspend_released(const struct tenant *t) {
    return t->report.released == t->page->file.number + 1;
}

/* joiners: who joins its group later is suspended, too. */
static void suspend_one(struct tenant *t, const struct share_suspend *said, bool joiners, uint64_t now) {
    bool suspended = said->suspended;
    group_of(t->group)->suspended = suspended && (joiners || group_of(t->group)->suspended);
    t->own = false;
    const struct share_file *before = &t->page->file;
    bool stays_away = suspend_released(t) && said->context != SHARE_CONTEXT_IS_BACK;
    bool context = (suspended && said->context == SHARE_CONTEXT_LEAVES) || stays_away;
    if (!stays_away && (*said->folder || context || *before->folder || before->context || t->report.released))
        share_page_file(t->page, said->folder, context);
    tenant_suspend(t, suspended, now);
}

void suspend_own(struct tenant *t, bool suspended, uint64_t now) {
    if (!t->own && (!suspended || t->lease.suspended == POLICY_SUSPENDED))
        return;
    t->own = suspended;
    tenant_suspend(t, suspended, now);
}

static bool is_meant(const struct tenant *t, uint32_t group, long pid) {
    return group ? t->group == group : pid && t->pid == pid;
}

/* Only who looks after its context may resume it. */
static bool may_resume(uint32_t group, long pid, const struct share_suspend *said) {
    bool may = true;
    for (const struct tenant *t = tenants_first(); t && !said->suspended && !said->context; t = t->next)
        may = may && !(is_meant(t, group, pid) && suspend_released(t));
    return may;
}

static bool suspend(uint32_t group, long pid, const struct share_suspend *said, uint64_t now) {
    bool any = false;
    for (struct tenant *t = tenants_first(); t; t = t->next)
        if (is_meant(t, group, pid)) {
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
    if (!may_resume(group, pid, said)) {
        snprintf(why, SHARE_TEXT_MAX, "its context is not on the GPU: `pump resume` brings it back");
        return false;
    }
    return suspend(group, pid, said, now);
}
