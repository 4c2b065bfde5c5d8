/* Who is connected: tenants, and commands that ask something. */
#ifndef BROKER_CONNECTION_H
#define BROKER_CONNECTION_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONNECTIONS_MAX = 256 };

/* Takes what waits at the socket; more than there is room for are refused. */
void connections_accept(int socket, uint64_t now);
/* Their entries for poll. How many. */
int connections_poll(struct pollfd out[CONNECTIONS_MAX]);
/* What poll answered, in the same order, and those that said nothing for too long. True: one asked the broker to stop.
 */
bool connections_serve(const struct pollfd *in, uint64_t now);
int connections_count(void);
/* One has told the broker not to end by itself. */
bool connections_told_to_stay(void);
/* When one that has not said who it is has had its time, ns; UINT64_MAX: all have. */
uint64_t connections_next(void);

#endif
