#include "cost.h"

#include "shared.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Source: shared facts: measured on H200 (PCIe 5 x16, driver 580). GB/s are bytes per ns; 1 GiB = 1073741824 bytes. */
static struct {
    const char *variable;
    double value;
} rates[RATES] = {
    [RATE_LINK] = {"EMU_LINK_GBS", 55.5},
    [RATE_LINK_BOTH] = {"EMU_LINK_BOTH_GBS", 101},
    [RATE_DEVICE] = {"EMU_DEVICE_GBS", 4150},
    [RATE_IN_PLACE] = {"EMU_IN_PLACE_GBS", 51},
    [RATE_IN_PLACE_BOTH] = {"EMU_IN_PLACE_BOTH_GBS", 42},
    [RATE_FAULT] = {"EMU_FAULT_GBS", 14},
    [RATE_EVICT] = {"EMU_EVICT_GBS", 23},
    [RATE_PREFETCH] = {"EMU_PREFETCH_GBS", 44},
    [RATE_PREFETCH_HOST] = {"EMU_PREFETCH_HOST_GBS", 24}, /* whatever the number of threads that ask */
    [RATE_PREFETCH_BOTH] = {"EMU_PREFETCH_BOTH_GBS", 40},
    [RATE_COPY] = {"EMU_COPY_NS", 2600}, /* with the link's rate this is the measured curve over piece sizes */
    [RATE_LAUNCH] = {"EMU_LAUNCH_NS", 2900},
    [RATE_PREFETCH_CALL] = {"EMU_PREFETCH_CALL_NS", 60000}, /* makes 2 MiB calls come to 18 GB/s */
    [RATE_PREFETCH_IN] = {"EMU_PREFETCH_IN_NS", 28e6 / 1073741824},
    [RATE_PREFETCH_OUT] = {"EMU_PREFETCH_OUT_NS", 47e6 / 1073741824},
    [RATE_PREFETCH_RESIDENT_CALL] = {"EMU_PREFETCH_RESIDENT_CALL_NS", 1900},
    [RATE_PREFETCH_RESIDENT] = {"EMU_PREFETCH_RESIDENT_NS", 460e3 / 1073741824},
    [RATE_DISCARD] = {"EMU_DISCARD_NS", 3.2e6 / 1073741824},
    [RATE_DISCARD_AND_PREFETCH] = {"EMU_DISCARD_AND_PREFETCH_NS", 5.2e6 / 1073741824},
    /* Of being mostly read: 88 us a page. The others are taken for as dear; by bench/results/h200-calls.json they cost
     * 0.2 to 75. */
    [RATE_ADVISE_HOST] = {"EMU_ADVISE_HOST_NS", 45e6 / 1073741824},
};

/* Microseconds for one handle of 2, 16, 64, 256 MiB; same source. */
enum { VMM_SIZES = 4 };
static const double vmm_mebibytes[VMM_SIZES] = {2, 16, 64, 256};
static const double vmm_us[][VMM_SIZES] = {
    [VMM_CREATE] = {7, 8, 18, 30},         [VMM_MAP] = {1, 2, 5, 11},
    [VMM_ACCESS] = {20, 27, 64, 97},       [VMM_UNMAP] = {14, 17, 30, 39},
    [VMM_RELEASE] = {8, 14, 41, 113},      [VMM_CREATE_HOST] = {83, 788, 8756, 40941},
    [VMM_MAP_HOST] = {0, 1, 1, 1},         [VMM_ACCESS_HOST] = {39, 151, 755, 1779},
    [VMM_UNMAP_HOST] = {24, 53, 157, 544},
};

enum {
    PIECE = 8 << 20, /* copies share the link in turns of so many bytes */
    NAP = 50000,     /* a debt below this, ns, is carried on instead of slept */
    SLACK = 2000000, /* lateness up to this, ns, is the clock's fault and made up for */
    SLICE = 1000000, /* ns that one process's kernels run while another's wait: the driver's default */
};

static double scale; /* EMU_TIME */

double rate(enum rate r) {
    return rates[r].value;
}

static double read_number(const char *variable, double missing) {
    const char *text = getenv(variable);
    char *end;
    double value = text ? strtod(text, &end) : missing;
    if (!text || (end != text && !*end && value >= 0 && isfinite(value)))
        return value;
    fprintf(stderr, "emu: %s=%s is not a number; %g is used\n", variable, text, missing);
    return missing;
}

void cost_open(void) {
    scale = read_number("EMU_TIME", 0);
    for (int i = 0; i < RATES; i++)
        rates[i].value = read_number(rates[i].variable, rates[i].value);
}

bool cost_counts(void) {
    return scale > 0;
}

double cost_vmm(enum vmm_call call, uint64_t bytes) {
    double size = (double)bytes / (1 << 20);
    const double *us = vmm_us[call];
    int i = 0;
    while (i < VMM_SIZES - 2 && size > vmm_mebibytes[i + 1])
        i++;
    double share = (size - vmm_mebibytes[i]) / (vmm_mebibytes[i + 1] - vmm_mebibytes[i]);
    double cost = us[i] + share * (us[i + 1] - us[i]);
    return 1000 * (cost > us[0] ? cost : us[0]);
}

uint64_t cost_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* Waits for the end of something modelled. Returns that end, or later when this machine cannot keep up. */
static uint64_t elapse(uint64_t end) {
    uint64_t now = cost_now();
    if (end > now + NAP)
        sleep_until(end);
    return now > end + SLACK ? now : end;
}

void cost_call(double ns) {
    if (!cost_counts() || ns <= 0)
        return;
    struct thread *t = thread_self();
    uint64_t start = cost_now();
    /* What this machine has needed for the call is part of it. */
    double owed = ns * scale - (double)(start - t->entered);
    t->debt += owed > 0 ? owed : 0;
    t->entered = start;
    if (t->debt < NAP)
        return;
    sleep_until(start + (uint64_t)t->debt);
    t->debt -= (double)(cost_now() - start);
    if (t->debt < -SLACK)
        t->debt = 0;
}

/* Bytes per ns: one way alone, and in sum while something crosses the other way, too. */
struct crossing {
    double alone, both;
};

/* Takes the link for a piece, from `ready` on or as soon as it is free. */
static uint64_t take_link(int way, uint64_t bytes, struct crossing c, uint64_t ready) {
    uint64_t *free = shared_time_take()->link_free;
    uint64_t start = free[way] > ready ? free[way] : ready;
    double gbs = free[!way] > start && c.alone > c.both / 2 ? c.both / 2 : c.alone;
    uint64_t end = start + (uint64_t)((double)bytes / gbs * scale);
    free[way] = end;
    shared_time_give();
    return end;
}

static uint64_t piece_of(uint64_t bytes) {
    return bytes < PIECE ? bytes : PIECE;
}

static uint64_t cross_link(int way, uint64_t bytes, struct crossing c, uint64_t ready) {
    while (bytes > 0) {
        uint64_t piece = piece_of(bytes);
        ready = elapse(take_link(way, piece, c, ready));
        bytes -= piece;
    }
    return ready;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* A kernel reads and writes what lies on the host, both at once. */
static uint64_t use_in_place(uint64_t read, uint64_t written, uint64_t ready) {
    struct crossing c = {rate(read && written ? RATE_IN_PLACE_BOTH : RATE_IN_PLACE), rate(RATE_LINK_BOTH)};
    while (read > 0 || written > 0) {
        uint64_t in = piece_of(read), out = piece_of(written), ends[2] = {ready, ready};
        if (in)
            ends[0] = take_link(0, in, c, ready);
        if (out)
            ends[1] = take_link(1, out, c, ready);
        ready = elapse(ends[0] > ends[1] ? ends[0] : ends[1]);
        read -= in;
        written -= out;
    }
    return ready;
}

/* A device runs the kernels of one process at a time, in slices. When a piece that is ready has run; 0: another
 * process has the slice, or gets the next. */
static uint64_t run_piece(int device, uint64_t piece, uint64_t ready) {
    struct shared_turn *turn = &shared_time_take()->turn[device];
    int self = shared_self(), next = shared_next(device);
    uint64_t end = 0;
    if (turn->ends <= ready && (next < 0 || next == self)) {
        *turn = (struct shared_turn){.owner = self, .began = ready};
        shared_want(device, 0);
    } else if (turn->owner != self || (next >= 0 && ready >= turn->began + (uint64_t)(SLICE * scale))) {
        shared_want(device, ready);
        shared_time_give();
        return 0;
    }
    end = ready + piece;
    turn->ends = end > turn->ends ? end : turn->ends;
    shared_time_give();
    return end;
}

static uint64_t run_in_slices(int device, uint64_t ns, uint64_t ready) {
    const uint64_t slice = shared_with_others() ? (uint64_t)(SLICE * scale) : ns;
    while (ns > 0) {
        uint64_t piece = ns < slice ? ns : slice, end = run_piece(device, piece, ready);
        ns -= end ? piece : 0;
        ready = elapse(end ? end : ready + slice / 8);
    }
    return ready;
}

uint64_t cost_crossed(const struct emu_launch *r) {
    return r->clock + (uint64_t)((double)r->prefetch_bytes / rate(RATE_PREFETCH) * scale);
}

void cost_operation(struct emu_launch *r) {
    if (!cost_counts()) {
        r->clock = cost_now();
        return;
    }
    double ns = (double)r->fault_bytes / rate(RATE_FAULT) + (double)r->evict_bytes / rate(RATE_EVICT);
    uint64_t end = r->waits_until > r->clock ? r->waits_until : r->clock;
    if (r->kernel) {
        double alone = larger((double)r->spent, (double)r->device_bytes / rate(RATE_DEVICE));
        double beside = (double)(use_in_place(r->host_read, r->host_written, end) - end) / scale;
        end = run_in_slices(r->device->ordinal, (uint64_t)(larger(alone, beside) * scale), end);
    } else if (r->prefetch_bytes) {
        struct crossing c = {rate(r->to_host ? RATE_PREFETCH_HOST : RATE_PREFETCH), rate(RATE_PREFETCH_BOTH)};
        end = cross_link(r->to_host, r->prefetch_bytes, c, end);
    } else if (r->host_read || r->host_written) {
        struct crossing c = {rate(RATE_LINK), rate(RATE_LINK_BOTH)};
        ns += rate(RATE_COPY);
        end = cross_link(0, r->host_read, c, end);
        end = cross_link(1, r->host_written, c, end);
    } else {
        ns += (double)r->device_bytes / rate(RATE_DEVICE);
    }
    r->clock = elapse(end + (uint64_t)(ns * scale));
}
