#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/process.h"
#include "base/thread.h"
#include "capture.h"
#include "observe/leftover.h"
#include "observe/stats.h"
#include "ulms.h"

static const char *fresh_path(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/ulms-test-stats-%d", (int)getpid());
    unlink(path);
    return path;
}

TEST(adding_and_summing) {
    stats_add(COUNT_kernels, 3);
    stats_add(COUNT_kernels, 4);
    stats_add(COUNT_copied_bytes, 1ull << 40);
    CHECK_EQ(stats_sum(COUNT_kernels), 7);
    CHECK_EQ(stats_sum(COUNT_copied_bytes), 1ull << 40);
    CHECK_EQ(stats_sum(COUNT_waits), 0);
    CHECK_EQ(ulms_counter("kernels"), 7);
    CHECK_EQ(ulms_counter("kernel"), UINT64_MAX);
}

TEST(the_file_describes_itself) {
    const char *path = fresh_path();
    struct stat st;
    CHECK(stats_open(path));
    stats_add(COUNT_operations, 64);
    stats_add(COUNT_launches, 5);
    stats_memory(1, 100, 200, 300);
    stats_memory(1, 50, 150, 300);
    stats_memory(-1, 1, 1, 1);
    stats_memory(DEVICE_MAX, 1, 1, 1);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    int fd = open(path, O_RDONLY);
    const char *seen = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    const struct ulms_stats *s = (const void *)seen;
    CHECK_EQ(memcmp(&s->magic, "ulmsstat", 8), 0);
    CHECK_EQ(s->version, ULMS_STATS_VERSION);
    CHECK_EQ(s->pid, getpid());
    CHECK_EQ(s->process_start, process_start());
    CHECK_EQ(s->file_bytes, st.st_size);
    CHECK_EQ(s->counters, COUNTERS);
    CHECK(s->heartbeat_ns > 0);
    CHECK(strncmp(s->program, "test_stats", 10) == 0);
    uint64_t launches = 0;
    const struct ulms_counter_row *row = (const void *)(seen + s->rows_at + COUNT_launches * s->row_bytes);
    for (uint32_t i = 0; i < s->slots; i++)
        launches += ((const struct ulms_slot *)(seen + s->slots_at + i * s->slot_bytes))->counts[COUNT_launches];
    const struct ulms_memory *m = (const void *)(seen + s->memory_at + s->memory_bytes);
    CHECK_STR(row->name, "launches");
    CHECK_STR(row->help, "kernel launch calls");
    CHECK_EQ(launches, 5);
    CHECK_EQ(m->used, 50);
    CHECK_EQ(m->peak, 200);
    CHECK_EQ(m->capacity, 300);
    stats_close();
    CHECK(access(path, F_OK) < 0);
    CHECK_EQ(stats_sum(COUNT_launches), 5);
}

static uint64_t launches_in(const char *path) {
    static struct ulms_stats found;
    int fd = open(path, O_RDONLY);
    uint64_t sum = 0;
    CHECK_EQ(read(fd, &found, sizeof found), sizeof found);
    close(fd);
    CHECK_EQ(found.process_start, process_start());
    for (int i = 0; i < ULMS_SLOTS; i++)
        sum += found.slot[i].counts[COUNT_launches];
    return sum;
}

TEST(counters_are_in_no_file_while_they_are_hidden) {
    const char *path = fresh_path();
    CHECK(stats_open(path));
    stats_add(COUNT_launches, 1);
    const struct ulms_stats *before = ulms_stats();
    for (uint64_t n = 2; n < 5; n++) {
        stats_hide();
        stats_hide();
        CHECK(access(path, F_OK) < 0);
        stats_add(COUNT_launches, 1);
        stats_show();
        stats_show();
        CHECK_EQ(launches_in(path), n);
    }
    stats_add(COUNT_launches, 1);
    CHECK_EQ(launches_in(path), 5);
    CHECK(ulms_stats() == before);
    stats_close();
    CHECK(access(path, F_OK) < 0);
}

TEST(a_restarted_process_has_its_counters_in_a_file_of_its_own) {
    char path[2][64];
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], STATS_FOLDER "/" STATS_PREFIX "%d-%llu", (int)getpid(),
                 i ? (unsigned long long)process_start() : 7ull);
    CHECK(stats_open(path[0]));
    stats_add(COUNT_launches, 3);
    ((struct ulms_stats *)ulms_stats())->process_start = 7; /* as before it was restarted */
    stats_hide();
    stats_show();
    CHECK(access(path[0], F_OK) < 0);
    CHECK_EQ(launches_in(path[1]), 3);
    stats_close();
    CHECK(access(path[1], F_OK) < 0);
}

TEST(what_is_in_no_file_is_not_hidden) {
    CHECK(stats_open(""));
    stats_add(COUNT_launches, 3);
    stats_hide();
    stats_show();
    CHECK_EQ(stats_sum(COUNT_launches), 3);
}

TEST(texts_fit_their_rows) {
    CHECK(stats_open(""));
    for (int c = 0; c < COUNTERS; c++) {
        const struct ulms_counter_row *row = &ulms_stats()->row[c];
        CHECK(row->name[0] && row->help[0]);
        CHECK_EQ(row->name[sizeof row->name - 1] | row->unit[sizeof row->unit - 1] | row->help[sizeof row->help - 1],
                 0);
    }
}

TEST(an_existing_file_is_left_alone) {
    const char *path = fresh_path();
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    CHECK_EQ(write(fd, "mine", 4), 4);
    capture_start();
    CHECK(!stats_open(path));
    const char *said = capture_end();
    CHECK(strstr(said, path) && strstr(said, "exists already"));
    CHECK_EQ(lseek(fd, 0, SEEK_END), 4);
    stats_add(COUNT_kernels, 1);
    CHECK_EQ(stats_sum(COUNT_kernels), 1);
    stats_close();
    CHECK_EQ(unlink(path), 0);
}

TEST(a_link_is_not_followed) {
    const char *path = fresh_path();
    char target[80];
    snprintf(target, sizeof target, "%s.target", path);
    CHECK_EQ(symlink(target, path), 0);
    capture_start();
    CHECK(!stats_open(path));
    capture_end();
    CHECK(access(target, F_OK) < 0);
    unlink(path);
}

TEST(an_unwritable_place_is_one_line) {
    capture_start();
    CHECK(!stats_open("/nonexistent/stats"));
    CHECK_STR(capture_end(), "[ulms] ERROR: no counters in /nonexistent/stats: No such file or directory\n");
    stats_add(COUNT_kernels, 2);
    CHECK_EQ(ulms_counter("kernels"), 2);
    CHECK_EQ(ulms_stats()->pid, getpid());
}

TEST(no_room_is_one_line_and_no_signal) {
    const char *path = fresh_path();
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100});
    capture_start();
    CHECK(!stats_open(path));
    CHECK(strstr(capture_end(), "File too large\n"));
    CHECK(access(path, F_OK) < 0);
    stats_add(COUNT_kernels, 2);
    CHECK_EQ(stats_sum(COUNT_kernels), 2);
}

TEST(a_file_put_in_place_of_ours_is_not_removed) {
    const char *path = fresh_path();
    CHECK(stats_open(path));
    unlink(path);
    close(open(path, O_WRONLY | O_CREAT, 0644));
    stats_close();
    CHECK_EQ(unlink(path), 0);
}

TEST(after_a_fork_the_child_counts_for_itself) {
    const char *path = fresh_path();
    CHECK(stats_open(path));
    stats_add(COUNT_kernels, 5);
    pid_t child = fork();
    if (child == 0) {
        stats_fork_child();
        if (stats_sum(COUNT_kernels) != 0 || ulms_stats()->pid != (uint32_t)getpid())
            _exit(1);
        stats_add(COUNT_kernels, 100);
        stats_close();
        _exit(stats_sum(COUNT_kernels) == 100 ? 0 : 2);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(stats_sum(COUNT_kernels), 5);
    CHECK_EQ(access(path, F_OK), 0);
    stats_close();
    CHECK(access(path, F_OK) < 0);
}

static void expect_status_0(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

TEST(a_childs_child_counts_for_itself) {
    pid_t child = fork();
    if (child == 0) {
        stats_fork_child();
        stats_add(COUNT_kernels, 100);
        CHECK_EQ(ulms_stats()->pid, (uint32_t)getpid());
        pid_t its = fork();
        if (its == 0) {
            stats_fork_child();
            _exit(stats_sum(COUNT_kernels) != 0 || ulms_stats()->pid != (uint32_t)getpid());
        }
        expect_status_0(its);
        _exit(0);
    }
    expect_status_0(child);
}

static long faults(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

enum { TRIES = 5 };

static bool writes_few_pages(void) {
    pid_t child = fork();
    if (child == 0) {
        long before = faults();
        stats_fork_child();
        _exit(faults() - before >= (long)sizeof(struct ulms_stats) / 4096 / 2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

/* Each page that it writes is copied. A sanitizer's pages fault beside them, now and then. */
TEST(a_child_that_asks_for_no_counter_writes_few_pages) {
    CHECK(stats_open(""));
    bool few = false;
    for (int i = 0; i < TRIES && !few; i++)
        few = writes_few_pages();
    CHECK(few);
}

enum { THREADS = 100, ADDS = 20000 };
static pthread_barrier_t all_here;

static void *add_many(void *unused) {
    stats_add(COUNT_kernels, 1); /* the slot is taken */
    pthread_barrier_wait(&all_here);
    for (int i = 1; i < ADDS; i++)
        stats_add(COUNT_kernels, 1);
    return unused;
}

/* More threads at a time than there are slots, then again: none of the counts of ended threads is lost. */
TEST(threads_beyond_the_slots_lose_nothing) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, add_many, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQ(stats_sum(COUNT_kernels), (uint64_t)round * THREADS * ADDS);
    }
}

static void *add_one(void *unused) {
    stats_add(COUNT_kernels, 1);
    return unused;
}

/* Slots come back: after thousands of short threads one still gets a slot of its own, not the shared one (0). */
TEST(slots_are_given_back) {
    pthread_t thread;
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, add_one, NULL), 0);
        pthread_join(thread, NULL);
    }
    CHECK_EQ(stats_sum(COUNT_kernels), 2000);
    CHECK_EQ(ulms_stats()->slot[0].counts[COUNT_kernels], 0);
}

TEST(the_file_is_its_owners_whatever_the_umask) {
    const char *path = fresh_path();
    struct stat st;
    umask(0777);
    CHECK(stats_open(path));
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    stats_close();
}

TEST(a_pipe_in_place_of_the_file_is_not_waited_for) {
    const char *path = fresh_path();
    CHECK_EQ(mkfifo(path, 0600), 0);
    capture_start();
    CHECK(!stats_open(path));
    CHECK(strstr(capture_end(), "exists already"));
    unlink(path);
}

/* --- what others left behind --- */

static char folder[64];

/* A file of counters in the folder, as a process with these facts would have made it. */
static void leave(const char *name, uint32_t pid, uint64_t start, uint64_t namespace) {
    char path[128];
    struct ulms_stats s = *ulms_stats();
    s.pid = pid;
    s.process_start = start;
    s.pid_namespace = namespace;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK_EQ(write(fd, &s, sizeof s), (ssize_t)sizeof s);
    close(fd);
}

static bool is_there(const char *name) {
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &st) == 0;
}

static void remove_all(void) {
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
}

TEST(a_process_is_known_by_its_number_and_its_start) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    uint64_t start = process_start();
    for (uint64_t near = start - 1; near <= start + 1; near++) /* as other time namespaces tell it */
        CHECK(process_runs((uint32_t)getpid(), near));
    CHECK(!process_runs((uint32_t)getpid(), start - 2) && !process_runs((uint32_t)getpid(), start + 2));
    kill(child, SIGKILL);
    siginfo_t info;
    CHECK_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); /* a zombie now */
    for (uint64_t near = start; near < start + 1000; near++)
        CHECK(!process_runs((uint32_t)child, near));
    waitpid(child, NULL, 0);
}

TEST(what_dead_processes_left_is_removed_and_nothing_else) {
    char text[128];
    strcpy(folder, "/tmp/ulms-test-left-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    CHECK(stats_open("")); /* describes this process */
    uint64_t here = process_namespace(), start = process_start();
    CHECK(here != 0);
    pid_t child = fork();
    if (child == 0) { /* which is another process than the one of the files */
        uint32_t parent = (uint32_t)getppid(), dead = 0x7ffffffe;
        leave("ulms-dead", dead, 5, here);
        leave("ulms-number-again", parent, start - 2, here);
        leave("ulms-lives", parent, start, here);
        leave("ulms-elsewhere", dead, 5, here + 1);
        leave("ulms-not-said", dead, 5, 0);
        leave("ulms-program-before", (uint32_t)getpid(), process_start(), here);
        leave("other-dead", dead, 5, here);
        leave("ulms-anothers", dead, 5, here);
        snprintf(text, sizeof text, "%s/ulms-anothers", folder);
        bool root = chown(text, 65534, 65534) == 0;
        snprintf(text, sizeof text, "%s/ulms-pipe", folder);
        CHECK_EQ(mkfifo(text, 0600), 0);
        snprintf(text, sizeof text, "%s/ulms-link", folder);
        CHECK_EQ(symlink("other-dead", text), 0);
        leftovers_remove(folder);
        CHECK(!is_there("ulms-dead"));
        CHECK(!is_there("ulms-number-again"));
        CHECK(!is_there("ulms-program-before"));
        CHECK(is_there("ulms-lives"));
        CHECK(is_there("ulms-elsewhere"));
        CHECK(is_there("ulms-not-said"));
        CHECK(is_there("other-dead"));
        CHECK(!root || is_there("ulms-anothers"));
        CHECK(is_there("ulms-pipe"));
        CHECK(is_there("ulms-link"));
        leftovers_remove("/nonexistent");
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    remove_all();
}
