#include "interpose/session/start.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/host.h"
#include "base/hot.h"
#include "base/larger.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "driver/context.h"
#include "driver/fast_path.h"
#include "driver/home.h"
#include "driver/session.h"
#include "driver/within.h"
#include "interpose/account/charge.h"
#include "interpose/record/describe.h"
#include "interpose/record/image.h"
#include "interpose/record/timing.h"
#include "interpose/record/wrap.h"
#include "interpose/replace/ipc.h"
#include "interpose/session/summary.h"
#include "observe/stats.h"
#include "observe/trace.h"
#include "tenant/tenant.h"
#include "ulms.h"

static void fork_child(void) {
    home_leave();
    if (!session_on)
        return;
    if (session.backend->fork_child)
        session.backend->fork_child();
    session_on = false;                 /* CUDA does not work in the child either */
    session.backend = &backend_observe; /* a lock of another's may be held, and movers are not here */
    ipc_fork_child();
    tenants_fork_child();
    trace_fork_child();
    stats_fork_child();
    thread_fork_child();
}

static void device_facts(char *name, int size, uint64_t *total) {
    size_t bytes = 0;
    snprintf(name, (size_t)size, "no device");
    if (session.devices > 0) {
        REAL(cuDeviceGetName, 0)(name, size, 0);
        REAL(cuDeviceTotalMem_v2, 0)(&bytes, 0);
    }
    *total = bytes;
}

static void escape_json(char *out, size_t size, const char *text) {
    size_t n = 0;
    for (; *text && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            out[n++] = '\\';
        out[n++] = (unsigned char)*text < ' ' ? ' ' : *text;
    }
    out[n] = 0;
}

/* A child has none of our threads, and what they had locked stays so there. */
static bool ours_to_end(void) {
    return session_on && home_ours();
}

/* A handler of a signal may end the process where it interrupted a call of ours: the thread may hold any lock of ours,
 * or of the driver's, that movers wait for. */
static void stop_backend(void) {
    if (!ours_to_end())
        return;
    if (within_any()) {
        if (session.backend->abandon)
            session.backend->abandon();
        return;
    }
    ipc_stop();
    tenants_stop();
    if (session.backend->stop)
        session.backend->stop();
}

/* While the driver still answers: its own end comes after this and before our destructor. */
static void stop(void) {
    stop_backend();
    if (ours_to_end() && !within_any())
        timing_stop();
}

static void open_trace(const char *device, uint64_t total) {
    static char program[256], name[512], device_name[512], header[2048]; /* once, on a stack that may be small */
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n < 0 ? 0 : n] = 0;
    int driver = 0;
    REAL(cuDriverGetVersion, 0)(&driver);
    escape_json(name, sizeof name, program);
    escape_json(device_name, sizeof device_name, device);
    snprintf(header, sizeof header,
             "{\"ulms\":\"%s\",\"backend\":\"%s\",\"program\":\"%s\",\"pid\":%d,\"device\":\"%s\",\"devices\":%d,"
             "\"driver\":%d,\"total_bytes\":%llu,\"capacity_bytes\":%llu}",
             ulms_version(), session.backend->name, name, (int)getpid(), device_name, session.devices, driver,
             (unsigned long long)total, (unsigned long long)(capacity_of(0) ? smaller(total, capacity_of(0)) : total));
    if (trace_open(ulms_options.trace, header))
        timing_start();
}

static void name_function(const struct function *f) {
    if (trace_on)
        trace_function(f->id, f->name);
}

static void warn_of_old_driver(void) {
    int version = 0;
    if (!driver_tells_parameters() && REAL(cuDriverGetVersion, 0)(&version) == CUDA_SUCCESS)
        log_warn("the driver, for CUDA %d.%d, does not tell kernels' parameters (12.4 does): what cannot be read from "
                 "their images is guessed",
                 version / 1000, version % 1000 / 10);
}

static void jumped(void) {
    charge_jumped();
    if (session.backend->jumped)
        session.backend->jumped();
}

static void device_used(int device) {
    if (session.backend->shares->use(device))
        fast_path_restore(SLOW_JOIN);
}

/* The first operation of a program that has asked for no memory. */
static void admit_shared(struct op *op) {
    if (fast_path_blocked() & SLOW_JOIN)
        device_used(context_device());
    session.backend->admit(op);
}

static void share(void) {
    session.admit = admit_shared;
    session.device_used = device_used;
    session.device_comes = tenant_join;
    session.device_asks = tenant_wake;
    session.device_shares = tenant_shares;
}

static void choose_backend(void) {
    session.backend = ulms_options.mode == MODE_UM    ? &backend_um
                      : ulms_options.mode == MODE_VMM ? &backend_vmm
                                                      : &backend_observe;
    page_bytes = ulms_options.mode == MODE_VMM ? ulms_options.page : PAGE_LEAST;
    session.admit = session.backend->admit;
    session.settle = session.backend->settle;
    session.block_before = session.backend->block_before;
    session.block = session.backend->block;
    session.capture_unknown = session.backend->capture_unknown;
    session.jumped = jumped;
    session.still_begin = session.backend->still_begin;
    session.still_end = session.backend->still_end;
    session.stop_backend = stop_backend;
    session.hears_blocks = ulms_options.hooks != HOOKS_DRIVER;
    session.hears_calls = ulms_options.hooks == HOOKS_ALL;
    if (ulms_options.mode != MODE_VMM || ulms_policy_holds(ulms_options.policy))
        return;
    const char *policy = ulms_policy(0)->name;
    log_warn("ULMS_POLICY=%s needs memory that the driver pages: with ULMS_BACKEND=vmm it is %s", ulms_options.policy,
             policy);
    snprintf(ulms_options.policy, sizeof ulms_options.policy, "%s", policy);
}

static void start(void) {
    char device[256];
    uint64_t total;
    within_watch();
    home_begin();
    pthread_atfork(NULL, NULL, fork_child);
    options_read();
    if (ulms_options.mode == MODE_OFF)
        return;
    session.ledger = ledger_new();
    if (!session.ledger) {
        log_error("no memory for the ledger: staying out of the way");
        return;
    }
    if (ulms_options.mode == MODE_UM || ulms_options.mode == MODE_VMM)
        session.managed_limit = ulms_options.managed_limit ? ulms_options.managed_limit : host_memory() / 4 * 3;
    session.file_limit = ulms_options.file_limit;
    if (session.file_limit && (ulms_options.mode != MODE_VMM || !*ulms_options.file_folder ||
                               ulms_options.hidden == HIDDEN_ANY || ulms_options.verify)) {
        log_warn("ULMS_FILE_LIMIT has no effect: it needs ULMS_BACKEND=vmm and ULMS_FILE_DIR, and neither "
                 "ULMS_HIDDEN=any nor ULMS_VERIFY");
        session.file_limit = 0;
    }
    ledger_limit_managed(session.ledger, session.managed_limit + session.file_limit);
    warn_of_old_driver();
    choose_backend();
    for (int d = 0; d < DEVICE_MAX; d++) {
        if (ulms_options.share.name[0] && session.backend->shares)
            capacity_group(d, ulms_options.share.settings.to.memory, 0);
        ledger_limit(session.ledger, d, capacity_of(d));
    }
    wrap_try_reading();
    function_describe = describe;
    function_named = name_function;
    REAL(cuDeviceGetCount, 0)(&session.devices);
    loaded_begin();
    stats_open(ulms_options.stats);
    device_facts(device, sizeof device, &total);
    for (int d = 0; d < session.devices && d < DEVICE_MAX; d++)
        stats_memory(d, 0, 0, capacity_of(d));
    if (ulms_options.trace[0])
        open_trace(device, total);
    atexit(stop);
    summary_start(device, total);
    if (ulms_options.share.name[0] && session.backend->shares)
        share();
    else
        fast_path_restore(SLOW_JOIN);
    fast_path_restore(SLOW_CAPTURE | SLOW_TABLES | SLOW_MOVES | SLOW_FROZEN | SLOW_TURN);
    __atomic_store_n(&session_on, true, __ATOMIC_RELEASE);
    if (session.backend->fast_path && ulms_options.verify == VERIFY_OFF && !trace_on)
        fast_path_restore(SLOW_SESSION);
}

void session_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, start);
}

/* The program's own exit handlers and other threads may still free memory after this; recording is then over. */
__attribute__((destructor)) static void finish(void) {
    if (!ours_to_end())
        return;
    fast_path_leave(SLOW_SESSION);
    if (!within_any())
        summary_print();
    __atomic_store_n(&session_on, false, __ATOMIC_RELEASE);
    trace_close();
    stats_close();
}
