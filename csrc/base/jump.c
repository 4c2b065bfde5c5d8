#define _GNU_SOURCE
#include "base/jump.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unwind.h>

#include "base/background.h"
#include "base/lock.h"

#if defined(__x86_64__) && defined(__GLIBC__)
static __thread struct {
    jump_function jump;
    struct __jmp_buf_tag env;
    int value;
    sigset_t mask; /* of the handler */
} put_off;

void section_left(void) {
    thread_here.jumps = false;
    pthread_sigmask(SIG_SETMASK, &put_off.mask, NULL);
    put_off.jump(&put_off.env, put_off.value);
}

struct search {
    uintptr_t target;         /* the stack pointer after the jump */
    uintptr_t wrapper;        /* the section is inner to this; 0: not known */
    uintptr_t from;           /* where the frames of one handler begin */
    uintptr_t last;           /* the frame seen before */
    ucontext_t *next, *found; /* what a handler returns to: of the last one seen, of one that interrupted a section */
    bool inner;               /* the jump ends in a handler, or in what the section called */
};

static bool is_ours(uintptr_t code) {
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char etext[] __attribute__((visibility("hidden")));
    return code >= (uintptr_t)__ehdr_start && code < (uintptr_t)etext;
}

/* A section that is interrupted has a frame of ours; what it called, a driver, may jump within. If handlers interrupted
 * one another in it, the outermost counts. Frames on two stacks are compared only where a handler within a handler has
 * a stack of its own. */
static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *data) {
    struct search *s = data;
    int interrupted = 0;
    uintptr_t code = _Unwind_GetIPInfo(context, &interrupted), frame = _Unwind_GetCFA(context), at = s->last;
    s->last = frame;
    if (interrupted) {
        ucontext_t *u = (ucontext_t *)at; /* the kernel's frame of a signal begins with it */
        if ((s->found && at > s->wrapper) || u->uc_mcontext.gregs[REG_RIP] != (greg_t)code)
            return _URC_NORMAL_STOP;
        s->inner |= s->target >= s->from && s->target < at;
        s->from = frame;
        s->next = u;
    }
    if (s->next && is_ours(code)) {
        s->inner |= !interrupted && s->target >= s->from && s->target <= at;
        s->found = s->next;
    }
    bool goes_on = !s->inner && (!s->found || frame < s->wrapper);
    return goes_on ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static uintptr_t stack_of(const struct __jmp_buf_tag *env) {
    enum { RSP = 6 };
    uintptr_t mangled = (uintptr_t)env->__jmpbuf[RSP];
    __asm__("ror $17, %0; xor %%fs:0x30, %0" : "+r"(mangled));
    return mangled;
}

/* Trap: where the processor keeps a stack of return addresses, a handler's frame cannot be left like this. */
static bool has_shadow_stack(void) {
    uintptr_t top = 0;
    __asm__("rdsspq %0" : "+r"(top));
    return top != 0;
}

/* The kernel's are so long. */
static uint64_t *mask_of(ucontext_t *u) {
    return (uint64_t *)&u->uc_sigmask;
}

/* What goes on until its jump is interrupted by a fault alone, and cannot go on then. */
static bool is_resumed(ucontext_t *u) {
    sigset_t all;
    background_signals(&all);
    return thread_here.jumps && (~*mask_of(u) & *(const uint64_t *)&all) == 0;
}

/* No inline code, so that AddressSanitizer sees that frames are left. */
static _Noreturn __attribute__((noinline)) void return_to(const ucontext_t *interrupted) {
    __asm__ volatile("mov %0, %%rsp; syscall" ::"r"(interrupted), "a"(SYS_rt_sigreturn) : "memory");
    __builtin_unreachable();
}

static _Noreturn void resume(ucontext_t *interrupted) {
    sigset_t all, before;
    background_signals(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (!thread_here.jumps)
        put_off.mask = before;
    thread_here.jumps = true;
    *mask_of(interrupted) |= *(const uint64_t *)&all;
    return_to(interrupted);
}

void jump_put_off(jump_function jump, struct __jmp_buf_tag *env, int value) {
    struct search s = {.target = env ? stack_of(env) : UINTPTR_MAX,
                       .wrapper = (uintptr_t)thread_here.within,
                       .from = (uintptr_t)__builtin_frame_address(0)};
    if (thread_here.sections && !has_shadow_stack())
        _Unwind_Backtrace(look, &s);
    if (s.inner)
        return;
    bool faults = s.found && is_resumed(s.found);
    if (s.found && !faults) {
        put_off.jump = jump;
        put_off.value = value;
        if (env)
            put_off.env = *env;
        resume(s.found);
    }
    if (faults)
        pthread_sigmask(SIG_SETMASK, &put_off.mask, NULL);
    if (s.target > s.wrapper) { /* it leaves the section without an end */
        thread_here.sections = 0;
        thread_here.jumps = false;
    }
}
#else
void section_left(void) {
}

void jump_put_off(jump_function jump, struct __jmp_buf_tag *env, int value) {
    (void)jump, (void)env, (void)value;
    thread_here.sections = 0;
}
#endif
