#define _GNU_SOURCE
#include "broker/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/endpoint.h"
#include "broker/gpu.h"
#include "broker/group.h"
#include "broker/log.h"
#include "broker/status.h"
#include "broker/suspend.h"
#include "share/message.h"

/* A connection says who it is within PATIENCE_NS. Of one as many messages are read before the others have their turn.
 */
enum { PATIENCE_NS = 2000000000, MESSAGES = 16, STATUS_MAX = 192 << 10 };

static struct connection {
    int socket;
    struct tenant *tenant; /* NULL: has not said hello */
    uint64_t since;        /* ns */
} connections[CONNECTIONS_MAX];
static int count;
static bool stopping, staying;

static void send_message(int socket, struct share_message *m, int file) {
    struct iovec part = {m, share_message_bytes(m->kind)};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    m->version = SHARE_VERSION;
    if (file >= 0) {
        message.msg_control = &extra;
        message.msg_controllen = sizeof extra.room;
        extra.head =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&extra.head), &file, sizeof file);
    }
    sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void refuse(int socket, const char *why) {
    struct share_message m = {.kind = SHARE_REFUSED};
    snprintf(m.refused.why, sizeof m.refused.why, "%s", why);
    send_message(socket, &m, -1);
}

void connections_accept(int socket, uint64_t now) {
    for (int s = endpoint_accept(socket); s >= 0; s = endpoint_accept(socket)) {
        if (count < CONNECTIONS_MAX) {
            connections[count++] = (struct connection){.socket = s, .since = now};
            continue;
        }
        refuse(s, "too many programs are connected");
        close(s);
    }
}

static struct ucred peer(int socket) {
    struct ucred of = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof of;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &of, &bytes);
    return of;
}

/* Users of a group share; only the broker's own user, and root, tell it what to do. */
static bool may_command(int socket) {
    uid_t user = peer(socket).uid;
    if (user == geteuid() || user == 0)
        return true;
    refuse(socket, "only the broker's own user may do that");
    return false;
}

static bool greet(struct connection *c, const struct share_hello *h, uint64_t now) {
    struct share_message m = {.kind = SHARE_WELCOME};
    const char *why;
    int file = -1;
    c->tenant = tenant_join(h, peer(c->socket).pid, now, &file, &why);
    if (!c->tenant) {
        refuse(c->socket, why);
        return false;
    }
    send_message(c->socket, &m, file);
    close(file);
    return true;
}

static void tell_status(int socket, uint64_t now) {
    static char text[STATUS_MAX];
    gpus_tick(now);
    size_t bytes = status_write(text, sizeof text, now);
    send(socket, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool stay(int socket) {
    struct share_message m = {.kind = SHARE_WELCOME};
    staying = true;
    send_message(socket, &m, -1);
    return true;
}

static bool set(int socket, const struct share_set *said, uint64_t now) {
    struct share_message m = {.kind = SHARE_WELCOME};
    struct share_settings settings;
    char name[SHARE_NAME_MAX], why[SHARE_TEXT_MAX];
    bool whole = memchr(said->text, 0, sizeof said->text) != NULL;
    const char *accepts = whole ? settings_read(said->text, name, &settings) : "a text that ends";
    uint32_t group = accepts ? 0 : group_fix(name, &settings);
    if (!group) {
        snprintf(why, sizeof why, "%.200s%s", accepts ? accepts : "there are too many groups",
                 accepts ? " is accepted" : "");
        refuse(socket, why);
        return false;
    }
    gpus_group(group, now);
    log_tell("set %s", said->text);
    send_message(socket, &m, -1);
    return true;
}

static bool suspend(int socket, const struct share_suspend *said, uint64_t now) {
    struct share_message m = {.kind = SHARE_WELCOME};
    char why[SHARE_TEXT_MAX] = "a text that ends is accepted";
    bool whole = memchr(said->who, 0, sizeof said->who) && memchr(said->folder, 0, sizeof said->folder);
    if (!whole || said->suspended > 1 || said->context > SHARE_CONTEXT_IS_BACK || !suspend_named(said, now, why)) {
        refuse(socket, why);
        return false;
    }
    log_tell("%s %s", said->suspended ? "suspend" : "resume", said->who);
    send_message(socket, &m, -1);
    return true;
}

/* False: the connection ends. */
static bool take(struct connection *c, const struct share_message *m, uint64_t now) {
    if (c->tenant && m->kind == SHARE_SUSPEND && m->suspend.suspended < 2) {
        suspend_own(c->tenant, m->suspend.suspended, now);
        share_page_asked(c->tenant->page, m->suspend.number);
        return true;
    }
    if (c->tenant)
        return tenant_says(c->tenant, m, now);
    switch (m->kind) {
    case SHARE_HELLO:
        return greet(c, &m->hello, now);
    case SHARE_STATUS:
        tell_status(c->socket, now);
        return true;
    case SHARE_STOP:
        stopping = stopping || may_command(c->socket);
        return true;
    case SHARE_STAY:
        return may_command(c->socket) && stay(c->socket);
    case SHARE_SET:
        return may_command(c->socket) && set(c->socket, &m->set, now);
    case SHARE_SUSPEND:
        return may_command(c->socket) && suspend(c->socket, &m->suspend, now);
    default:
        return false;
    }
}

static bool is_whole(const struct share_message *m, ssize_t bytes) {
    bool known = bytes >= (ssize_t)(2 * sizeof(uint32_t)) && (m->version == SHARE_VERSION || m->kind == SHARE_STOP);
    return known && bytes == (ssize_t)share_message_bytes(m->kind);
}

/* Descriptors that come with a message are not received: the kernel closes them. False: the connection ends. */
static bool receive(struct connection *c, uint64_t now) {
    for (int i = 0; i < MESSAGES; i++) {
        struct share_message m;
        ssize_t n = recv(c->socket, &m, sizeof m, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        if (!is_whole(&m, n)) {
            refuse(c->socket, "the broker is of another version: `pump share stop` ends it");
            return false;
        }
        if (!take(c, &m, now))
            return false;
    }
    return true;
}

/* The last one comes to its place. */
static void drop(struct connection *c, uint64_t now) {
    if (c->tenant)
        tenant_leave(c->tenant, now);
    close(c->socket);
    *c = connections[--count];
}

int connections_poll(struct pollfd out[CONNECTIONS_MAX]) {
    for (int i = 0; i < count; i++)
        out[i] = (struct pollfd){.fd = connections[i].socket, .events = POLLIN};
    return count;
}

static bool is_over(const struct connection *c, uint64_t now) {
    return !c->tenant && now >= c->since + PATIENCE_NS;
}

/* Backwards: what drop moves has been served. */
bool connections_serve(const struct pollfd *in, uint64_t now) {
    for (int i = count - 1; i >= 0; i--)
        if ((in[i].revents && !receive(&connections[i], now)) || is_over(&connections[i], now))
            drop(&connections[i], now);
    return stopping;
}

bool connections_told_to_stay(void) {
    return staying;
}

int connections_count(void) {
    return count;
}

uint64_t connections_next(void) {
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < count; i++)
        if (!connections[i].tenant && connections[i].since + PATIENCE_NS < next)
            next = connections[i].since + PATIENCE_NS;
    return next;
}
