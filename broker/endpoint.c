#define _GNU_SOURCE
#include "broker/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/address.h"

static struct sockaddr_un address;
static bool for_group;
static char hold[PATH_MAX];

static int failed(const char *what, const char *of) {
    fprintf(stderr, "ulms-broker: %s %s: %s\n", what, of, strerror(errno));
    return -1;
}

/* Nobody else may put another socket in its place. */
static bool folder_is_safe(const char *folder, gid_t group) {
    struct stat s;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return failed("cannot make", folder), false;
    if (lstat(folder, &s) != 0)
        return failed("cannot look at", folder), false;
    if (!S_ISDIR(s.st_mode) || s.st_uid != geteuid() || s.st_mode & (S_IWGRP | S_IWOTH)) {
        fprintf(stderr, "ulms-broker: %s must be a folder that only this user may write\n", folder);
        return false;
    }
    if (group != (gid_t)-1 && (chown(folder, (uid_t)-1, group) != 0 || chmod(folder, 0750) != 0))
        return failed("cannot open to the group", folder), false;
    return true;
}

/* It stays behind: the next broker has the same. Where none can be made nothing holds the broker. */
static void make_hold(const char *folder, gid_t group) {
    snprintf(hold, sizeof hold, "%s/programs", folder);
    if (mkfifo(hold, 0600) == 0 && group != (gid_t)-1 && chown(hold, (uid_t)-1, group) == 0)
        chmod(hold, 0640);
}

bool endpoint_is_held(void) {
    int file = open(hold, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW); /* refused where nobody reads */
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* False: *taken says that another broker has it. The descriptor stays open for as long as the process lives. */
static bool lock(const char *folder, bool *taken) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/broker.lock", folder);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        return true;
    *taken = file >= 0 && errno == EWOULDBLOCK;
    if (!*taken)
        failed("cannot lock", path);
    return false;
}

int endpoint_open(const char *folder, const char *group, bool *taken) {
    gid_t gid = (gid_t)-1;
    *taken = false;
    if (group) {
        const struct group *found = getgrnam(group);
        if (!found || geteuid() != 0) {
            fprintf(stderr, "ulms-broker: %s\n", found ? "only root may serve a group" : "no such group");
            return -1;
        }
        gid = found->gr_gid;
        for_group = true;
    }
    if (!share_address(folder, &address)) {
        fprintf(stderr, "ulms-broker: the name of %s is too long for a socket\n", folder);
        return -1;
    }
    if (!folder_is_safe(folder, gid))
        return -1;
    if (!lock(folder, taken))
        return -1;
    make_hold(folder, gid);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path); /* of one that was killed: we have the lock */
    if (s < 0 || bind(s, (const struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(address.sun_path, group ? 0660 : 0600) != 0 || (group && chown(address.sun_path, (uid_t)-1, gid) != 0) ||
        listen(s, SOMAXCONN) != 0) {
        failed("cannot listen on", address.sun_path);
        if (s >= 0)
            close(s);
        return -1;
    }
    return s;
}

int endpoint_accept(int socket) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    int s = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0)
        return -1;
    if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
        (for_group || peer.uid == geteuid() || peer.uid == 0))
        return s;
    close(s);
    return endpoint_accept(socket);
}

void endpoint_close(void) {
    unlink(address.sun_path);
}
