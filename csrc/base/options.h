/* Every option is one row; help, README section and man page are printed from the rows (ulms.h shows them). */
#ifndef ULMS_OPTIONS_H
#define ULMS_OPTIONS_H

#include "share/settings.h"
#include "types.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum mode { MODE_OFF, MODE_OBSERVE, MODE_UM, MODE_VMM };
enum hooks { HOOKS_ALL, HOOKS_NO_LIBRARY, HOOKS_DRIVER };
enum hidden { HIDDEN_FOLLOWED, HIDDEN_ANY, HIDDEN_KNOWN };
enum verify { VERIFY_OFF, VERIFY_ON, VERIFY_ABORT };

enum { OPTION_PATH_MAX = 4096 }; /* bytes, the end included */

/* NAME[,request=SHARE][,limit=SHARE][,hard][,memory=SIZE][,priority=N][,pin][,idle=30s]. */
struct share_option {
    char name[SHARE_NAME_MAX]; /* "": not set */
    struct share_settings settings;
};

struct options {
    enum mode mode;                       /* ULMS_BACKEND */
    enum log_level level;                 /* ULMS_LOG_LEVEL */
    uint64_t capacity;                    /* ULMS_GPU_MEMORY, bytes; 0: not set */
    uint64_t device_capacity[DEVICE_MAX]; /* of one device, before that; 0: not set */
    char policy[16];                      /* ULMS_POLICY */
    int factor;                           /* ULMS_GPU_MEMORY_FACTOR, per cent */
    int lease_factor;          /* of what a broker grants: it leaves room itself; 100 unless the factor was set */
    enum hooks hooks;          /* ULMS_HOOKS */
    enum hidden hidden;        /* ULMS_HIDDEN */
    enum verify verify;        /* ULMS_VERIFY */
    uint64_t page;             /* ULMS_PAGE, bytes */
    uint64_t managed_limit;    /* ULMS_MANAGED_LIMIT, bytes; 0: not set */
    struct share_option share; /* ULMS_SHARE */
    int suspend_signal;        /* ULMS_SUSPEND_SIGNAL; 0: not set */
    uint64_t file_limit;       /* ULMS_FILE_LIMIT, bytes; 0: not set */
    char file_folder[OPTION_PATH_MAX];  /* ULMS_FILE_DIR; "": not set */
    char share_folder[OPTION_PATH_MAX]; /* ULMS_SHARE_DIR; "": not set */
    char plain[OPTION_PATH_MAX];        /* ULMS_PLAIN; "": none */
    char trace[OPTION_PATH_MAX];        /* ULMS_TRACE; "": none */
    char stats[OPTION_PATH_MAX];        /* ULMS_STATS; "": none */
};

extern struct options ulms_options;

/* Reads the environment. A bad value is one ERROR line that names variable, value and what is accepted; the default
 * holds. Called once, when the program first initialises CUDA; before that only options_capacity_early may be asked. */
void options_read(void);
/* The capacity in bytes, 0 for none, for questions that come before CUDA is initialised. Says nothing, keeps nothing.
 */
uint64_t options_capacity_early(void);

#endif
