#define _GNU_SOURCE
#include "share/page.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "share/message.h"

_Static_assert(sizeof(struct share_page) <= SHARE_PAGE_BYTES, "a page holds it");

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct share_page *share_page_make(int *file) {
    *file = (int)syscall(SYS_memfd_create, "ulms-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;
    if (*file >= 0 && ftruncate(*file, SHARE_PAGE_BYTES) == 0)
        at = mmap(NULL, SHARE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
    /* From here on only this mapping is written through. */
    if (at == MAP_FAILED || fcntl(*file, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) != 0) {
        if (at != MAP_FAILED)
            munmap(at, SHARE_PAGE_BYTES);
        if (*file >= 0)
            close(*file);
        return NULL;
    }
    struct share_page *page = at;
    page->version = SHARE_VERSION;
    return page;
}

void share_page_free(struct share_page *page) {
    munmap(page, SHARE_PAGE_BYTES);
}

const struct share_page *share_page_map(int file) {
    struct stat status;
    int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(file, &status) != 0 || status.st_size != SHARE_PAGE_BYTES)
        return NULL;
    const struct share_page *page = mmap(NULL, SHARE_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (page->version == SHARE_VERSION)
        return page;
    munmap((void *)page, SHARE_PAGE_BYTES);
    return NULL;
}

enum {
    WORD = sizeof(uint64_t),
    LEASE_WORDS = sizeof(struct policy_lease) / WORD,
    FILE_WORDS = sizeof(struct share_file) / WORD
};
_Static_assert(sizeof(struct policy_lease) == LEASE_WORDS * WORD, "a lease is whole words");
_Static_assert(sizeof(struct share_file) == FILE_WORDS * WORD, "so is this");

void share_page_wake(const struct share_page *page) {
    syscall(SYS_futex, &page->sequence, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A reader that finds a word written behind this finds the sequence odd, too, or another one. */
static void begin(struct share_page *page) {
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELAXED);
}

static void end(struct share_page *page) {
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_SEQ_CST);
    share_page_wake(page);
}

static void write_words(void *at, const void *from, int words) {
    uint64_t *to = at, word;
    for (int i = 0; i < words; i++) {
        memcpy(&word, (const char *)from + i * WORD, WORD);
        __atomic_store_n(&to[i], word, __ATOMIC_RELEASE);
    }
}

void share_page_write(struct share_page *page, const struct policy_lease *lease) {
    begin(page);
    write_words(&page->lease, lease, LEASE_WORDS);
    __atomic_store_n(&page->may_issue, lease->may_issue, __ATOMIC_RELEASE);
    end(page);
}

static void write_word(struct share_page *page, uint32_t *word, uint32_t value) {
    if (*word == value)
        return;
    begin(page);
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    end(page);
}

void share_page_tenants(struct share_page *page, uint32_t tenants) {
    write_word(page, &page->tenants, tenants);
}

void share_page_elected(struct share_page *page, bool elected) {
    write_word(page, &page->elected, elected);
}

void share_page_asked(struct share_page *page, uint32_t number) {
    write_word(page, &page->asked, number);
}

/* Readers need not all of it at once: each word is right by itself. */
void share_page_quota(struct share_page *page, const struct share_quota *quota) {
    if (memcmp(&page->quota, quota, sizeof *quota) == 0)
        return;
    begin(page);
    __atomic_store_n(&page->quota.memory, quota->memory, __ATOMIC_RELEASE);
    __atomic_store_n(&page->quota.others, quota->others, __ATOMIC_RELEASE);
    __atomic_store_n(&page->quota.host, quota->host, __ATOMIC_RELEASE);
    end(page);
}

void share_page_file(struct share_page *page, const char *folder, bool context) {
    struct share_file file = {.number = page->file.number + 1, .context = context};
    memcpy(file.folder, folder, strnlen(folder, sizeof file.folder - 1));
    begin(page);
    write_words(&page->file, &file, FILE_WORDS);
    end(page);
}

/* A writer needs less than a microsecond. Returns the sequence; 0: it died in the middle. */
static uint32_t read_words(const struct share_page *page, const void *at, void *out, int words) {
    enum { TRIES = 1 << 20 };
    const uint64_t *from = at;
    for (int i = 0; i < TRIES; i++) {
        uint32_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
        for (int k = 0; k < words; k++) {
            uint64_t word = __atomic_load_n(&from[k], __ATOMIC_ACQUIRE);
            memcpy((char *)out + k * WORD, &word, WORD);
        }
        if (before % 2 == 0 && __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == before)
            return before;
    }
    return 0;
}

uint32_t share_page_read(const struct share_page *page, struct policy_lease *out) {
    return read_words(page, &page->lease, out, LEASE_WORDS);
}

bool share_page_read_file(const struct share_page *page, struct share_file *out) {
    return read_words(page, &page->file, out, FILE_WORDS) > 0;
}

void share_page_wait(const struct share_page *page, uint32_t sequence, uint64_t ns) {
    struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_futex, &page->sequence, FUTEX_WAIT, sequence, &most, NULL, 0);
}
