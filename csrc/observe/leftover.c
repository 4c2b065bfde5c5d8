#include "observe/leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "ulms.h"

enum { HEADER = offsetof(struct ulms_stats, row) };

static struct ulms_stats found; /* its header */

/* Anybody may put anything into the folder: a link is not followed, a pipe is not waited for. */
static bool read_header(int folder, const char *name) {
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                read(fd, &found, HEADER) == HEADER && memcmp(&found.magic, "ulmsstat", sizeof found.magic) == 0;
    close(fd);
    return good;
}

/* This process has made none yet: one with its number is of the program that it ran before. */
static bool is_left(uint64_t namespace) {
    bool here = namespace && found.rows_at >= HEADER && found.pid_namespace == namespace;
    return here && (found.pid == (uint32_t)getpid() || !process_runs(found.pid, found.process_start));
}

void leftovers_remove(const char *folder) {
    uint64_t namespace = process_namespace();
    DIR *all = opendir(folder);
    if (!all)
        return;
    for (struct dirent *each; (each = readdir(all));)
        if (strncmp(each->d_name, STATS_PREFIX, strlen(STATS_PREFIX)) == 0 && read_header(dirfd(all), each->d_name) &&
            is_left(namespace)) {
            log_debug("counters of process %u, which is gone, are removed", found.pid);
            unlinkat(dirfd(all), each->d_name, 0);
        }
    closedir(all);
}
