/* Trap: the C library's backtrace loads libgcc_s at its first call, under the loader's lock. Ours is linked in. */
#define _GNU_SOURCE
#include "interpose/frame.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

struct list {
    void **frames;
    int count;
};

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *data) {
    struct list *list = data;
    if (list->count == FRAME_MAX)
        return _URC_NORMAL_STOP;
    list->frames[list->count++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

int frame_list(void *frames[FRAME_MAX]) {
    struct list list = {frames, 0};
    _Unwind_Backtrace(note, &list);
    return list.count;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* The linked-in unwinder asks this function which object an address lies in. glibc has it from 2.35 on: with our own
 * the library also runs where glibc is older than that of the machine it was built on. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *address, struct dl_find_object *result);

struct find {
    uintptr_t address;
    struct dl_find_object *result;
};

static int find(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct find *wanted = data;
    bool holds = false;
    *wanted->result = (struct dl_find_object){0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        holds |= p->p_type == PT_LOAD && wanted->address - start < p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME)
            wanted->result->dlfo_eh_frame = (void *)start;
    }
    return holds && wanted->result->dlfo_eh_frame;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
    struct find wanted = {(uintptr_t)address, result};
    return dl_iterate_phdr(find, &wanted) ? 0 : -1;
}
#endif
