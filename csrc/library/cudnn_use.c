#include "library/cudnn_use.h"

#include <stdlib.h>

void uses_free(struct uses *uses) {
    free(uses->at);
    *uses = (struct uses){0};
}

void uses_append(struct uses *uses, struct use use) {
    if (uses->count == uses->room) {
        size_t room = uses->room ? 2 * uses->room : 8;
        struct use *at = realloc(uses->at, room * sizeof *at);
        if (!at) {
            uses->partial = true;
            return;
        }
        uses->at = at;
        uses->room = room;
    }
    uses->at[uses->count++] = use;
}

void uses_drop(struct uses *uses, int attribute) {
    size_t kept = 0;
    for (size_t i = 0; i < uses->count; i++)
        if (uses->at[i].attribute != attribute)
            uses->at[kept++] = uses->at[i];
    uses->count = kept;
}

static enum touch_mode mode_of(const struct use *use, struct manner manner) {
    if (use->mode)
        return use->mode;
    switch (use->role) {
    case ROLE_IN:
        return TOUCH_READ;
    case ROLE_OUT:
        return TOUCH_WRITE;
    case ROLE_BLEND:
        return manner.blends ? TOUCH_UPDATE : TOUCH_WRITE;
    case ROLE_STAT:
        return manner.infers ? TOUCH_READ : TOUCH_WRITE;
    default:
        return TOUCH_UPDATE;
    }
}

static enum touch_mode mode_within(const struct uses *part, const struct use *use, struct manner manner) {
    enum touch_mode mode = mode_of(use, manner);
    for (size_t i = 0; i < part->count; i++)
        if (part->at[i].uid == use->uid && mode_of(&part->at[i], manner) != mode)
            return TOUCH_UPDATE;
    return mode;
}

static void widen(struct use *known, const struct use *use) {
    bool longer = use->span.high - use->span.low > known->span.high - known->span.low;
    bool holes = known->span.holes || use->span.holes;
    if (use->reach > known->reach || (use->reach == known->reach && longer)) {
        known->span = use->span;
        known->reach = use->reach;
    }
    known->span.holes = holes;
    if (known->mode < use->mode) /* read, write, update */
        known->mode = use->mode;
}

void uses_add_part(struct uses *uses, const struct uses *part, struct manner manner, int attribute) {
    for (size_t i = 0; i < part->count; i++) {
        struct use use = part->at[i], *known = NULL;
        use.mode = mode_within(part, &use, manner);
        use.attribute = attribute;
        for (size_t k = 0; k < uses->count && !known; k++)
            if (uses->at[k].uid == use.uid)
                known = &uses->at[k];
        if (known)
            widen(known, &use);
        else
            uses_append(uses, use);
    }
    uses->partial |= part->partial;
}

static int by_uid(const void *a, const void *b) {
    int64_t x = ((const struct use *)a)->uid, y = ((const struct use *)b)->uid;
    return x < y ? -1 : x > y;
}

void uses_sort(struct uses *uses) {
    if (uses->count)
        qsort(uses->at, uses->count, sizeof *uses->at, by_uid);
}

const struct use *uses_find(const struct uses *uses, int64_t uid) {
    size_t low = 0, high = uses->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (uses->at[middle].uid == uid)
            return &uses->at[middle];
        if (uses->at[middle].uid < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
