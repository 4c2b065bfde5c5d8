/* Puts the program away and brings it back before every AWAY_EVERY-th call, if that is set: as `pump suspend` does, and
 * with AWAY_TO as with --to. One that is bound may not get away, and goes on soon; any other that does not is stuck. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "random_program.h"
#include "share/message.h"

enum { SOON_NS = 10000000, LOOK_US = 100, ANSWER_BYTES = 1 << 14 };
#define PATIENCE_NS 30000000000ull

static struct {
    pthread_mutex_t one; /* at a time */
    uint64_t every;      /* 0: never */
    atomic_ullong calls;
    atomic_int bound; /* captures, gates */
    uint64_t away;
} state = {.one = PTHREAD_MUTEX_INITIALIZER};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What the broker answers; "": there is none, or it refuses. */
static void ask(struct share_message *m, uint64_t bytes, char *answer) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/broker.sock", getenv("ULMS_SHARE_DIR"));
    int asks = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    m->version = SHARE_VERSION;
    bool sent = connect(asks, (struct sockaddr *)&at, sizeof at) == 0 &&
                send(asks, m, offsetof(struct share_message, hello) + bytes, MSG_NOSIGNAL) > 0;
    ssize_t n = sent ? recv(asks, answer, ANSWER_BYTES - 1, 0) : 0;
    answer[n > 0 ? n : 0] = 0;
    close(asks);
}

static bool suspend(bool suspended) {
    struct share_message m = {.kind = SHARE_SUSPEND, .suspend = {.suspended = suspended}}, said;
    char answer[ANSWER_BYTES] = "";
    const char *folder = getenv("AWAY_TO");
    snprintf(m.suspend.who, sizeof m.suspend.who, "pid:%d", (int)getpid());
    if (suspended && folder)
        snprintf(m.suspend.folder, sizeof m.suspend.folder, "%s", folder);
    ask(&m, sizeof m.suspend, answer);
    memcpy(&said, answer, sizeof said);
    return said.kind == SHARE_WELCOME;
}

static bool is_away(char *status) {
    struct share_message m = {.kind = SHARE_STATUS};
    ask(&m, sizeof m.nothing, status);
    return strstr(status, "\"away_ns\":") && strstr(status, "\"files\":0");
}

/* False: it is bound, or the broker that was asked is gone. */
static bool wait_until_away(char *status) {
    for (uint64_t began = now_ns(); !is_away(status); usleep(LOOK_US)) {
        if (!strstr(status, "\"suspended\":1") || (state.bound > 0 && now_ns() > began + SOON_NS))
            return false;
        if (now_ns() < began + PATIENCE_NS)
            continue;
        fprintf(stderr, "stuck: %s\n", status);
        _Exit(3);
    }
    return true;
}

void away_point(void) {
    char status[ANSWER_BYTES];
    if (!state.every || atomic_fetch_add(&state.calls, 1) % state.every)
        return;
    pthread_mutex_lock(&state.one);
    if (suspend(true)) {
        state.away += wait_until_away(status);
        suspend(false);
    }
    pthread_mutex_unlock(&state.one);
}

void away_bound(int more) {
    state.bound += more;
}

void away_begin(uint64_t seed) {
    const char *every = getenv("AWAY_EVERY");
    state.every = every ? strtoull(every, NULL, 10) : 0;
    state.calls = seed;
}

static unsigned long long number_of(const char *status, const char *name) {
    const char *found = strstr(status, name);
    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

/* All memory is freed, some behind work that may still run: what stays is lost. */
void away_end(void) {
    char status[ANSWER_BYTES] = "";
    uint64_t used = 0, filed, total, began = now_ns();
    if (!state.every)
        return;
    bool away = suspend(true);
    while (!away && now_ns() < began + PATIENCE_NS && usleep(LOOK_US) == 0)
        away = suspend(true); /* it may look for a broker just now */
    away = away && wait_until_away(status);
    do {
        is_away(status);
        filed = number_of(status, "\"filed\":");
        emu_device_memory(0, &used, &total);
    } while (away && used + filed > 0 && now_ns() < began + PATIENCE_NS && usleep(LOOK_US) == 0);
    fprintf(stderr, "away %llu\nleft %d %llu %llu\n", (unsigned long long)state.away, away, (unsigned long long)used,
            (unsigned long long)filed);
    suspend(false);
}
