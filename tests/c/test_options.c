#define _GNU_SOURCE
#include "test.h"

#include <locale.h>

#include "base/capacity.h"
#include "base/options.h"
#include "capture.h"
#include "ulms.h"

static void clear(void) {
    for (size_t i = 0; i < ulms_option_count(); i++) {
        unsetenv(ulms_option(i)->name);
        char names[128], *next = names;
        snprintf(names, sizeof names, "%s", ulms_option(i)->aliases);
        for (const char *each; (each = strsep(&next, " "));)
            if (*each)
                unsetenv(each);
    }
    unsetenv("CUDA_DEVICE_MEMORY_LIMIT_1");
    unsetenv("CUDA_DEVICE_SM_LIMIT");
}

/* Reads with one variable set; returns what was said. */
static const char *read_with(const char *name, const char *value) {
    clear();
    setenv(name, value, 1);
    capture_start();
    options_read();
    return capture_end();
}

/* Every field, so that a bad value that changed another one shows, too. */
static void check_defaults(void) {
    CHECK_EQ(ulms_options.mode, MODE_UM);
    CHECK_EQ(ulms_options.level, LOG_WARN);
    CHECK_EQ(ulms_options.capacity, 0);
    CHECK_STR(ulms_options.policy, "ahead");
    CHECK_EQ(ulms_options.factor, 90);
    CHECK_EQ(ulms_options.hooks, HOOKS_ALL);
    CHECK_EQ(ulms_options.hidden, HIDDEN_FOLLOWED);
    CHECK_EQ(ulms_options.verify, VERIFY_OFF);
    CHECK_EQ(ulms_options.page, 8 << 20);
    CHECK_EQ(ulms_options.managed_limit, 0);
    CHECK_STR(ulms_options.file_folder, "");
    CHECK_EQ(ulms_options.file_limit, 0);
    CHECK_STR(ulms_options.plain, "");
    CHECK_STR(ulms_options.trace, "");
    CHECK_STR(ulms_options.stats, "");
}

static int lines(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

TEST(nothing_set) {
    clear();
    capture_start();
    options_read();
    CHECK_STR(capture_end(), "");
    check_defaults();
}

TEST(what_is_no_option_is_told_once) {
    static const struct {
        const char *name, *said;
    } cases[] = {
        {"ULMS_LOGLEVEL", "[ulms] WARN: ULMS_LOGLEVEL is not an option: did you mean ULMS_LOG_LEVEL?\n"},
        {"ULMS_FACTOR", "[ulms] WARN: ULMS_FACTOR is not an option: did you mean ULMS_GPU_MEMORY_FACTOR?\n"},
        {"ULMS_GPU_MEMORY_FRACTION_OF_ALL_THAT_THERE_IS_AND_MORE_THAN_ANY_NAME",
         "[ulms] WARN: ULMS_GPU_MEMORY_FRACTION_OF_ALL_THAT_THERE_IS_AND_MORE_THAN_ANY_NAME is not an option: `pump "
         "options` lists them all\n"},
        {"ULMS_QQQQQQQQQQQQQQ", "[ulms] WARN: ULMS_QQQQQQQQQQQQQQ is not an option: `pump options` lists them all\n"},
        {"ULMS_X", "[ulms] WARN: ULMS_X is not an option: `pump options` lists them all\n"},
        {"NOT_ULMS_PAGE", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_STR(read_with(cases[i].name, "1"), cases[i].said);
        check_defaults();
        CHECK_STR(read_with(cases[i].name, ""), ""); /* cleared */
        unsetenv(cases[i].name);
    }
}

TEST(a_size_that_lacks_its_unit_is_told) {
    CHECK(strstr(read_with("ULMS_GPU_MEMORY", "8"), "WARN: the program may use 8 bytes of device memory"));
    CHECK_EQ(ulms_options.capacity, 8);
    CHECK_STR(read_with("ULMS_GPU_MEMORY", "8KiB"), "");
    clear();
}

TEST(good_sizes) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"1", 1},
                 {"1073741824", 1ull << 30},
                 {"8GiB", 8ull << 30},
                 {"8G", 8ull << 30},
                 {"8GB", 8ull << 30},
                 {"8 GiB", 8ull << 30},
                 {"8gib", 8ull << 30},
                 {"512MiB", 512ull << 20},
                 {"3k", 3072},
                 {"1.5GiB", 3ull << 29},
                 {"0.25T", 1ull << 38},
                 {"1.9999999999999999K", 2047},
                 {"18446744073709551615", UINT64_MAX},
                 {"000000000000000000000007", 7},
                 {"100b", 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool bare = !sizes[i].text[strspn(sizes[i].text, "0123456789")], told = bare && sizes[i].bytes < 1 << 20;
        CHECK_EQ(lines(read_with("ULMS_GPU_MEMORY", sizes[i].text)), told);
        CHECK_EQ(ulms_options.capacity, sizes[i].bytes);
        CHECK_EQ(lines(read_with("WRAPPER_MAX_MEMORY", sizes[i].text)), told);
        CHECK_EQ(lines(read_with("CUDA_DEVICE_MEMORY_LIMIT", sizes[i].text)), told);
        CHECK_EQ(ulms_options.capacity, sizes[i].bytes);
        CHECK_STR(read_with("ULMS_MANAGED_LIMIT", sizes[i].text), "");
        CHECK_EQ(ulms_options.managed_limit, sizes[i].bytes);
    }
}

/* One byte more than any path or list may have. */
static char too_long[OPTION_PATH_MAX + 1];

TEST(bad_values) {
    memset(too_long, 'x', OPTION_PATH_MAX);
    static const struct {
        const char *name, *value;
    } bad[] = {{"ULMS_HIDDEN", "no"},
               {"ULMS_VERIFY", "2"},
               {"ULMS_GPU_MEMORY", "0"},
               {"ULMS_GPU_MEMORY", "0.0001"},
               {"ULMS_GPU_MEMORY", "-1"},
               {"ULMS_GPU_MEMORY", "+1"},
               {"ULMS_GPU_MEMORY", "1."},
               {"ULMS_GPU_MEMORY", ".5G"},
               {"ULMS_GPU_MEMORY", "1.5.5G"},
               {"ULMS_GPU_MEMORY", "1,5G"},
               {"ULMS_GPU_MEMORY", "8  GiB"},
               {"ULMS_GPU_MEMORY", "8GiBs"},
               {"ULMS_GPU_MEMORY", "8iB"},
               {"ULMS_GPU_MEMORY", "8E"},
               {"ULMS_GPU_MEMORY", "8@"},
               {"ULMS_GPU_MEMORY", "1e9"},
               {"ULMS_GPU_MEMORY", "0x100"},
               {"ULMS_GPU_MEMORY", "GiB"},
               {"ULMS_GPU_MEMORY", "nan"},
               {"ULMS_GPU_MEMORY", "18446744073709551616"},
               {"ULMS_GPU_MEMORY", "99999999999999999999999999999999999999999999999999"},
               {"ULMS_GPU_MEMORY", "20000000T"},
               {"ULMS_GPU_MEMORY", "340282366920938463463374607431768211461"}, /* 2^128 + 5 */
               {"ULMS_GPU_MEMORY", "0.000000000000000000000000000000000000000000000000000000000000000005T"},
               {"WRAPPER_MAX_MEMORY", "lots"},
               {"ULMS_MANAGED_LIMIT", "0"},
               {"ULMS_MANAGED_LIMIT", "most"},
               {"ULMS_PAGE", "1MiB"},
               {"ULMS_PAGE", "3MiB"},
               {"ULMS_PAGE", "128MiB"},
               {"ULMS_GPU_MEMORY_FACTOR", "101"},
               {"ULMS_GPU_MEMORY_FACTOR", "-1"},
               {"ULMS_GPU_MEMORY_FACTOR", "70%"},
               {"ULMS_GPU_MEMORY_FACTOR", "4294967297"},
               {"ULMS_GPU_MEMORY_FACTOR", "0.7"},
               {"ULMS_LOG_LEVEL", "LOUD"},
               {"ULMS_LOG_LEVEL", "1"},
               {"ULMS_BACKEND", "vm"},
               {"ULMS_BACKEND", "observe "},
               {"ULMS_HOOKS", "none"},
               {"ULMS_HOOKS", "no_library"},
               {"ULMS_HOOKS", "all,driver"},
               {"ULMS_POLICY", "fifo"},
               {"ULMS_POLICY", "pump,none"},
               {"ULMS_STATS", "1"},
               {"ULMS_STATS", "off"},
               {"ULMS_SHARE", "n,limit=1.5"},
               {"ULMS_SHARE", "n,request=0"},
               {"ULMS_SHARE", "n,limit=1e-3"},
               {"ULMS_SHARE", ",hard"},
               {"ULMS_SHARE", "n,"},
               {"ULMS_SHARE", "n,memory"},
               {"ULMS_SHARE", "n,priority=high"},
               {"ULMS_SHARE", "n,idle=30"},
               {"ULMS_SHARE", "n,idle=-1s"},
               {"ULMS_SHARE", "n,idle=9999999h"},
               {"ULMS_SHARE", "n,priority=99999999999"},
               {"ULMS_SHARE", "n,colour=red"},
               {"ULMS_SHARE", "a_name_of_64_letters_a_name_of_64_letters_a_name_of_64_letters_a"},
               {"ULMS_SHARE_DIR", too_long},
               {"ULMS_SUSPEND_SIGNAL", "KILL"},
               {"ULMS_FILE_DIR", too_long},
               {"ULMS_FILE_LIMIT", "0"},
               {"ULMS_PLAIN", too_long},
               {"ULMS_TRACE", too_long}};
    bool tried[64] = {false};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *said = read_with(bad[i].name, bad[i].value);
        char begin[512];
        snprintf(begin, sizeof begin, "[ulms] ERROR: %s=%.200s is not accepted (", bad[i].name, bad[i].value);
        CHECK(strncmp(said, begin, strlen(begin)) == 0);
        CHECK_EQ(lines(said), 1);
        check_defaults();
        for (size_t o = 0; o < ulms_option_count(); o++)
            tried[o] |= strcmp(ulms_option(o)->name, bad[i].name) == 0;
    }
    for (size_t o = 0; o < ulms_option_count(); o++)
        CHECK(tried[o]); /* a new option brings its bad values */
}

TEST(bad_value_names_what_is_accepted) {
    CHECK_STR(read_with("ULMS_GPU_MEMORY_FACTOR", "110"), "[ulms] ERROR: ULMS_GPU_MEMORY_FACTOR=110 is not accepted (a "
                                                          "whole number from 0 to 100): 90 is used\n");
    CHECK_STR(read_with("ULMS_MANAGED_LIMIT", "most"),
              "[ulms] ERROR: ULMS_MANAGED_LIMIT=most is not accepted (a size above 0, such as 8GiB, 512MiB, 1.5G or "
              "1073741824): taken as not set\n");
    CHECK_STR(read_with("ULMS_HOOKS", "library"),
              "[ulms] ERROR: ULMS_HOOKS=library is not accepted (all, no-library or driver): all is used\n");
    CHECK_STR(read_with("ULMS_BACKEND", "a\nb\x1b[31m"),
              "[ulms] ERROR: ULMS_BACKEND=a?b?[31m is not accepted (auto, um, vmm, observe or off): auto is used\n");
}

TEST(a_locale_with_decimal_comma_changes_nothing) {
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed */
    CHECK_STR(read_with("ULMS_GPU_MEMORY", "1.5GiB"), "");
    CHECK_EQ(ulms_options.capacity, 3ull << 29);
}

TEST(factor_bounds) {
    CHECK_STR(read_with("ULMS_GPU_MEMORY_FACTOR", "0"), "");
    CHECK_EQ(ulms_options.factor, 0);
    CHECK_STR(read_with("ULMS_GPU_MEMORY_FACTOR", "100"), "");
    CHECK_EQ(ulms_options.factor, 100);
}

TEST(words_in_any_case) {
    CHECK_STR(read_with("ULMS_LOG_LEVEL", "debug"), "");
    CHECK_EQ(ulms_options.level, LOG_DEBUG);
    CHECK_STR(read_with("ULMS_BACKEND", "Um"), "");
    CHECK_EQ(ulms_options.mode, MODE_UM);
    CHECK_STR(read_with("ULMS_BACKEND", "OFF"), "");
    CHECK_EQ(ulms_options.mode, MODE_OFF);
    CHECK_STR(read_with("ULMS_BACKEND", "auto"), "");
    CHECK_EQ(ulms_options.mode, MODE_UM);
    CHECK_STR(read_with("ULMS_HOOKS", "No-Library"), "");
    CHECK_EQ(ulms_options.hooks, HOOKS_NO_LIBRARY);
    CHECK_STR(read_with("ULMS_HOOKS", "driver"), "");
    CHECK_EQ(ulms_options.hooks, HOOKS_DRIVER);
    CHECK_STR(read_with("ULMS_HOOKS", "all"), "");
    CHECK_EQ(ulms_options.hooks, HOOKS_ALL);
}

TEST(policies_are_the_engine_s) {
    char accepted[64] = "";
    for (size_t i = 0; i < ulms_policy_count(); i++) {
        CHECK_STR(read_with("ULMS_POLICY", ulms_policy(i)->name), "");
        CHECK_STR(ulms_options.policy, ulms_policy(i)->name);
        strcat(strcat(accepted, i == 0 ? "" : i + 1 == ulms_policy_count() ? " or " : ", "), ulms_policy(i)->name);
    }
    for (size_t i = 0; i < ulms_option_count(); i++)
        if (strcmp(ulms_option(i)->name, "ULMS_POLICY") == 0) {
            CHECK_STR(ulms_option(i)->accepts, accepted);
            CHECK_STR(ulms_option(i)->fallback, ulms_policy(0)->name);
        }
}

TEST(empty_is_not_set) {
    for (size_t i = 0; i < ulms_option_count(); i++)
        CHECK_STR(read_with(ulms_option(i)->name, ""), "");
    CHECK_EQ(ulms_options.mode, MODE_UM);
}

TEST(own_name_wins_over_the_alias) {
    clear();
    setenv("ULMS_GPU_MEMORY", "2GiB", 1);
    setenv("WRAPPER_MAX_MEMORY", "1000", 1);
    capture_start();
    options_read();
    CHECK_STR(capture_end(), "[ulms] WARN: WRAPPER_MAX_MEMORY is ignored: ULMS_GPU_MEMORY is set\n");
    CHECK_EQ(ulms_options.capacity, 2ull << 30);
    setenv("ULMS_LOG_LEVEL", "ERROR", 1);
    capture_start();
    options_read();
    CHECK_STR(capture_end(), "");
}

TEST(a_limit_of_one_device) {
    clear();
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "2g", 1);
    setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "3072m", 1);
    options_read();
    CHECK_EQ(capacity_of(0), 2ull << 30);
    CHECK_EQ(capacity_of(1), 3ull << 30);
    setenv("ULMS_GPU_MEMORY", "1GiB", 1);
    capture_start();
    options_read();
    CHECK_STR(capture_end(), "[ulms] WARN: CUDA_DEVICE_MEMORY_LIMIT is ignored: ULMS_GPU_MEMORY is set\n");
    CHECK_EQ(capacity_of(1), 1ull << 30);
    CHECK_EQ(lines(read_with("CUDA_DEVICE_MEMORY_LIMIT_1", "much")), 1);
    CHECK_EQ(capacity_of(1), 0);
}

TEST(a_limit_of_time_in_per_cent) {
    CHECK_EQ(lines(read_with("CUDA_DEVICE_SM_LIMIT", "30")), 1); /* without effect */
    CHECK_STR(read_with("CUDA_DEVICE_SM_LIMIT", "100"), "");
    CHECK_STR(read_with("CUDA_DEVICE_SM_LIMIT", "0"), "");
    CHECK_EQ(lines(read_with("CUDA_DEVICE_SM_LIMIT", "101")), 1);
    CHECK_EQ(lines(read_with("CUDA_DEVICE_SM_LIMIT", "half")), 1);
    setenv("CUDA_DEVICE_SM_LIMIT", "30", 1);
    setenv("ULMS_SHARE", "train", 1);
    options_read();
    CHECK_EQ(ulms_options.share.settings.to.limit, 300);
    CHECK_EQ(ulms_options.share.settings.said, SETTING_LIMIT);
    setenv("ULMS_SHARE", "train,limit=0.5", 1);
    options_read();
    CHECK_EQ(ulms_options.share.settings.to.limit, 500);
}

TEST(paths) {
    char expected[64];
    CHECK_STR(read_with("ULMS_TRACE", "run-%p-%p.trace"), "");
    snprintf(expected, sizeof expected, "run-%d-%d.trace", (int)getpid(), (int)getpid());
    CHECK_STR(ulms_options.trace, expected);
    CHECK_STR(read_with("ULMS_TRACE", "100%"), "");
    CHECK_STR(ulms_options.trace, "100%");
    CHECK_STR(read_with("ULMS_STATS", "./s-%p"), "");
    snprintf(expected, sizeof expected, "./s-%d", (int)getpid());
    CHECK_STR(ulms_options.stats, expected);
    CHECK_STR(read_with("ULMS_STATS", "on"), "");
    snprintf(expected, sizeof expected, "/dev/shm/ulms-%d-", (int)getpid());
    CHECK(strncmp(ulms_options.stats, expected, strlen(expected)) == 0);
    CHECK(strtoull(ulms_options.stats + strlen(expected), NULL, 10) > 0);
}

TEST(a_path_that_does_not_fit_is_refused_whole) {
    static char path[OPTION_PATH_MAX + 1];
    memset(path, 'x', OPTION_PATH_MAX - 1);
    CHECK_STR(read_with("ULMS_TRACE", path), "");
    CHECK_STR(ulms_options.trace, path);
    path[OPTION_PATH_MAX - 1] = 'x';
    CHECK_EQ(lines(read_with("ULMS_TRACE", path)), 1);
    CHECK_STR(ulms_options.trace, "");
    memcpy(path + OPTION_PATH_MAX - 3, "%p", 3);
    CHECK_EQ(lines(read_with("ULMS_TRACE", path)), 1);
    CHECK_STR(ulms_options.trace, "");
}

TEST(capacity_early_is_silent_and_agrees) {
    clear();
    setenv("ULMS_GPU_MEMORY", "3MiB", 1);
    setenv("ULMS_LOG_LEVEL", "nonsense", 1);
    capture_start();
    CHECK_EQ(options_capacity_early(), 3 << 20);
    setenv("ULMS_GPU_MEMORY", "nonsense", 1);
    CHECK_EQ(options_capacity_early(), 0);
    CHECK_STR(capture_end(), "");
    setenv("ULMS_GPU_MEMORY", "3MiB", 1);
    setenv("ULMS_BACKEND", "off", 1);
    CHECK_EQ(options_capacity_early(), 0);
    unsetenv("ULMS_BACKEND");
    unsetenv("ULMS_LOG_LEVEL");
    options_read();
    setenv("ULMS_GPU_MEMORY", "4MiB", 1); /* the program changing its environment changes no answer */
    CHECK_EQ(options_capacity_early(), 3 << 20);
}

TEST(rows_are_whole_and_their_fallbacks_are_accepted) {
    CHECK(ulms_option_count() >= 6);
    CHECK(ulms_option(ulms_option_count()) == NULL);
    for (size_t i = 0; i < ulms_option_count(); i++) {
        const struct ulms_option *o = ulms_option(i);
        CHECK(strncmp(o->name, "ULMS_", 5) == 0);
        CHECK(*o->accepts && *o->help && o->fallback);
        CHECK(!strchr(o->help, '\n'));
        if (*o->fallback)
            CHECK_STR(read_with(o->name, o->fallback), "");
    }
}

TEST(a_share) {
    read_with("ULMS_SHARE", "train,request=0.25,limit=.5,memory=8GiB,priority=-2,hard,pin,idle=10m");
    const struct share_option *o = &ulms_options.share;
    CHECK(strcmp(o->name, "train") == 0);
    CHECK_EQ(o->settings.said, SETTINGS_ALL);
    CHECK_EQ(o->settings.to.hard, 1);
    CHECK_EQ(o->settings.to.request, 250);
    CHECK_EQ(o->settings.to.limit, 500);
    CHECK_EQ(o->settings.to.memory, 8ull << 30);
    CHECK_EQ(o->settings.to.priority, -2);
    CHECK_EQ(o->settings.to.pin, 1);
    CHECK_EQ(o->settings.to.idle_s, 600);
}

TEST(a_share_s_name_alone_sets_nothing) {
    read_with("ULMS_SHARE", "train");
    CHECK(strcmp(ulms_options.share.name, "train") == 0);
    CHECK_EQ(ulms_options.share.settings.said, 0);
}
