/* A child in which whatever could be a lock of ours, or what it guards, cannot be written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "every_call.h"

enum { CHILD_S = 60, TEXT = 1 << 20 };

static uintptr_t ours[2]; /* the library's variables; 0: it is not here */
static char maps[TEXT];

static int find_ours(struct dl_phdr_info *object, size_t bytes, void *unused) {
    const char *name = strrchr(object->dlpi_name, '/');
    (void)bytes, (void)unused;
    for (int i = 0; name && strcmp(name, "/ulms.so") == 0 && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_W) {
            ours[0] = (object->dlpi_addr + p->p_vaddr) & ~(uintptr_t)4095;
            ours[1] = (object->dlpi_addr + p->p_vaddr + p->p_memsz + 4095) & ~(uintptr_t)4095;
        }
    }
    return 0;
}

static void freeze(uintptr_t start, uintptr_t end) {
    if (mprotect((void *)start, end - start, PROT_READ) != 0)
        _exit(3);
}

static bool within(uintptr_t start, uintptr_t end, const void *at) {
    return (uintptr_t)at >= start && (uintptr_t)at < end;
}

/* What malloc and mmap gave: what has no name and lies behind no file, where other libraries' variables are. */
static void freeze_heap(const void *writable) {
    int file = open("/proc/self/maps", O_RDONLY);
    size_t length = 0;
    for (ssize_t n; (n = read(file, maps + length, TEXT - 1 - length)) > 0;)
        length += (size_t)n;
    uintptr_t before = 0; /* the end of a file's */
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        char *end_text, *rest;
        uintptr_t start = strtoul(line, &end_text, 16), end = strtoul(end_text + 1, &rest, 16);
        const char *name = strpbrk(line, "/[");
        bool heap = name ? strcmp(name, "[heap]") == 0 : start != before;
        bool used = within(start, end, &errno) || within(start, end, &line) || within(start, end, writable);
        if (name ? *name == '/' : start == before)
            before = end;
        if (heap && !used && strncmp(rest, " rw-p", 5) == 0)
            freeze(start, end);
    }
}

/* The C library's locks may be held in it: nothing is allocated. */
static void be_child(const struct child_calls *c) {
    alarm(CHILD_S);
    if (ours[0])
        freeze(ours[0], ours[1]);
    if (c->all)
        freeze_heap(c->writable);
    c->call(c->data);
    _exit(0);
}

int child_run(const struct child_calls *c, bool raw) {
    int status = 0;
    if (!ours[0])
        dl_iterate_phdr(find_ours, NULL);
    pid_t child = raw ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    if (child == 0)
        be_child(c);
    waitpid(child, &status, 0);
    return status;
}
