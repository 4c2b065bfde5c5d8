/* The file that pages go to from the host, in slots of a page each: one for all devices of the process. It has no name,
 * so that no end of the process leaves anything behind. Any thread of ours. */
#ifndef ULMS_PAGE_FILE_H
#define ULMS_PAGE_FILE_H

#include <sys/types.h>

#include "base/lock.h"
#include "base/options.h"

#define NO_SLOT UINT32_MAX

struct page_file {
    struct lock lock; /* of what follows */
    int file;         /* -1: there is none */
    char folder[OPTION_PATH_MAX];
    dev_t device;                /* its own, */
    ino_t inode;                 /* likewise: the program may have closed it, and opened another file of that number */
    uint64_t born;               /* when the process was started, as these numbers were asked */
    uint32_t fills;              /* bits by device: more is to come, and it stays while it is empty */
    uint64_t *idle;              /* bits by slot: reserved on the disk, and unused */
    uint32_t room, slots, taken; /* slots: of `idle`; reserved; used */
};
struct page_file *page_file_of_process(void);
/* A device's pages may go there from now on: to a file in the folder ("": any that is there, or one in memory), which
 * may be there still, so many of all devices at most. False: errno says why not; EBUSY: some are in another folder. */
bool page_file_begin(struct page_file *f, int32_t device, const char *folder, uint32_t room);
/* No more of them. It goes with the last page. */
void page_file_end(struct page_file *f, int32_t device);
/* Has the disk keep room for so many slots. Returns for how many it does; if these are fewer, errno says why. */
uint32_t page_file_reserve(struct page_file *f, uint32_t slots);
/* A slot that the disk has room for. NO_SLOT: errno says why there is none. */
uint32_t page_file_take(struct page_file *f);
void page_file_give(struct page_file *f, uint32_t slot);
/* Bytes of a slot, from an offset in it. False: errno says why not. */
bool page_file_write(const struct page_file *f, uint32_t slot, uint64_t at, const void *from, uint64_t bytes);
bool page_file_read(const struct page_file *f, uint32_t slot, uint64_t at, void *to, uint64_t bytes);
/* The process was perhaps restarted from a disk meanwhile, and nobody used the file. */
void page_file_again(struct page_file *f);
/* In a forked child: it is the parent's. */
void page_file_fork_child(void);

#endif
