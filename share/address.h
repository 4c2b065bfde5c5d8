/* Where the broker is found. */
#ifndef SHARE_ADDRESS_H
#define SHARE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

/* The folder of the broker's socket, in `out`: the one named, or if NULL XDG_RUNTIME_DIR/ulms, or else /tmp/ulms-UID.
 * False: its name is too long. */
bool share_folder(const char *named, char *out, size_t room);
/* The socket in that folder. False: its name is too long. */
bool share_address(const char *folder, struct sockaddr_un *out);
/* While another process has a lock of that file in the folder, this one is barred: it does not connect. Likewise. */
bool share_bar(const char *folder, int pid, char *out, size_t room);

#endif
