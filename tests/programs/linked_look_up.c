/* In the place of csrc/interpose/dlsym.c where ulms.so is linked with: it finds functions, and hands none out. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "interpose/look_up.h"

void *look_up(void *handle, const char *name) {
    return dlsym(handle, name);
}

void *look_up_version(void *handle, const char *name, const char *version) {
    return dlvsym(handle, name, version);
}
