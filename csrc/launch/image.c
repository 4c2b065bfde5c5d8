#include "launch/image.h"

#include <stdlib.h>
#include <string.h>

#include "code/attribute.h"
#include "code/cubin.h"

/* Of kernels of the same name one stays. */
struct known {
    const char *name;
    bool whole; /* false: something is odd, or two cubins disagree */
    uint32_t parameters;
    struct parameter {
        uint16_t offset, size; /* size 0: not told yet */
    } parameter[];
};

struct image {
    struct known **kernel; /* by name */
    size_t kernels, room;
};

enum { PARAMETER_RECORD = 16 }; /* bytes */

static bool add_parameter(struct known *k, uint32_t room, const struct attribute *a) {
    struct parameter_attribute p;
    if (!attribute_parameter(a, &p) || p.ordinal >= room || p.size > UINT16_MAX)
        return false;
    k->parameter[p.ordinal] = (struct parameter){p.offset, (uint16_t)p.size};
    k->parameters++;
    return true;
}

static bool add_attributes(struct known *k, uint32_t room, const struct view *info, uint32_t *total) {
    struct attribute a;
    for (uint64_t at = 0; at < info->bytes;) {
        if (!attribute_read(info, &at, &a) || (attribute_is_parameter(&a) && !add_parameter(k, room, &a)))
            return false;
        if (a.code == ATTRIBUTE_TOTAL && !a.sized)
            *total = a.value;
    }
    return true;
}

/* Every parameter was told, once, and they end where the kernel says: one left out would be a hidden pointer. */
static bool complete(const struct known *k, uint32_t total) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < k->parameters; i++) {
        const struct parameter *p = &k->parameter[i];
        if (p->size == 0 || p->offset < end)
            return false;
        end = (uint32_t)p->offset + p->size;
    }
    return end == total && k->parameters <= PARAMETERS_MAX;
}

static struct known *read_kernel(const char *name, const struct view *info) {
    uint32_t room = (uint32_t)(info->bytes / PARAMETER_RECORD), total = 0;
    size_t parameters = room * sizeof(struct parameter), text = strlen(name) + 1;
    struct known *k = calloc(1, sizeof *k + parameters + text);
    if (!k)
        return NULL;
    k->name = memcpy((char *)k->parameter + parameters, name, text);
    k->whole = add_attributes(k, room, info, &total) && complete(k, total);
    return k;
}

static void add_kernel(struct image *i, struct known *k) {
    if (k && i->kernels == i->room) {
        size_t room = i->room ? 2 * i->room : 16;
        struct known **larger = realloc(i->kernel, room * sizeof(struct known *));
        if (larger) {
            i->kernel = larger;
            i->room = room;
        }
    }
    if (k && i->kernels < i->room)
        i->kernel[i->kernels++] = k;
    else
        free(k);
}

/* --- images --- */

static void read_cubin(struct image *out, struct view file) {
    struct cubin c;
    struct view info;
    if (!cubin_open(&c, file))
        return;
    for (uint32_t i = 0; i < c.sections; i++) {
        const char *name = cubin_info(&c, i, &info);
        if (name)
            add_kernel(out, read_kernel(name, &info));
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct known *const *)a)->name, (*(struct known *const *)b)->name);
}

static bool same(const struct known *a, const struct known *b) {
    return a->whole && b->whole && a->parameters == b->parameters &&
           memcmp(a->parameter, b->parameter, a->parameters * sizeof a->parameter[0]) == 0;
}

static void fold(struct image *i) {
    size_t n = 0;
    qsort(i->kernel, i->kernels, sizeof(struct known *), by_name);
    for (size_t k = 0; k < i->kernels; k++) {
        struct known *last = n ? i->kernel[n - 1] : NULL, *next = i->kernel[k];
        if (last && strcmp(last->name, next->name) == 0) {
            last->whole = same(last, next);
            free(next);
        } else {
            i->kernel[n++] = next;
        }
    }
    i->kernels = n;
}

struct image *image_read(const void *start, uint64_t bytes) {
    struct code_image content;
    struct image *i = calloc(1, sizeof *i);
    if (!i || !code_image_open(&content, start, bytes, 0, false)) {
        free(i);
        return NULL;
    }
    for (uint32_t n = 0; n < content.cubins; n++)
        read_cubin(i, content.cubin[n]);
    code_image_close(&content);
    if (i->kernels == 0) {
        image_free(i);
        return NULL;
    }
    fold(i);
    return i;
}

bool image_layout(const struct image *i, const char *kernel, struct layout *out) {
    struct known wanted = {.name = kernel}, *key = &wanted;
    struct known *const *found = bsearch(&key, i->kernel, i->kernels, sizeof(struct known *), by_name);
    if (!found || !(*found)->whole)
        return false;
    out->known = true;
    out->parameters = (*found)->parameters;
    for (uint32_t p = 0; p < out->parameters; p++) {
        out->offset[p] = (*found)->parameter[p].offset;
        out->size[p] = (*found)->parameter[p].size;
    }
    return true;
}

void image_free(struct image *i) {
    if (!i)
        return;
    for (size_t k = 0; k < i->kernels; k++)
        free(i->kernel[k]);
    free(i->kernel);
    free(i);
}
