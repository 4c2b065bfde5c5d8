/* Jumps out of the handlers of signals. If the signal interrupted a section (base/lock.h), the jump is put off until
 * that has ended: the interrupted code goes on with signals blocked, and jumps where it gives back its last lock. */
#ifndef ULMS_JUMP_H
#define ULMS_JUMP_H

struct __jmp_buf_tag;
typedef void (*jump_function)(struct __jmp_buf_tag *env, int value);

/* A jump that leaves all that the thread is in (env: NULL), or what is inner to env's frame. Returns where it cannot
 * wait or need not, as it leaves no section: then the caller makes it. */
void jump_put_off(jump_function jump, struct __jmp_buf_tag *env, int value);

#endif
