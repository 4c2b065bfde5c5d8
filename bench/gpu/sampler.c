/* Where the threads of a program are, asked every so often. Preloaded; SIGUSR2 begins, and once more ends, and then
 * SAMPLE_OUT has what was seen: a line "MODULE SAMPLES" for each file that code of the program lies in, "[kernel]" (at
 * work in a call of the system) and "[CALL]" (asleep in that one), and before these "rounds N", "threads N", "ns N". */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { EVERY_NS = 400000, CHOOSE_NS = 300000000, LEAST_SHARE = 1000, THREADS = 4096, SAMPLES = 1 << 22 };

struct thread {
    pid_t id;
    uint64_t ran_ns; /* when it was first asked */
    int calls;       /* the file that says what call it sleeps in */
};

#define CALL(name) {SYS_##name, "[" #name "]"}
static const struct call {
    long number;
    const char *name;
} calls[] = {CALL(futex), CALL(ioctl), CALL(sched_yield), CALL(clock_nanosleep), CALL(read), CALL(ppoll)};
enum { CALLS = sizeof calls / sizeof *calls };
static unsigned asleep[CALLS + 1]; /* the last: in another one */

static char *out;
static sem_t told;
static uintptr_t *samples; /* addresses of code; 0: in the kernel */
static unsigned count;

/* The address is behind the instruction, or before it, if the call will begin anew. */
static bool in_system_call(const unsigned char *code) {
#if defined __x86_64__
    static const unsigned char call[] = {0x0f, 0x05};
#else
    static const unsigned char call[] = {0x01, 0x00, 0x00, 0xd4};
#endif
    return !memcmp(code - sizeof call, call, sizeof call) || !memcmp(code, call, sizeof call);
}

static void on_sample(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const ucontext_t *c = context;
#if defined __x86_64__
    uintptr_t at = (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t at = c->uc_mcontext.pc;
#endif
    unsigned n = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (n < SAMPLES)
        samples[n] = in_system_call((const unsigned char *)at) ? 0 : at;
}

static void on_told(int number) {
    (void)number;
    sem_post(&told);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ran_ns(pid_t thread) {
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%llu", &ns) != 1)
        ns = 0;
    if (file)
        fclose(file);
    return ns;
}

static int threads_of(struct thread *threads) {
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *e; folder && (e = readdir(folder)) && n < THREADS;) {
        pid_t id = atoi(e->d_name);
        if (id > 0 && id != (pid_t)syscall(SYS_gettid))
            threads[n++] = (struct thread){.id = id, .ran_ns = ran_ns(id)};
    }
    if (folder)
        closedir(folder);
    return n;
}

/* Those that do anything: the program's own, that is, and not the many that only wait. */
static int busy_of(struct thread *threads) {
    int all = threads_of(threads), busy = 0;
    nanosleep(&(struct timespec){0, CHOOSE_NS}, NULL);
    for (int i = 0; i < all; i++)
        if (ran_ns(threads[i].id) - threads[i].ran_ns > CHOOSE_NS / LEAST_SHARE)
            threads[busy++] = threads[i];
    for (int i = 0; i < busy; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", threads[i].id);
        threads[i].calls = open(path, O_RDONLY | O_CLOEXEC);
    }
    return busy;
}

/* One that sleeps is not woken to be asked: the kernel tells. */
static bool sleeps(const struct thread *thread) {
    char text[32] = "";
    if (pread(thread->calls, text, sizeof text - 1, 0) <= 0 || !isdigit((unsigned char)*text))
        return false;
    long number = atol(text);
    int i = 0;
    while (i < CALLS && calls[i].number != number)
        i++;
    asleep[i]++;
    return true;
}

struct module {
    char name[256];
    unsigned samples;
};
static struct module modules[512];
static int module_count;

static int holds(struct dl_phdr_info *info, size_t size, void *data) {
    uintptr_t at = **(uintptr_t **)data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
            ((const char **)data)[1] = *info->dlpi_name ? info->dlpi_name : "[program]";
            return 1;
        }
    }
    return 0;
}

static const char *name_of(uintptr_t at) {
    struct {
        uintptr_t *at;
        const char *name;
    } asked = {&at, "[nowhere]"};
    if (!at)
        return "[kernel]";
    dl_iterate_phdr(holds, &asked);
    const char *slash = strrchr(asked.name, '/');
    return slash ? slash + 1 : asked.name;
}

static void add(const char *name) {
    int i = 0;
    while (i < module_count && strcmp(modules[i].name, name) != 0)
        i++;
    if (i == module_count && module_count < (int)(sizeof modules / sizeof *modules))
        snprintf(modules[module_count++].name, sizeof modules->name, "%s", name);
    if (i < module_count)
        modules[i].samples++;
}

/* Under another name first: who waits for the file finds it whole. */
static void write_out(unsigned long rounds, int threads, uint64_t ns) {
    char begun[4096];
    snprintf(begun, sizeof begun, "%s.begun", out);
    FILE *file = fopen(begun, "w");
    if (!file)
        return;
    for (unsigned i = 0; i < count && i < SAMPLES; i++)
        add(name_of(samples[i]));
    fprintf(file, "rounds %lu\nthreads %d\nns %llu\n", rounds, threads, (unsigned long long)ns);
    for (int i = 0; i < module_count; i++)
        fprintf(file, "%s %u\n", modules[i].name, modules[i].samples);
    for (int i = 0; i <= CALLS; i++)
        if (asleep[i])
            fprintf(file, "%s %u\n", i < CALLS ? calls[i].name : "[other]", asleep[i]);
    if (fclose(file) == 0)
        rename(begun, out);
}

static void *run(void *unused) {
    static struct thread threads[THREADS];
    sem_wait(&told);
    int busy = busy_of(threads);
    unsigned long rounds = 0;
    uint64_t from = now_ns();
    for (; sem_trywait(&told) && count < SAMPLES; rounds++) {
        nanosleep(&(struct timespec){0, EVERY_NS}, NULL);
        for (int i = 0; i < busy; i++)
            if (!sleeps(&threads[i]))
                syscall(SYS_tgkill, getpid(), threads[i].id, SIGPROF);
    }
    write_out(rounds, busy, now_ns() - from);
    return unused;
}

/* The program's children are not asked. */
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SAMPLE_OUT");
    pthread_t thread;
    sigset_t all, before;
    if (!path || !(out = strdup(path)) || !(samples = calloc(SAMPLES, sizeof *samples)))
        return;
    unsetenv("SAMPLE_OUT");
    sem_init(&told, 0, 0);
    sigaction(SIGPROF, &(struct sigaction){.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_told, .sa_flags = SA_RESTART}, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
