/* Files of counters that processes left behind when they were killed, or ran another program in their place. */
#ifndef ULMS_LEFTOVER_H
#define ULMS_LEFTOVER_H

#define STATS_FOLDER "/dev/shm" /* where ULMS_STATS=on puts them */
#define STATS_PREFIX "ulms-"

/* Removes this user's from the folder; what another user owns, or another namespace of process numbers, stays. Once,
 * before this process has a file of its own there. */
void leftovers_remove(const char *folder);

#endif
