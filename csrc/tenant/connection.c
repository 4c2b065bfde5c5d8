#define _GNU_SOURCE
#include "tenant/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/larger.h"
#include "base/log.h"
#include "base/thread.h"
#include "share/address.h"

/* Programs close the low numbers, and think little of how many there are. */
enum { HIGH = 200, ANSWER_MS = 500, DEAF_NS = 1000000000, WATCHED_NS = 250000000 };

static bool is_ours(const struct connection *c) {
    struct stat s;
    return c->socket >= 0 && fstat(c->socket, &s) == 0 && s.st_ino == c->inode;
}

/* Only root and this user say how much of a GPU this program gets. */
static bool is_trusted(int socket) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static bool find_folder(char out[OPTION_PATH_MAX]) {
    const char *named = ulms_options.share_folder[0] ? ulms_options.share_folder : NULL;
    return share_folder(named, out, OPTION_PATH_MAX);
}

/* The file stays behind when who locked it dies. */
bool connection_is_barred(void) {
    char folder[OPTION_PATH_MAX], path[OPTION_PATH_MAX];
    int file = find_folder(folder) && share_bar(folder, (int)getpid(), path, sizeof path)
                   ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                   : -1;
    bool held = file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (file >= 0)
        close(file);
    return held;
}

static int connect_to_broker(void) {
    char folder[OPTION_PATH_MAX];
    struct sockaddr_un address;
    const struct timeval patience = {0, ANSWER_MS * 1000};
    if (!find_folder(folder) || !share_address(folder, &address))
        return -1;
    int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int s = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, HIGH) : -1;
    if (s < 0) {
        s = low;
    } else {
        close(low);
    }
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(s, (const struct sockaddr *)&address, sizeof address) == 0 && is_trusted(s))
        return s;
    close(s);
    return -1;
}

/* The answer, and the descriptor that came with it; -1: none. */
static int receive(int socket, struct share_message *m) {
    struct iovec part = {m, sizeof *m};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    memset(m, 0, sizeof *m);
    ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int file = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&file, CMSG_DATA(c), sizeof file);
    if (n != (ssize_t)share_message_bytes(m->kind))
        m->kind = 0;
    return file;
}

static const struct share_page *greet(int socket, struct share_message *hello, bool *refused) {
    static unsigned told;
    struct share_message m;
    hello->kind = SHARE_HELLO;
    hello->version = SHARE_VERSION;
    ssize_t bytes = (ssize_t)share_message_bytes(SHARE_HELLO);
    if (send(socket, hello, (size_t)bytes, MSG_NOSIGNAL) != bytes)
        return NULL;
    int file = receive(socket, &m);
    const struct share_page *page = m.kind == SHARE_WELCOME && file >= 0 ? share_page_map(file) : NULL;
    if (file >= 0)
        close(file);
    *refused = m.kind == SHARE_REFUSED;
    if (*refused && __atomic_fetch_add(&told, 1, __ATOMIC_RELAXED) == 0)
        log_warn("the GPU is not shared: %.*s", (int)sizeof m.refused.why, m.refused.why);
    return page;
}

bool connection_open(struct connection *c, struct share_message *hello) {
    struct stat s;
    *c = (struct connection){.socket = connect_to_broker()};
    if (c->socket < 0)
        return false;
    c->page = greet(c->socket, hello, &c->refused);
    if (c->page && fstat(c->socket, &s) == 0) {
        c->inode = s.st_ino;
        return true;
    }
    close(c->socket);
    c->socket = -1;
    return false;
}

bool connection_send(struct connection *c, struct share_message *m, bool *sent) {
    *sent = false;
    m->version = SHARE_VERSION;
    if (!is_ours(c))
        return false;
    ssize_t bytes = (ssize_t)share_message_bytes(m->kind);
    *sent = send(c->socket, m, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == bytes;
    return *sent || errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
}

/* What it was told lies unread for long: it is stopped, or hangs. Each tenant says something more often than that. A
 * program that was stopped itself between two looks has not seen what the broker read. */
static bool is_deaf(struct connection *c) {
    int unread = 0;
    uint64_t now = clock_ns(), passed = now - c->looked_ns;
    bool listens = ioctl(c->socket, SIOCOUTQ, &unread) != 0 || unread == 0;
    c->looked_ns = now;
    c->unread_ns = listens ? 0 : c->unread_ns + smaller(passed, WATCHED_NS);
    return c->unread_ns > DEAF_NS;
}

/* It has nothing to say after its welcome: what it says is dropped. */
bool connection_lives(struct connection *c) {
    char byte;
    ssize_t n = 1;
    if (!is_ours(c))
        return false;
    while (n > 0)
        n = recv(c->socket, &byte, 1, MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EINTR) && !is_deaf(c);
}

void connection_close(struct connection *c) {
    if (is_ours(c))
        close(c->socket);
    if (c->page)
        munmap((void *)c->page, SHARE_PAGE_BYTES);
    *c = (struct connection){.socket = -1};
}
