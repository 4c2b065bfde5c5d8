/* ulms-broker: plans which program gets how much of a GPU. It touches no GPU. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/clock.h"
#include "broker/connection.h"
#include "broker/endpoint.h"
#include "broker/gpu.h"
#include "broker/log.h"
#include "broker/reload.h"
#include "share/address.h"

static const char usage[] =
    "usage: ulms-broker [--dir FOLDER] [--group GROUP] [--config FILE] [--turn SECONDS] [--idle SECONDS] [--log]\n"
    "\n"
    "Shares the GPUs of this machine among programs that `pump run --share` starts.\n"
    "\n"
    "  --dir FOLDER     where its socket lies (XDG_RUNTIME_DIR/ulms, else /tmp/ulms-UID)\n"
    "  --group GROUP    root only: users of this group may join, too\n"
    "  --config FILE    settings of groups, read again when it changes\n"
    "  --turn SECONDS   how long one has its turn where not all fit (0: as it chooses)\n"
    "  --idle SECONDS   ends when nobody was connected, and no program of `pump run` lived, for so long (0: never)\n"
    "  --log            goes on writing to broker.log in that folder once it serves\n";

static struct {
    const char *folder, *group, *config;
    uint64_t idle_ns, turn_ns;
    bool log;
} options;

static volatile sig_atomic_t told_to_end;

static void end(int signal) {
    (void)signal;
    told_to_end = 1;
}

/* False: the words make no sense, or ask for help, and *status is the one to exit with. */
static bool read_words(int argc, char **argv, int *status) {
    static const struct option words[] = {
        {"dir", required_argument, NULL, 'd'},    {"group", required_argument, NULL, 'g'},
        {"config", required_argument, NULL, 'c'}, {"turn", required_argument, NULL, 't'},
        {"idle", required_argument, NULL, 'i'},   {"log", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int word;
    char *rest = "";
    while ((word = getopt_long(argc, argv, "", words, NULL)) != -1) {
        if (word == 'd')
            options.folder = optarg;
        else if (word == 'g')
            options.group = optarg;
        else if (word == 'c')
            options.config = optarg;
        else if (word == 'l')
            options.log = true;
        else if (word == 'i')
            options.idle_ns = (uint64_t)(strtod(optarg, &rest) * 1e9);
        else if (word == 't')
            options.turn_ns = (uint64_t)(strtod(optarg, &rest) * 1e9);
        else
            break;
    }
    bool good = word == -1 && optind == argc && !*rest;
    *status = word == 'h' ? 0 : 2;
    if (!good)
        fputs(usage, word == 'h' ? stdout : stderr);
    return good;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Until something happens, at most until `next`. */
static void wait_for(struct pollfd *all, int n, uint64_t next, const sigset_t *unblocked) {
    uint64_t now = clock_ns(), ns = next > now ? next - now : 0;
    struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (ppoll(all, (nfds_t)n, next == UINT64_MAX ? NULL : &most, unblocked) < 0)
        for (int i = 0; i < n; i++)
            all[i].revents = 0;
}

/* The broker is needed: it does not end by itself. *next: when to look again, ns. */
static bool is_needed(uint64_t now, uint64_t *next) {
    static uint64_t busy;
    bool ends = options.idle_ns && !connections_count() && !connections_told_to_stay();
    if (!busy || !ends || (now >= busy + options.idle_ns && endpoint_is_held()))
        busy = now;
    *next = ends ? busy + options.idle_ns : UINT64_MAX;
    return now < *next;
}

static void serve(int socket, const sigset_t *unblocked) {
    struct pollfd all[1 + CONNECTIONS_MAX] = {{.fd = socket, .events = POLLIN}};
    for (bool stop = false; !stop && !told_to_end;) {
        uint64_t now = clock_ns(), ends;
        uint64_t next = least(gpus_tick(now), least(connections_next(), reload_tick(now)));
        if (!is_needed(now, &ends))
            return;
        next = least(next, ends);
        if (gpus_hand_over(now)) {
            sched_yield();
            next = now;
        }
        wait_for(all, 1 + connections_poll(all + 1), next, unblocked);
        stop = connections_serve(all + 1, clock_ns());
        if (all[0].revents)
            connections_accept(socket, clock_ns());
    }
}

int main(int argc, char **argv) {
    struct sigaction act = {.sa_handler = end};
    sigset_t blocked, before;
    char folder[PATH_MAX];
    bool taken;
    int status;
    if (!read_words(argc, argv, &status))
        return status;
    if (!share_folder(options.folder, folder, sizeof folder)) {
        fputs("ulms-broker: the folder's name is too long\n", stderr);
        return 1;
    }
    /* They are let in while it waits, so that none comes between a look at the flag and the wait. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    signal(SIGPIPE, SIG_IGN); /* who started it may not read what it says */
    gpus_fix(UINT64_MAX, options.turn_ns, 0, clock_ns());
    if (options.config && !reload_begin(options.config, options.turn_ns, clock_ns()))
        return 1;
    int socket = endpoint_open(folder, options.group, &taken);
    if (taken)
        fprintf(stderr, "ulms-broker: one serves %s already\n", folder);
    if (socket < 0)
        return taken ? 0 : 1;
    if (options.log)
        log_to_folder(folder);
    serve(socket, &before);
    endpoint_close();
    return 0;
}
