#define _GNU_SOURCE
#include "broker/log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

void log_to_folder(const char *folder) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/broker.log", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    dup2(file, STDERR_FILENO);
    close(file);
}

bool log_tells_all(void) {
    const char *level = getenv("ULMS_LOG_LEVEL");
    return level && (strcasecmp(level, "INFO") == 0 || strcasecmp(level, "DEBUG") == 0);
}

void log_tell(const char *format, ...) {
    char line[512], at[32] = "";
    time_t now = time(NULL);
    struct tm local;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (localtime_r(&now, &local))
        strftime(at, sizeof at, "%F %T", &local);
    fprintf(stderr, "%s ulms-broker: %s\n", at, line);
}
