/* The page by which the broker tells a tenant its lease (share/message.h). */
#ifndef SHARE_PAGE_H
#define SHARE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/policy.h"
#include "share/message.h"

enum { SHARE_PAGE_BYTES = 4096 };
/* So long a turn that is handed over is watched without sleep, by all that take part. */
#define SHARE_HAND_OVER_NS 5000000ull

/* Bytes that it may allocate. */
struct share_quota {
    uint64_t memory; /* of its group; 0: no limit. What the program's memory information says */
    uint64_t others; /* allocations of the group's other programs */
    uint64_t host;   /* of its process that may lie on the host, on all GPUs */
};

/* Where its host memory goes while it is suspended. */
struct share_file {
    char folder[SHARE_TEXT_MAX]; /* of a file; "": it stays */
    uint64_t number;             /* of the request; 0: there was none */
    uint64_t context;            /* 1: to a file in memory if there is no folder, and then it lets go of the device */
};

struct share_page {
    uint32_t version;
    uint32_t may_issue; /* the lease's: the one word that is read on the way of a launch */
    uint32_t tenants;   /* on this GPU */
    uint32_t sequence;  /* odd: being written. Futex: woken when it has changed */
    struct policy_lease lease;
    struct share_quota quota;
    struct share_file file;
    uint32_t elected; /* 1: its turn begins as soon as the last one's has drained */
    uint32_t asked;   /* the number of what it asked for last and the lease knows */
};

/* The page of a new tenant: *file is for its descriptor. NULL: no memory, or no descriptors. */
struct share_page *share_page_make(int *file);
void share_page_free(struct share_page *page);
/* What the descriptor of a welcome maps. NULL: it is no such page. */
const struct share_page *share_page_map(int file);
void share_page_write(struct share_page *page, const struct policy_lease *lease);
void share_page_tenants(struct share_page *page, uint32_t tenants);
void share_page_elected(struct share_page *page, bool elected);
/* After the lease. */
void share_page_asked(struct share_page *page, uint32_t number);
void share_page_quota(struct share_page *page, const struct share_quota *quota);
/* Before the lease: a new request. */
void share_page_file(struct share_page *page, const char *folder, bool context);
/* As it is between two writes. False: the writer died in the middle. */
bool share_page_read_file(const struct share_page *page, struct share_file *out);
/* Its sequence, with the lease of that time; 0: the writer died in the middle. */
uint32_t share_page_read(const struct share_page *page, struct policy_lease *out);
/* Who waits in this process looks again. */
void share_page_wake(const struct share_page *page);
/* Until the sequence is another one, at most ns. */
void share_page_wait(const struct share_page *page, uint32_t sequence, uint64_t ns);

#endif
