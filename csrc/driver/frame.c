/* Trap: the C library's backtrace loads libgcc_s at its first call, under the loader's lock. Ours is linked in. */
#define _GNU_SOURCE
#include "driver/frame.h"

#include <dlfcn.h>
#include <stddef.h>
#include <unwind.h>

#include "driver/elf.h"

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

static bool holds_frame(const struct elf_object *o, void *data) {
    const void **asked = data;
    if (!elf_holds(o, asked[0]))
        return false;
    asked[1] = o->path;
    return true;
}

static const char *path_in_list(const void *frame) {
    const void *asked[2] = {frame, ""};
    elf_walk(holds_frame, asked);
    return asked[1];
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* The linked-in unwinder asks this function which object an address lies in. With our own the library also runs where
 * glibc is older than that of the machine it was built on: it has one from 2.35 on, which takes no lock. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *address, struct dl_find_object *result);

typedef int (*find_function)(void *, struct dl_find_object *);

static find_function find_without_lock(void) {
    static find_function known;
    static bool looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&known, (find_function)elf_next("_dl_find_object"), __ATOMIC_RELAXED);
        __atomic_store_n(&looked, true, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&known, __ATOMIC_RELAXED);
}

struct search {
    uintptr_t address;
    void *unwind_table;
};

static int search_one(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    bool holds = false;
    search->unwind_table = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        holds |= p->p_type == PT_LOAD && search->address - start < p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME)
            search->unwind_table = (void *)start;
    }
    return holds;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
    find_function find = find_without_lock();
    struct search search = {.address = (uintptr_t)address};
    if (find)
        return find(address, result);
    if (!dl_iterate_phdr(search_one, &search) || !search.unwind_table)
        return -1;
    *result = (struct dl_find_object){.dlfo_eh_frame = search.unwind_table};
    return 0;
}

const char *frame_path(void *frame) {
    find_function find = find_without_lock();
    struct dl_find_object found;
    if (!find)
        return path_in_list(frame);
    return find(frame, &found) == 0 ? found.dlfo_link_map->l_name : "";
}
#else
const char *frame_path(void *frame) {
    return path_in_list(frame);
}
#endif
