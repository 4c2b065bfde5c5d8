/* The tensors that something in a graph of cuDNN uses, and what it does with them. */
#ifndef ULMS_CUDNN_USE_H
#define ULMS_CUDNN_USE_H

#include "library/cudnn_descriptor.h"
#include "library/cudnn_role.h"

struct use {
    int64_t uid;
    struct span span; /* bytes */
    int attribute;    /* by which it came here */
    enum role role;
    enum touch_mode mode; /* 0: the role decides, once the operation is complete */
    enum reach reach;
};

/* Zero-initialised it is empty. */
struct uses {
    size_t count, room;
    struct use *at;
    bool partial; /* something is used that nothing is known of */
};

/* What decides about modes beside the roles. */
struct manner {
    bool blends; /* the operation adds to its output */
    bool infers; /* a normalisation is given mean and variance */
};

void uses_free(struct uses *uses);
void uses_append(struct uses *uses, struct use use);
/* Drops what came by the attribute. */
void uses_drop(struct uses *uses, int attribute);
/* Adds a complete part: an operation, or a graph of some. A tensor that two parts use is what one of them makes for the
 * other: what it held before is not read. One that a part both reads and writes is worked on in place. */
void uses_add_part(struct uses *uses, const struct uses *part, struct manner manner, int attribute);
/* By uid, for uses_find. */
void uses_sort(struct uses *uses);
const struct use *uses_find(const struct uses *uses, int64_t uid);

#endif
