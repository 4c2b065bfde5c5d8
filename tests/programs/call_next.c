/* Prints whether getppid() came through the interposer once and gave the truth. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    int (*calls)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "next_calls");
    int right = getppid() == (pid_t)syscall(SYS_getppid);
    printf("%d %d\n", right, calls());
    return 0;
}
