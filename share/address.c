#include "share/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool fits(int length, size_t room) {
    return length > 0 && (size_t)length < room;
}

bool share_folder(const char *named, char *out, size_t room) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (named)
        return fits(snprintf(out, room, "%s", named), room);
    if (runtime && *runtime)
        return fits(snprintf(out, room, "%s/ulms", runtime), room);
    return fits(snprintf(out, room, "/tmp/ulms-%u", (unsigned)getuid()), room);
}

bool share_bar(const char *folder, int pid, char *out, size_t room) {
    return fits(snprintf(out, room, "%s/bar-%d", folder, pid), room);
}

bool share_address(const char *folder, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    return fits(snprintf(out->sun_path, sizeof out->sun_path, "%s/broker.sock", folder), sizeof out->sun_path);
}
