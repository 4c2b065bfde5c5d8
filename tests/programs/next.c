/* An interposer of another kind: counts getppid() and passes on to the next one, as such libraries do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

static int calls;

pid_t getppid(void) {
    pid_t (*next)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "getppid");
    calls++;
    return calls > 100 ? -1 : next();
}

int next_calls(void) {
    return calls;
}
