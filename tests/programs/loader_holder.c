/* A library whose constructor holds the loader's locks for as long as the program likes (loader_held.h). */
#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stddef.h>

extern void loader_is_held(void);
extern bool loader_and_list(void);

static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    loader_is_held();
    return 1;
}

__attribute__((constructor)) static void hold(void) {
    if (loader_and_list())
        dl_iterate_phdr(visit, NULL);
    else
        loader_is_held();
}
