/* A connection to the broker, of one device. */
#ifndef ULMS_TENANT_CONNECTION_H
#define ULMS_TENANT_CONNECTION_H

#include <stdbool.h>
#include <sys/types.h>

#include "share/message.h"
#include "share/page.h"

struct connection {
    int socket;   /* -1: none */
    ino_t inode;  /* of the socket: the program may have closed it, and opened another file of that number */
    bool refused; /* the broker wants no connection, which was told */
    const struct share_page *page;
    uint64_t looked_ns; /* when that was last asked */
    uint64_t unread_ns; /* for how long it has not read all that it was told, as far as that was watched */
};

/* Says hello to the broker, which has a moment to answer. False: there is none, it is of another user, or it refused,
 * which is told once. */
bool connection_open(struct connection *c, struct share_message *hello);
/* False: the broker is gone. One that is too busy to read loses the message: *sent is false. */
bool connection_send(struct connection *c, struct share_message *m, bool *sent);
/* Somebody keeps this process from having a connection, as one could not be written to a disk (pump checkpoint). */
bool connection_is_barred(void);
/* The broker is there, and listens. */
bool connection_lives(struct connection *c);
void connection_close(struct connection *c);

#endif
