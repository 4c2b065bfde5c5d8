/* The broker's log: stderr, or a file in its folder. */
#ifndef BROKER_LOG_H
#define BROKER_LOG_H

#include <stdbool.h>

/* From now on it is FOLDER/broker.log, of this run alone. What is printed before goes to stderr. */
void log_to_folder(const char *folder);
/* ULMS_LOG_LEVEL is INFO or more: it is told who comes and goes, and whose turn it is. */
bool log_tells_all(void);
/* A line: what happened, and to whom. */
__attribute__((format(printf, 1, 2))) void log_tell(const char *format, ...);

#endif
