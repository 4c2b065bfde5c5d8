/* A while in which the loader's locks are held: whoever calls the loader then, or lists its objects, hangs. The program
 * exports the two functions (-rdynamic); programs/loader_holder.c is the library that takes the locks. */
#ifndef PROGRAM_LOADER_HELD_H
#define PROGRAM_LOADER_HELD_H

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

void loader_is_held(void);
bool loader_and_list(void);

static sem_t held_now, held_long_enough;
static bool held_list; /* the lock of the list of objects, too */
static pthread_t holder;

/* From the library's constructor. */
void loader_is_held(void) {
    sem_post(&held_now);
    sem_wait(&held_long_enough);
}

bool loader_and_list(void) {
    return held_list;
}

static inline void *loader_load(void *path) {
    if (!dlopen(path, RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(2);
    }
    return NULL;
}

static inline void loader_hold(char *path, bool list) {
    held_list = list;
    if (sem_init(&held_now, 0, 0) || sem_init(&held_long_enough, 0, 0) ||
        pthread_create(&holder, NULL, loader_load, path))
        _exit(2);
    sem_wait(&held_now);
}

static inline void loader_let_go(void) {
    sem_post(&held_long_enough);
    pthread_join(holder, NULL);
}

#endif
