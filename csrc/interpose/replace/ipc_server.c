/* The exporting process. A thread of ours answers who has a handle of its memory; what the program's threads do
 * meanwhile does not matter. The memory stays as it is until another process asks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/lock.h"
#include "base/log.h"
#include "driver/capture.h"
#include "driver/session.h"
#include "interpose/replace/ipc.h"

enum { LOOK_MS = 1000, PATIENCE_S = 2, STOP_NS = 1000000000, QUEUE = 64 };

struct exported {
    addr_t start;
    struct ipc_handle handle;
    struct exported *next;
};

static struct lock lock;
static struct exported *list;

static struct server {
    pthread_t thread;
    bool runs, stops; /* stops: atomic */
    uint64_t session;
    int file;     /* the socket */
    ino_t number; /* its, as the program may close all files */
} server = {.file = -1};

/* --- the socket --- */

static int listening(uint64_t session) {
    struct sockaddr_un address;
    socklen_t size = ipc_address(&address, session);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (file >= 0 && bind(file, (struct sockaddr *)&address, size) == 0 && listen(file, QUEUE) == 0)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

static bool is_open(void) {
    struct stat s;
    return server.file >= 0 && fstat(server.file, &s) == 0 && S_ISSOCK(s.st_mode) && s.st_ino == server.number;
}

/* Once more, where the program has closed it. */
static bool ensure_open(void) {
    struct stat s;
    if (is_open())
        return true;
    int file = listening(server.session);
    server.number = file >= 0 && fstat(file, &s) == 0 ? s.st_ino : 0;
    __atomic_store_n(&server.file, file, __ATOMIC_RELAXED);
    return file >= 0;
}

/* --- what is asked --- */

static bool export_find(const struct ipc_handle *h, addr_t *start) {
    bool found = false;
    lock_take(&lock);
    for (const struct exported *e = list; e && !found; e = e->next) {
        found = memcmp(&e->handle, h, sizeof *h) == 0;
        *start = e->start;
    }
    lock_drop(&lock);
    return found;
}

static bool is_there(addr_t start, uint64_t id) {
    struct allocation a;
    return ledger_find(session.ledger, start, &a) && a.start == start && a.id == id;
}

static void close_files(const struct backend_share *s) {
    for (size_t i = 0; i < s->count; i++)
        close(s->piece[i].file);
}

/* Another allocation may be there by now: its number says so, before and after. */
static bool share(const struct ipc_request *q, struct backend_share *s) {
    addr_t start;
    *s = (struct backend_share){.given_up = &server.stops};
    if (!export_find(&q->handle, &start) || !is_there(start, q->handle.id))
        return false;
    if (session.backend->share(start, q->first, s) && is_there(start, q->handle.id))
        return true;
    close_files(s);
    *s = (struct backend_share){0};
    return false;
}

static bool answer(int to, const struct ipc_request *q) {
    struct backend_share s;
    struct ipc_reply r = {.refused = !share(q, &s)};
    union {
        char bytes[CMSG_SPACE(sizeof(int) * BACKEND_PIECES)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {&r, sizeof r};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    r.count = (uint32_t)s.count;
    r.all = s.all;
    r.lead = s.lead;
    r.bytes = s.bytes;
    if (s.count > 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * s.count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        c->cmsg_len = CMSG_LEN(sizeof(int) * s.count);
        for (size_t i = 0; i < s.count; i++) {
            r.piece[i] = s.piece[i].bytes;
            memcpy(CMSG_DATA(c) + i * sizeof(int), &s.piece[i].file, sizeof(int));
        }
    }
    bool sent = sendmsg(to, &m, MSG_NOSIGNAL) == (ssize_t)sizeof r;
    close_files(&s);
    return sent && !r.refused;
}

/* Until it has all that it wants, or says nothing for a while. */
static void serve(int with) {
    struct timeval patience = {.tv_sec = PATIENCE_S};
    struct ipc_request q;
    pid_t pid;
    setsockopt(with, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(with, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!ipc_peer_is_ours(with, &pid))
        return;
    while (!__atomic_load_n(&server.stops, __ATOMIC_RELAXED) && recv(with, &q, sizeof q, 0) == (ssize_t)sizeof q &&
           answer(with, &q))
        ;
}

static void *run(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "ulms-share");
    capture_relax();
    while (!__atomic_load_n(&server.stops, __ATOMIC_RELAXED)) {
        if (!ensure_open()) {
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
            continue;
        }
        struct pollfd wait = {.fd = server.file, .events = POLLIN};
        bool asked = poll(&wait, 1, LOOK_MS) > 0 && is_open();
        int with = asked ? accept4(server.file, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (with < 0)
            continue;
        serve(with);
        close(with);
    }
    return NULL;
}

/* --- its life --- */

/* glibc has no getrandom before 2.25. */
static bool fill_by_chance(void *bytes, size_t count) {
    return syscall(SYS_getrandom, bytes, count, 0) == (long)count;
}

/* Under the lock. */
static bool start(void) {
    if (server.runs)
        return true;
    if (server.stops || !fill_by_chance(&server.session, sizeof server.session) || !ensure_open())
        return false;
    session_stops_first();
    server.runs = background_start(&server.thread, run, NULL) == 0;
    return server.runs;
}

/* Whoever connects wakes it. */
static void wake(void) {
    struct sockaddr_un address;
    socklen_t size = ipc_address(&address, server.session);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0)
        return;
    connect(file, (struct sockaddr *)&address, size);
    close(file);
}

void ipc_stop(void) {
    __atomic_store_n(&server.stops, true, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&server.runs, false, __ATOMIC_RELAXED))
        return;
    wake();
    if (!background_join(server.thread, clock_ns() + STOP_NS))
        log_warn("the process ends while the driver keeps a thread of ours");
}

/* The socket would outlive its process: who connects would wait for an answer. */
void ipc_fork_child(void) {
    int file = __atomic_exchange_n(&server.file, -1, __ATOMIC_RELAXED);
    if (file >= 0)
        close(file);
}

/* --- handles --- */

/* Of allocations that are gone. Under the lock. */
static void drop_gone(void) {
    for (struct exported **at = &list, *e; (e = *at);) {
        if (is_there(e->start, e->handle.id)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        free(e);
    }
}

/* Under the lock. */
static struct exported *find_or_make(const struct allocation *a) {
    struct exported *e = list;
    while (e && e->handle.id != a->id)
        e = e->next;
    if (e || !(e = calloc(1, sizeof *e)))
        return e;
    e->start = a->start;
    e->handle = (struct ipc_handle){
        .magic = "ulms-ipc", .version = 1, .session = server.session, .id = a->id, .bytes = a->bytes};
    if (!fill_by_chance(e->handle.token, sizeof e->handle.token)) {
        free(e);
        return NULL;
    }
    e->next = list;
    list = e;
    return e;
}

bool ipc_export(const struct allocation *a, CUipcMemHandle *out) {
    lock_take(&lock);
    drop_gone();
    const struct exported *e = start() ? find_or_make(a) : NULL;
    if (e)
        memcpy(out, &e->handle, sizeof e->handle);
    lock_drop(&lock);
    return e != NULL;
}

bool ipc_is_own(const struct ipc_handle *h) {
    return server.session && h->session == server.session;
}
