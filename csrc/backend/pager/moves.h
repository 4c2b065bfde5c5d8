/* Moves that the engine gave out and that are not done. */
#ifndef ULMS_PAGER_MOVES_H
#define ULMS_PAGER_MOVES_H

#include "backend/pager/pages.h"
#include "driver.h"
#include "ulms.h"

enum { LANES = 2 };
enum { PAGER_RUN_PAGES = 16 }; /* the most of one move: while its pages are mapped, others copy */

/* A move that the engine gave out, with what the pages say of it. */
struct pager_move {
    struct ulms_move m;
    uint64_t begun_ns; /* for the trace; 0: there is none */
    /* The driver takes no call over two allocations, though they lie side by side. */
    struct pager_piece piece[PAGER_RUN_PAGES];
    int pieces;
    bool discard;          /* the content may be lost */
    bool reborn;           /* but a block was born there since */
    bool keep, unkeep;     /* mostly read: advise before */
    bool in_place, recall; /* used on the host: advise after; take the advice back before */
    bool begun;            /* the driver may be doing it */
    bool abandoned;        /* the engine knows that it failed; it is over once its mover comes back */
    bool vacated;  /* its frames of the device are given up, as the engine knows; its pages are not mapped yet */
    CUevent event; /* ordered: recorded behind it, once it was issued */
    struct pager_move *next, *after; /* under way; ready in its lane */
};

struct pager_moves {
    struct pager_move *under_way;
    uint64_t others; /* so many that are not the engine's were made */
    uint32_t paused; /* by so many no move may begin */
};

struct pager;

/* Takes the lane's next move and enters it among those under way. The engine has heard of all blocks: what is dead need
 * not be copied. Under the lock. */
struct pager_move *pager_move_take(struct pager *d, int lane);
/* One that the engine has nothing to do with, of one page that is not on the device: until pager_move_done nobody uses
 * it. Returns its id; 0: no memory. Under the lock. */
uint64_t pager_move_other(struct pager *d, addr_t start);
/* What it takes from the device is gone: the engine knows that it is done, and nobody uses its pages before
 * pager_move_done. Under the lock. */
void pager_move_vacated(struct pager *d, uint64_t id);
/* It is done, or failed: the engine knows. Under the lock. */
void pager_move_done(struct pager *d, uint64_t id, bool ok);
struct pager_move *pager_move_find(struct pager *d, uint64_t id);
/* One is under way, abandoned or not. Under the lock. */
bool pager_moves_any(const struct pager *d, addr_t start, uint64_t bytes);
/* Of those that are under way, abandoned or not. Under the lock. */
uint64_t pager_moves_bytes(const struct pager *d);
/* One is under way that was not abandoned. (Of memory that is not managed, an abandoned move never begins.) Under the
 * lock. */
bool pager_moves_go_on(const struct pager *d, addr_t start, uint64_t bytes);
/* Moves of the range that can be given up are, so that its pages may be used where they lie: all that have not begun,
 * and of managed memory all but those that lose content. Under the lock. */
void pager_moves_abandon(struct pager *d, addr_t start, uint64_t bytes);
/* Waits until no move of the range is under way; of those that discard, if so asked. Once patience has run out the rest
 * is abandoned: the program may hold it back. False: what could not be abandoned goes on for longer than any driver
 * takes. Under the lock. */
bool pager_moves_wait(struct pager *d, addr_t start, uint64_t bytes, bool discards_only);
/* A block was born there: an operation that uses it unseen is not to lose what it writes, and waits for those that
 * discard there now, whatever it shows. Under the lock, which waiting releases. */
void pager_moves_reborn(struct pager *d, addr_t start, uint64_t bytes);
bool pager_moves_wait_reborn(struct pager *d);
/* Waits until no move in the range has vacated and not mapped its pages. *waited: it did. False as above. Under the
 * lock. */
bool pager_moves_wait_mapped(struct pager *d, addr_t start, uint64_t bytes, bool *waited);
/* None begins, until as many have let it. Under the lock. */
void pager_moves_pause(struct pager *d, bool pause);

#endif
