/* A libcuda.so.1 that forwards every function to another driver, as WSL's and those that share a GPU do. FIND says how
 * it finds them: HANDLE, dlsym in the library that REAL_CUDA names, opened for itself; PROC, by that library's
 * cuGetProcAddress; NEXT, dlsym(RTLD_NEXT), for one that is preloaded. x86-64 only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "emulator_rows.h"

enum find { HANDLE, PROC, NEXT };

#define TWIN_none(symbol, X)
#define TWIN_ptds(symbol, X) X(symbol##_ptds)
#define TWIN_ptsz(symbol, X) X(symbol##_ptsz)

static const struct row {
    const char *symbol, *base;
    int since, flags;
} rows[] = {
#define PLAIN(symbol, base, since) {#symbol, #base, since, 0},
#define X(symbol, base, since, twin)                                                                                   \
    PLAIN(symbol, base, since)                                                                                         \
    TWIN_##twin(symbol, NAMED)
#define NAMED(symbol) {#symbol, NULL, 0, 0},
    EMULATOR_ROWS(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows };
static void *found[ROWS];

static void *driver(void) {
    static void *handle;
    if (!handle && !(handle = dlopen(getenv("REAL_CUDA"), RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    return handle;
}

static void *ask(const struct row *row) {
    CUdriverProcAddressQueryResult how;
    void *function = NULL;
    pfn_cuGetProcAddress_v2 get = (pfn_cuGetProcAddress_v2)dlsym(driver(), "cuGetProcAddress_v2");
    if (!row->base || get(row->base, &function, row->since, 0, &how) != CUDA_SUCCESS || !function)
        function = dlsym(driver(), row->symbol);
    return function;
}

__attribute__((visibility("hidden"), used)) void *forward_find(unsigned i) {
    if (!found[i])
        found[i] = FIND == NEXT     ? dlsym(RTLD_NEXT, rows[i].symbol)
                   : FIND == HANDLE ? dlsym(driver(), rows[i].symbol)
                                    : ask(&rows[i]);
    if (!found[i])
        abort();
    return found[i];
}

__asm__(".text\n"
        "forward: push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; sub $8, %rsp\n"
        "mov %eax, %edi; call forward_find; add $8, %rsp\n"
        "pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi; jmp *%rax\n"
        ".set number, 0\n");
#define EXPORT(symbol)                                                                                                 \
    __asm__(".globl " #symbol "\n.type " #symbol ", @function\n" #symbol ": mov $number, %eax; jmp forward\n"          \
            ".set number, number + 1\n");
#define X(symbol, base, since, twin)                                                                                   \
    EXPORT(symbol)                                                                                                     \
    TWIN_##twin(symbol, EXPORT)
EMULATOR_ROWS(X)
