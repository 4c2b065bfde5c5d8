#define _GNU_SOURCE
#include "base/options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/likeness.h"
#include "base/log.h"
#include "base/page.h"
#include "base/process.h"
#include "share/size.h"
#include "ulms.h"

#define PREFIX "ULMS_"
enum { CAPACITY_SMALL = 1 << 20, ALIKE_PERCENT = 50, PREFIX_LENGTH = sizeof PREFIX - 1, NAME_ROOM = 40 };

struct options ulms_options = {.mode = MODE_OFF, .level = LOG_WARN};
static bool was_read;

/* Parsers: false, and nothing set, when the text is not accepted. */

/* *out: its number among the words, which end with NULL. */
static bool choose(const char *text, const char *const *words, unsigned *out) {
    for (unsigned i = 0; words[i]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse_level(const char *text, struct options *o) {
    static const char *const words[] = {"ERROR", "WARN", "INFO", "DEBUG", NULL};
    return choose(text, words, &o->level);
}

static bool parse_backend(const char *text, struct options *o) {
    static const char *const words[] = {"off", "observe", "um", "vmm", NULL};
    return choose(strcasecmp(text, "auto") == 0 ? "um" : text, words, &o->mode);
}

static bool parse_hooks(const char *text, struct options *o) {
    static const char *const words[] = {"all", "no-library", "driver", NULL};
    return choose(text, words, &o->hooks);
}

static bool parse_hidden(const char *text, struct options *o) {
    static const char *const words[] = {"followed", "any", "known", NULL};
    return choose(text, words, &o->hidden);
}

static bool parse_verify(const char *text, struct options *o) {
    static const char *const words[] = {"0", "1", "abort", NULL};
    return choose(text, words, &o->verify);
}

static bool parse_capacity(const char *text, struct options *o) {
    return size_parse(text, &o->capacity);
}

static bool parse_managed_limit(const char *text, struct options *o) {
    return size_parse(text, &o->managed_limit);
}

static bool parse_file_limit(const char *text, struct options *o) {
    return size_parse(text, &o->file_limit);
}

static bool parse_page(const char *text, struct options *o) {
    uint64_t bytes;
    bool good = size_parse(text, &bytes) && (bytes & (bytes - 1)) == 0 && bytes >= PAGE_LEAST && bytes <= PAGE_MOST;
    if (good)
        o->page = bytes;
    return good;
}

static bool parse_factor(const char *text, struct options *o) {
    size_t length = strlen(text);
    if (length < 1 || length > 3 || strspn(text, "0123456789") != length || atoi(text) > 100)
        return false;
    o->factor = atoi(text);
    return true;
}

static bool parse_policy(const char *text, struct options *o) {
    static const char *const words[] = {"ahead", "pump", "none", NULL}; /* the engine's, which base does not know */
    unsigned i;
    bool good = choose(text, words, &i);
    if (good)
        snprintf(o->policy, sizeof o->policy, "%s", words[i]);
    return good;
}

const char *ulms_share_accepts(const char *text) {
    struct share_option s;
    return settings_read(text, s.name, &s.settings);
}

static bool parse_share(const char *text, struct options *o) {
    struct share_option s;
    bool good = settings_read(text, s.name, &s.settings) == NULL;
    if (good)
        o->share = s;
    return good;
}

/* Copies a path with every %p replaced by the number of this process. */
static bool expand(const char *text, char *out) {
    size_t n = 0;
    while (*text && n < OPTION_PATH_MAX) {
        if (strncmp(text, "%p", 2) == 0) {
            n += (size_t)snprintf(out + n, OPTION_PATH_MAX - n, "%d", (int)getpid());
            text += 2;
        } else {
            out[n++] = *text++;
        }
    }
    if (n >= OPTION_PATH_MAX) {
        out[0] = 0;
        return false;
    }
    out[n] = 0;
    return true;
}

static bool parse_trace(const char *text, struct options *o) {
    return expand(text, o->trace);
}

static bool parse_share_folder(const char *text, struct options *o) {
    return expand(text, o->share_folder);
}

static bool parse_file_folder(const char *text, struct options *o) {
    return expand(text, o->file_folder);
}

static bool parse_suspend_signal(const char *text, struct options *o) {
    static const char *const words[] = {"USR1", "USR2", "TSTP", NULL};
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTSTP};
    unsigned i;
    bool good = choose(text, words, &i);
    if (good)
        o->suspend_signal = signals[i];
    return good;
}

static bool parse_plain(const char *text, struct options *o) {
    bool whole = (size_t)snprintf(o->plain, OPTION_PATH_MAX, "%s", text) < OPTION_PATH_MAX;
    if (!whole)
        o->plain[0] = 0;
    return whole;
}

/* A bare word is more likely a wish for `on` than the name of a file. */
static bool parse_stats(const char *text, struct options *o) {
    if (strcasecmp(text, "on") != 0)
        return strchr(text, '/') && expand(text, o->stats);
    snprintf(o->stats, sizeof o->stats, "/dev/shm/ulms-%d-%llu", (int)getpid(), (unsigned long long)process_start());
    return true;
}

static const struct {
    struct ulms_option say;
    bool (*parse)(const char *text, struct options *o);
} rows[] = {
    /* first: it decides what is said of the others */
    {{"ULMS_LOG_LEVEL", "", "WARN", "ERROR, WARN, INFO or DEBUG", "how much is said on stderr"}, parse_level},
    {{"ULMS_BACKEND", "", "auto", "auto, um, vmm, observe or off",
      "um makes device memory managed; vmm maps it anew where it moves; observe watches and replaces nothing; "
      "off stays out of the way; auto chooses: um"},
     parse_backend},
    {{"ULMS_GPU_MEMORY", "WRAPPER_MAX_MEMORY CUDA_DEVICE_MEMORY_LIMIT GPU_MEMORY_LIMIT", "",
      "a size above 0, such as 8GiB, 512MiB, 1.5G or 1073741824",
      "device memory that the program may see and use, on each device (CUDA_DEVICE_MEMORY_LIMIT_0: on device 0, and so "
      "on); not set: all there is"},
     parse_capacity},
    {{"ULMS_GPU_MEMORY_FACTOR", "", "90", "a whole number from 0 to 100",
      "per cent of that memory which the program's data may occupy at a time; without effect in observe"},
     parse_factor},
    {{"ULMS_HOOKS", "", "all", "all, no-library or driver",
      "what is believed about extents; no-library: not cuBLAS, cuDNN and NCCL; driver: nor the framework's allocator"},
     parse_hooks},
    {{"ULMS_POLICY", "", "ahead", "ahead, pump or none",
      "what decides which pages move when; ahead learns what comes next, the others are there to compare with, in "
      "um only"},
     parse_policy},
    {{"ULMS_HIDDEN", "", "followed", "followed, any or known",
      "addresses that no argument shows, in vmm; followed: those that copies bring to the device, and once a kernel "
      "runs that may use others by its machine code, what is away is mapped for it (slower); known: as followed, and "
      "there are no others; any: a kernel may use any, so that pages move only while none runs"},
     parse_hidden},
    {{"ULMS_VERIFY", "", "0", "0, 1 or abort",
      "looks, in vmm, whether pages were written by an operation that did not show it, and tells (slow); abort: ends "
      "the program then"},
     parse_verify},
    {{"ULMS_MANAGED_LIMIT", "", "", "a size above 0, such as 8GiB, 512MiB, 1.5G or 1073741824",
      "memory that may move (in um it is managed) which the program may hold: beyond it is out of memory; in vmm also "
      "the most host memory that is pinned; not set: three quarters of the host memory that is available at the start, "
      "and what is beyond that stays plain"},
     parse_managed_limit},
    {{"ULMS_PAGE", "", "8MiB", "2MiB, 4MiB, 8MiB and so on to 64MiB",
      "what memory moves in, in vmm: larger pages are mapped anew in less time, but more memory that is not needed "
      "comes along"},
     parse_page},
    {{"ULMS_SHARE", "", "", "NAME[,request=0.3][,limit=0.6][,hard][,memory=8GiB][,priority=1][,pin][,idle=30s]",
      "shares the GPU with other programs as one of the group of that name; request and limit are parts of GPU time, "
      "memory is what the group may hold; pin: host memory for all of it is pinned ahead, so that a suspend is fast; "
      "idle: after so long without work it is suspended until the next; "
      "CUDA_DEVICE_SM_LIMIT is a limit in per cent; `pump run --share` starts the broker"},
     parse_share},
    {{"ULMS_SHARE_DIR", "", "", "the path of a folder",
      "where the programs that share a GPU meet; not set: XDG_RUNTIME_DIR/ulms, else /tmp/ulms-UID"},
     parse_share_folder},
    {{"ULMS_SUSPEND_SIGNAL", "", "", "USR1, USR2 or TSTP",
      "this signal suspends a program that shares the GPU, and CONT resumes it, unless the program handles it"},
     parse_suspend_signal},
    {{"ULMS_FILE_DIR", "", "", "the path of a folder",
      "host memory of a suspended program may go to files in this folder (`pump suspend --to`), in vmm; not set: "
      "never"},
     parse_file_folder},
    {{"ULMS_FILE_LIMIT", "", "", "a size above 0, such as 8GiB, 512MiB, 1.5G or 1073741824",
      "so much more than ULMS_MANAGED_LIMIT the program may hold, in a file in ULMS_FILE_DIR, reserved at the start; "
      "in vmm, for trusted kernels"},
     parse_file_limit},
    {{"ULMS_PLAIN", "", "", "how names of library files begin, separated by commas",
      "memory that these libraries allocate stays plain in um and vmm, as that of NCCL, NVSHMEM and UCX does: other "
      "processes and devices may need it so"},
     parse_plain},
    {{"ULMS_TRACE", "", "", "the path of a file; %p in it stands for the process id",
      "records every operation and what it touches into this file, for `pump trace`"},
     parse_trace},
    {{"ULMS_STATS", "", "", "on, or a path with a slash in it; %p in it stands for the process id",
      "shows live counters to `pump top`; on: in shared memory"},
     parse_stats},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

size_t ulms_option_count(void) {
    return ROWS;
}

const struct ulms_option *ulms_option(size_t i) {
    return i < ROWS ? &rows[i].say : NULL;
}

/* An empty value is as good as none: that is how scripts clear a variable. */
static const char *value_of(const char *name) {
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

static void say_bad(const struct ulms_option *say, const char *name, const char *text) {
    log_line(LOG_ERROR, NULL, "%s=%.200s is not accepted (%s): %s%s", name, text, say->accepts,
             *say->fallback ? say->fallback : "taken as not set", *say->fallback ? " is used" : "");
}

static bool known(const char *name, size_t length) {
    for (int i = 0; i < ROWS; i++)
        if (strlen(rows[i].say.name) == length && memcmp(rows[i].say.name, name, length) == 0)
            return true;
    return false;
}

/* NULL: it is not set. *name: under which of its names it is; the others are ignored. */
static const char *value_under(const struct ulms_option *say, char name[NAME_ROOM], bool tell) {
    char names[4 * NAME_ROOM], *next = names;
    const char *value = NULL;
    snprintf(names, sizeof names, "%s %s", say->name, say->aliases);
    for (const char *each; (each = strsep(&next, " "));) {
        const char *text = value_of(each);
        if (text && value && tell)
            log_warn("%s is ignored: %s is set", each, name);
        if (!text || value)
            continue;
        value = text;
        snprintf(name, NAME_ROOM, "%s", each);
    }
    return value;
}

static void say_bad_of_others(const char *name, const char *text, const char *accepts) {
    log_line(LOG_ERROR, NULL, "%s=%.200s is not accepted (%s): taken as not set", name, text, accepts);
}

/* HAMi's, of one device; ours is for all. */
static void read_device_limits(struct options *o, bool tell) {
    for (int d = 0; d < DEVICE_MAX; d++) {
        char name[NAME_ROOM];
        snprintf(name, sizeof name, "CUDA_DEVICE_MEMORY_LIMIT_%d", d);
        const char *text = value_of("ULMS_GPU_MEMORY") ? NULL : value_of(name);
        if (text && !size_parse(text, &o->device_capacity[d]) && tell)
            say_bad_of_others(name, text, "a size above 0, such as 8GiB");
    }
}

/* HAMi's, in per cent; 0 and 100 are none. */
static void read_time_limit(struct share_option *s, bool tell) {
    static const char name[] = "CUDA_DEVICE_SM_LIMIT";
    const char *text = value_of(name);
    char *end;
    long percent = text ? strtol(text, &end, 10) : 0;
    if (text && (end == text || *end || percent < 0 || percent > 100)) {
        if (tell)
            say_bad_of_others(name, text, "a whole number from 0 to 100");
    } else if (percent % 100 && !s->name[0]) {
        if (tell)
            log_warn("%s=%s has no effect: a limit of GPU time needs ULMS_SHARE (pump run --share)", name, text);
    } else if (percent % 100 && !(s->settings.said & SETTING_LIMIT)) {
        s->settings.to.limit = (uint32_t)percent * 10;
        s->settings.said |= SETTING_LIMIT;
    }
}

/* By what is behind the prefix, which all have. NULL: none is like it. */
static const char *nearest(const char *name, size_t length) {
    const char *best = NULL;
    int most = ALIKE_PERCENT - 1;
    for (int i = 0; i < ROWS; i++) {
        int alike = likeness(name + PREFIX_LENGTH, length - PREFIX_LENGTH, rows[i].say.name + PREFIX_LENGTH);
        if (alike > most) {
            best = rows[i].say.name;
            most = alike;
        }
    }
    return best;
}

/* What looks like an option of ours and is none would be without effect, and nobody knew. */
static void tell_unknown(void) {
    for (char **each = environ; each && *each; each++) {
        size_t length = strcspn(*each, "=");
        bool given = (*each)[length] && (*each)[length + 1];
        if (!given || strncmp(*each, PREFIX, PREFIX_LENGTH) != 0 || known(*each, length))
            continue;
        const char *close = nearest(*each, length);
        int shown = length < 200 ? (int)length : 200;
        if (close)
            log_warn("%.*s is not an option: did you mean %s?", shown, *each, close);
        else
            log_warn("%.*s is not an option: `pump options` lists them all", shown, *each);
    }
}

static void tell_small(const char *text, uint64_t capacity) {
    bool has_unit = !text || text[strspn(text, "0123456789")];
    if (!has_unit && capacity && capacity < CAPACITY_SMALL)
        log_warn("the program may use %llu bytes of device memory: without a unit, as in 8GiB, a size is in bytes",
                 (unsigned long long)capacity);
}

static void read_all(struct options *o, bool tell) {
    *o = (struct options){.level = LOG_WARN};
    const char *capacity = NULL;
    for (int i = 0; i < ROWS; i++) {
        const struct ulms_option *say = &rows[i].say;
        char name[NAME_ROOM];
        const char *text = value_under(say, name, tell);
        if (*say->fallback)
            rows[i].parse(say->fallback, o);
        if (text && !rows[i].parse(text, o) && tell)
            say_bad(say, name, text);
        if (rows[i].parse == parse_capacity)
            capacity = text;
    }
    read_device_limits(o, tell);
    read_time_limit(&o->share, tell && o->mode != MODE_OFF);
    o->lease_factor = value_of("ULMS_GPU_MEMORY_FACTOR") ? o->factor : 100;
    if (!tell || o->mode == MODE_OFF)
        return;
    tell_small(capacity, o->capacity);
    tell_unknown();
}

void options_read(void) {
    read_all(&ulms_options, true);
    was_read = true;
}

/* Trap: the options are too large for a small stack. */
uint64_t options_capacity_early(void) {
    struct options *now = was_read ? NULL : malloc(sizeof *now);
    if (now)
        read_all(now, false);
    const struct options *o = now ? now : &ulms_options;
    uint64_t capacity = o->mode == MODE_OFF     ? 0
                        : o->device_capacity[0] ? o->device_capacity[0]
                                                : o->capacity,
             group = o->share.settings.to.memory;
    if (group && (o->mode == MODE_UM || o->mode == MODE_VMM) && (!capacity || group < capacity))
        capacity = group;
    free(now);
    return capacity;
}
