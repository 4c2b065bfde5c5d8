#include "resident.h"

#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct resident own[DEVICES_MAX], *rows = own;

void resident_open(void) {
    const char *path = getenv("EMU_RESIDENT");
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof own) == 0)
        map = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
        perror("emu: EMU_RESIDENT");
        abort();
    }
    close(file);
    rows = map;
}

static void change(uint64_t *now, uint64_t *most, int64_t bytes) {
    uint64_t sum = __atomic_add_fetch(now, (uint64_t)bytes, __ATOMIC_SEQ_CST),
             old = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (bytes > 0 && sum > old &&
           !__atomic_compare_exchange_n(most, &old, sum, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

void resident_change(int device, int64_t bytes) {
    change(&rows[device].used, &rows[device].most, bytes);
}

void resident_change_pages(int device, int64_t bytes) {
    change(&rows[device].pages, &rows[device].pages_most, bytes);
}

struct resident resident_most(int device) {
    return (struct resident){.most = __atomic_load_n(&rows[device].most, __ATOMIC_RELAXED),
                             .pages_most = __atomic_load_n(&rows[device].pages_most, __ATOMIC_RELAXED)};
}
