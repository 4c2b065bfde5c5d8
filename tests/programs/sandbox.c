/* Runs a program where the kernel refuses system calls, as containers do. The arguments: their names, with commas
 * between; the error that the kernel answers; the program and its arguments. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} known[] = {{"process_vm_readv", SYS_process_vm_readv}, {"pipe2", SYS_pipe2}};

/* Filters add up: each call has its own. */
static int deny(unsigned number, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ","))
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(name, known[i].name) && deny(known[i].number, (unsigned)atoi(argv[2])))
                return 3;
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 4;
}
