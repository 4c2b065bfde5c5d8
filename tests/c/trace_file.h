/* The trace of a test: opened, written, and read again. */
#ifndef TEST_TRACE_FILE_H
#define TEST_TRACE_FILE_H

#include "test.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "observe/crc.h"
#include "observe/format.h"
#include "observe/stats.h"
#include "observe/trace.h"

enum { TYPES = RECORD_COUNTS + 1, A_MINUTE_MS = 60000 /* a busy machine may need long: no wait is for less */ };

static char path[64];

static inline void open_new(void) {
    snprintf(path, sizeof path, "/tmp/ulms-test-trace-%d", (int)getpid());
    unlink(path);
    CHECK(trace_open(path, "{}"));
}

/* Counts the records of each type in the file, proving every chunk on the way. */
struct seen {
    uint64_t of[TYPES], drops, chunks, op_bytes;
};

static inline void look_at_chunk(const struct chunk *c, struct seen *s) {
    CHECK_EQ(c->magic, CHUNK_MAGIC);
    CHECK_EQ(c->crc, crc32_of(&c->bytes, sizeof *c - offsetof(struct chunk, bytes) + c->bytes));
    const char *p = (const char *)(c + 1), *end = p + c->bytes;
    uint32_t records = 0;
    for (const struct record *r; p < end; p += 8u * r->words, records++) {
        r = (const struct record *)p;
        CHECK(r->type > 0 && r->type < TYPES);
        CHECK(r->words >= sizeof *r / 8 && p + 8u * r->words <= end);
        s->of[r->type]++;
        s->op_bytes += r->type == RECORD_OP ? 8u * r->words : 0;
        if (r->type == RECORD_DROPS)
            s->drops += ((const struct drops_record *)r)->records;
    }
    CHECK(p == end);
    CHECK_EQ(records, c->records);
    s->chunks++;
}

static inline struct seen look(void) {
    struct seen s = {0};
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    const char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0), *end = p + st.st_size;
    const struct file_header *h = (const void *)p;
    CHECK_EQ(memcmp(h->magic, TRACE_MAGIC, 8), 0);
    CHECK_EQ(h->version, TRACE_VERSION);
    CHECK_EQ(h->text_crc, crc32_of(h + 1, h->text_bytes));
    for (p += sizeof *h + h->text_bytes / 8 * 8 + 8; p < end;) {
        const struct chunk *c = (const void *)p;
        CHECK(p + sizeof *c + c->bytes <= end);
        look_at_chunk(c, &s);
        p += sizeof *c + c->bytes;
    }
    close(fd);
    unlink(path);
    return s;
}

static inline void one_op(uint32_t touches) {
    static struct touch t[TOUCH_MAX] = {{.start = 0x1000, .bytes = 512, .allocation = 1, .mode = TOUCH_READ}};
    struct op op = {.serial = serial_next(), .issued_ns = 1, .count = touches, .touches = t};
    trace_op(&op);
}

/* Reads a file about the writer's thread into text; false when there is no such thread. */
static inline bool about_writer(const char *file, char *text, size_t size) {
    char name[300];
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; !found && (task = readdir(tasks));) {
        for (int i = 0; i < 2; i++) { /* its name, then what is asked for */
            snprintf(name, sizeof name, "/proc/self/task/%s/%s", task->d_name, i ? file : "comm");
            int fd = open(name, O_RDONLY);
            ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
            close(fd);
            text[n < 0 ? 0 : n] = 0;
            if (i == 0 && strcmp(text, "ulms-trace\n") != 0)
                break;
            found = i == 1 && n > 0;
        }
    }
    closedir(tasks);
    return found;
}

static inline bool writer_listed(void) {
    char text[64];
    return about_writer("comm", text, sizeof text);
}

/* It names itself when it starts, and stays listed for a moment after its end. */
static inline bool writer_becomes(bool there) {
    for (int ms = 0; ms < A_MINUTE_MS && writer_listed() != there; ms++)
        usleep(1000);
    return writer_listed() == there;
}

static inline bool all_written(uint64_t records) {
    for (int ms = 0; ms < A_MINUTE_MS && stats_sum(COUNT_trace_records) < records; ms++)
        usleep(1000);
    return stats_sum(COUNT_trace_records) >= records;
}

/* Before a fork: a lock of the sanitizer's allocator that the starting writer holds would stay locked in the child. */
static inline void open_started(void) {
    open_new();
    one_op(1);
    CHECK(all_written(1));
}

#endif
