#include <stdlib.h>

#include "code/file.h"
#include "code/verdict.h"
#include "ulms.h"

_Static_assert(sizeof((struct ulms_kernel *)0)->reads == sizeof(struct words), "all words have room");

static void tell_kernel(const struct kernel *k, bool whole, ulms_kernel_told told, void *data) {
    struct kernel_verdict v = {.reason = "an odd kernel"};
    if (whole)
        verdict_of(k, &v);
    struct ulms_kernel out = {.name = k->name,
                              .verdict = verdict_word(v.verdict),
                              .reason = v.reason ? v.reason : "",
                              .architecture = k->architecture,
                              .instructions = k->text.bytes / 16};
    memcpy(out.reads, v.reads.bit, sizeof out.reads);
    memcpy(out.writes, v.writes.bit, sizeof out.writes);
    told(&out, data);
}

static void tell_cubin(struct view file, ulms_kernel_told told, void *data) {
    struct cubin c;
    struct kernel *k = malloc(sizeof *k);
    for (uint32_t i = 0; k && cubin_open(&c, file) && i < c.sections; i++) {
        bool whole = cubin_kernel(&c, i, k);
        if (whole || (k->name && k->text.bytes))
            tell_kernel(k, whole, told, data);
    }
    free(k);
}

void ulms_kernels(const void *start, uint64_t bytes, uint32_t architecture, ulms_kernel_told told, void *data) {
    struct view file = {start, bytes}, image;
    struct code_image i;
    for (uint64_t at = 0; code_file_next(&file, &at, &image);) {
        code_image_open(&i, image.at, image.bytes, architecture, true);
        for (uint32_t n = 0; n < i.cubins; n++)
            tell_cubin(i.cubin[n], told, data);
        code_image_close(&i);
    }
}
