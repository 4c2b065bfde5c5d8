#define _GNU_SOURCE
#include "broker/reload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/config.h"
#include "broker/gpu.h"
#include "broker/group.h"
#include "broker/log.h"

enum { LOOK_NS = 500000000, FILE_MAX = 64 << 10 };

static char *path, wrong[PATH_MAX + 512];
static struct stat last; /* of what was read last */
static uint64_t looked_ns, else_turn_ns;

/* Bytes of the file in `text`, which ends with a zero; -1: errno says why not. */
static ssize_t read_file(char *text, size_t room, struct stat *status) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = file >= 0 && fstat(file, status) == 0 ? read(file, text, room - 1) : -1;
    int error = n == (ssize_t)room - 1 ? EFBIG : errno;
    if (file < 0 && stat(path, status) != 0)
        *status = (struct stat){.st_size = 0};
    if (file >= 0)
        close(file);
    errno = error;
    text[n > 0 ? n : 0] = 0;
    return n < (ssize_t)room - 1 ? n : -1;
}

static void apply(const struct config *c, uint64_t now) {
    groups_unfix();
    for (uint32_t i = 0; i < c->groups; i++)
        if (!group_fix(c->group[i].name, &c->group[i].settings))
            log_tell("there are too many groups: %s is as its programs say", c->group[i].name);
    for (uint32_t id = POLICY_GROUPS; id > 0; id--)
        gpus_group(id, now);
    gpus_fix(c->capacity, c->turn_ns ? c->turn_ns : else_turn_ns, c->resident, now);
}

static bool read_it(uint64_t now) {
    static char text[FILE_MAX];
    static struct config config;
    char said[384];
    struct stat status = {.st_size = 0};
    wrong[0] = 0;
    if (read_file(text, sizeof text, &status) < 0)
        snprintf(wrong, sizeof wrong, "%s: %s", path, strerror(errno));
    else if (!config_read(text, &config, said, sizeof said))
        snprintf(wrong, sizeof wrong, "%s:%s", path, said);
    else
        apply(&config, now);
    last = status;
    return !wrong[0];
}

/* Links stay in it: a changed file may come as another link. NULL: errno says why. */
static char *absolute(const char *file) {
    char *folder = getcwd(NULL, 0), *name = NULL;
    if (*file == '/')
        name = strdup(file);
    else if (folder && asprintf(&name, "%s/%s", folder, file) < 0)
        name = NULL;
    free(folder);
    return name;
}

bool reload_begin(const char *file, uint64_t turn_ns, uint64_t now) {
    path = absolute(file);
    if (!path) {
        fprintf(stderr, "ulms-broker: %s: %s\n", file, strerror(errno));
        return false;
    }
    looked_ns = now;
    else_turn_ns = turn_ns;
    if (!read_it(now))
        fprintf(stderr, "ulms-broker: %s\n", wrong);
    return !wrong[0];
}

static bool has_changed(void) {
    struct stat now = {.st_size = 0};
    if (stat(path, &now) != 0)
        now = (struct stat){.st_size = 0};
    return now.st_dev != last.st_dev || now.st_ino != last.st_ino || now.st_size != last.st_size ||
           now.st_mtim.tv_sec != last.st_mtim.tv_sec || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec;
}

uint64_t reload_tick(uint64_t now) {
    if (!path)
        return UINT64_MAX;
    if (now < looked_ns + LOOK_NS)
        return looked_ns + LOOK_NS;
    looked_ns = now;
    if (!has_changed())
        return now + LOOK_NS;
    if (read_it(now))
        log_tell("%s has changed: its settings hold from now on", path);
    else
        log_tell("%s; the settings stay as they were", wrong);
    return now + LOOK_NS;
}

const char *reload_path(void) {
    return path;
}

const char *reload_wrong(void) {
    return wrong;
}
