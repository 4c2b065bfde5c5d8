#define _GNU_SOURCE
#include "backend/vmm/page_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/larger.h"
#include "base/page.h"
#include "base/process.h"

enum { RESERVE = 64 }; /* slots at a time */

/* --- the file --- */

static int open_nameless(const char *folder) {
    char path[OPTION_PATH_MAX];
    if (!*folder)
        return (int)syscall(SYS_memfd_create, "ulms-pages", MFD_CLOEXEC);
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return file;
    snprintf(path, sizeof path, "%s/.ulms-XXXXXX", folder);
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0)
        unlink(path);
    return file;
}

/* The cache is host memory, too: file systems that cannot do without keep it. */
static void pass_cache(int file, bool pass) {
    int flags = fcntl(file, F_GETFL);
    fcntl(file, F_SETFL, pass ? flags | O_DIRECT : flags & ~O_DIRECT);
}

struct page_file *page_file_of_process(void) {
    static struct page_file ours = {.file = -1};
    return &ours;
}

/* In a process that was restarted from a disk its files have other numbers. */
void page_file_again(struct page_file *f) {
    struct stat now;
    uint64_t born = process_start();
    lock_take(&f->lock);
    if (f->file >= 0 && f->born != born && fstat(f->file, &now) == 0) {
        f->device = now.st_dev;
        f->inode = now.st_ino;
        f->born = born;
    }
    lock_drop(&f->lock);
}

static bool is_ours(const struct page_file *f) {
    struct stat now;
    return f->file >= 0 && fstat(f->file, &now) == 0 && now.st_dev == f->device && now.st_ino == f->inode;
}

/* Under the lock. */
static void end(struct page_file *f) {
    if (f->file < 0 || f->fills || f->taken > 0)
        return;
    if (is_ours(f))
        close(f->file);
    free(f->idle);
    f->idle = NULL;
    f->slots = f->room = 0;
    f->file = -1;
}

/* Likewise. */
static bool begin(struct page_file *f, const char *folder, uint32_t room) {
    struct stat made;
    int file = open_nameless(folder);
    if (file < 0)
        return false;
    f->idle = calloc(bits_words(room), sizeof *f->idle);
    if (!f->idle || fstat(file, &made) != 0) {
        free(f->idle);
        close(file);
        errno = ENOMEM;
        return false;
    }
    pass_cache(file, true);
    snprintf(f->folder, sizeof f->folder, "%s", folder);
    f->file = file;
    f->device = made.st_dev;
    f->inode = made.st_ino;
    f->born = process_start();
    f->room = room;
    f->slots = 0;
    return true;
}

bool page_file_begin(struct page_file *f, int32_t device, const char *folder, uint32_t room) {
    lock_take(&f->lock);
    bool there = f->file >= 0;
    bool fills = there ? !*folder || strcmp(f->folder, folder) == 0 : begin(f, folder, room);
    f->fills |= (uint32_t)fills << device;
    lock_drop(&f->lock);
    errno = there ? EBUSY : errno;
    return fills;
}

void page_file_end(struct page_file *f, int32_t device) {
    lock_take(&f->lock);
    f->fills &= ~(1u << device);
    end(f);
    lock_drop(&f->lock);
}

void page_file_fork_child(void) {
    const struct page_file *f = page_file_of_process();
    if (is_ours(f))
        close(f->file);
}

/* --- slots --- */

/* False: there is no room. A file system that cannot reserve tells when it writes; what was not written is zeros. To
 * reserve memory would clear it, and take as long as to write. */
static bool reserve(const struct page_file *f, uint32_t n) {
    if (!is_ours(f)) {
        errno = EBADF;
        return false;
    }
    off_t start = (off_t)(f->slots * page_bytes), bytes = (off_t)(n * page_bytes);
    bool reserved = *f->folder && fallocate(f->file, 0, start, bytes) == 0;
    bool cannot = !*f->folder || (!reserved && errno == EOPNOTSUPP);
    return reserved || (cannot && ftruncate(f->file, start + bytes) == 0);
}

/* As many as there is room for, some at a time, until there are `most`. Under the lock. */
static bool reserve_more(struct page_file *f, uint32_t most) {
    errno = ENOSPC;
    uint32_t n = f->slots < most ? (uint32_t)smaller(RESERVE, most - f->slots) : 0;
    while (n > 0 && !reserve(f, n))
        n /= 2;
    for (uint32_t i = 0; i < n; i++)
        bits_set(f->idle, f->slots++, true);
    return n > 0;
}

uint32_t page_file_reserve(struct page_file *f, uint32_t slots) {
    lock_take(&f->lock);
    while (reserve_more(f, (uint32_t)smaller(slots, f->room)))
        ;
    uint32_t reserved = f->slots;
    lock_drop(&f->lock);
    return reserved;
}

uint32_t page_file_take(struct page_file *f) {
    uint32_t slot = NO_SLOT;
    lock_take(&f->lock);
    if (f->idle && (f->taken < f->slots || reserve_more(f, f->room))) {
        slot = bits_first(f->idle, 0, f->slots);
        bits_set(f->idle, slot, false);
        f->taken++;
    }
    lock_drop(&f->lock);
    return slot;
}

void page_file_give(struct page_file *f, uint32_t slot) {
    lock_take(&f->lock);
    bits_set(f->idle, slot, true);
    f->taken--;
    if (!*f->folder && is_ours(f))
        fallocate(f->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(slot * page_bytes), (off_t)page_bytes);
    end(f);
    lock_drop(&f->lock);
}

/* --- bytes --- */

/* Whoever has a slot keeps the file open. */
static bool transfer(const struct page_file *f, bool in, uint32_t slot, uint64_t at, char *memory, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        off_t offset = (off_t)(slot * page_bytes + at + done);
        if (!is_ours(f)) {
            errno = EBADF;
            return false;
        }
        ssize_t n = in ? pread(f->file, memory + done, bytes - done, offset)
                       : pwrite(f->file, memory + done, bytes - done, offset);
        if (n < 0 && errno == EINVAL && fcntl(f->file, F_GETFL) & O_DIRECT)
            pass_cache(f->file, false);
        else if (n == 0 || (n < 0 && errno != EINTR)) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

bool page_file_write(const struct page_file *f, uint32_t slot, uint64_t at, const void *from, uint64_t bytes) {
    return transfer(f, false, slot, at, (char *)(uintptr_t)from, bytes);
}

bool page_file_read(const struct page_file *f, uint32_t slot, uint64_t at, void *to, uint64_t bytes) {
    return transfer(f, true, slot, at, to, bytes);
}
