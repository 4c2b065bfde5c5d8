#include "driver/session.h"

#include <stdlib.h>

#include "base/hot.h"

HOT_DATA struct session session;
HOT_DATA bool session_on;

void session_stops_first(void) {
    atexit(session.stop_backend);
}
