/* Log lines to stderr: "[ulms] LEVEL: text". One write(2) a line, no malloc, no stdio; errno is kept.
 * A call site that speaks more than LOG_REPEATS times falls silent after saying so. */
#ifndef ULMS_LOG_H
#define ULMS_LOG_H

#include "base/options.h"

enum { LOG_REPEATS = 10 };

/* *times counts the lines of one call site; NULL: never silent. */
void log_line(enum log_level level, unsigned *times, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define LOG_AT(level_, ...)                                                                                            \
    do {                                                                                                               \
        static unsigned log_times_;                                                                                    \
        if (__builtin_expect((level_) <= ulms_options.level, 0))                                                       \
            log_line((level_), &log_times_, __VA_ARGS__);                                                              \
    } while (0)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_info(...)  LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)

#endif
