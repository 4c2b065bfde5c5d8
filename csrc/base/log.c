#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"

enum { LINE_MAX_BYTES = 1024 };

static const char *const names[] = {
    [LOG_ERROR] = "ERROR", [LOG_WARN] = "WARN", [LOG_INFO] = "INFO", [LOG_DEBUG] = "DEBUG"};

/* Which of the call site's lines this is, from 1; 0: it has fallen silent. */
static unsigned turn(unsigned *times) {
    if (!times)
        return 1;
    if (__atomic_load_n(times, __ATOMIC_RELAXED) >= LOG_REPEATS) /* so that the count cannot wrap */
        return 0;
    unsigned n = __atomic_add_fetch(times, 1, __ATOMIC_RELAXED);
    return n <= LOG_REPEATS ? n : 0;
}

/* Room left behind length characters; what snprintf wanted to write may be more than there was. */
static size_t clamp(int wanted, size_t room) {
    return wanted < 0 ? 0 : (size_t)wanted < room ? (size_t)wanted : room - 1;
}

/* What a program or a user gave us may hold line breaks, and what steers a terminal: ASCII's control characters, and
 * those of Latin-1 (U+0080 to U+009F), which are C2 80 to C2 9F. */
static void make_printable(char *line, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)line[i], next = i + 1 < length ? (unsigned char)line[i + 1] : 0;
        if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            line[i] = line[i + 1] = '?';
        else if (c < ' ' || c == 0x7f)
            line[i] = '?';
    }
}

void log_line(enum log_level level, unsigned *times, const char *format, ...) {
    static const char cut[] = "...", silent[] = " (said 10 times: not said again)";
    char line[LINE_MAX_BYTES];
    int error = errno, before;
    unsigned n = turn(times);
    if (n == 0)
        return;
    size_t room = sizeof line - sizeof silent;
    size_t length = clamp(snprintf(line, room, "[ulms] %s: ", names[level]), room);
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(line + length, room - length, format, arguments);
    va_end(arguments);
    bool whole = wanted >= 0 && (size_t)wanted < room - length;
    length += clamp(wanted, room - length);
    if (!whole && wanted > 0)
        memcpy(line + length - strlen(cut), cut, strlen(cut));
    if (times && n == LOG_REPEATS) {
        memcpy(line + length, silent, strlen(silent));
        length += strlen(silent);
    }
    make_printable(line, length);
    line[length++] = '\n';
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* a thread that is cancelled here may hold a lock */
    output_write(STDERR_FILENO, line, length);
    pthread_setcancelstate(before, &before);
    errno = error;
}
