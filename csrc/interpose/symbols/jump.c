/* What a handler of a signal leaves its thread's code by: siglongjmp and its like, and pthread_exit. Outside of a
 * handler that interrupted a section of ours they are the C library's at once. */
#include <setjmp.h>

#include "base/jump.h"
#include "base/thread.h"
#include "driver/elf.h"
#include "driver/home.h"

#if defined(__x86_64__) && defined(__GLIBC__)
/* A child has sections of its parent's, whose locks other threads held. */
static void jump_with(void *jump, struct __jmp_buf_tag *env, int value) {
    if (__builtin_expect(thread_here.sections != 0, 0) && !home_left())
        jump_put_off((jump_function)jump, env, value);
    ((jump_function)jump)(env, value);
}

#define EXPORT(name, version)                                                                                          \
    __asm__(".symver our_" #name ", " #name "@@" version);                                                             \
    __attribute__((visibility("default"), used)) void our_##name
#define JUMP(name, version)                                                                                            \
    EXPORT(name, version)(struct __jmp_buf_tag * env, int value) {                                                     \
        static void *_Atomic known;                                                                                    \
        jump_with(elf_next_once(&known, #name), env, value);                                                           \
    }
JUMP(longjmp, "GLIBC_2.2.5")
JUMP(_longjmp, "GLIBC_2.2.5")
JUMP(siglongjmp, "GLIBC_2.2.5")
JUMP(__longjmp_chk, "GLIBC_2.11")

static __thread void *result;

static void end_thread(struct __jmp_buf_tag *none, int unused) {
    static void *_Atomic known;
    (void)none, (void)unused;
    ((void (*)(void *))elf_next_once(&known, "pthread_exit"))(result);
}

EXPORT(pthread_exit, "GLIBC_2.2.5")(void *value) {
    result = value;
    jump_with((void *)end_thread, NULL, 0);
}
#endif
