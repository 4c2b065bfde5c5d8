/* What an operation of cuDNN's graphs does with the tensor that one of its attributes names. */
#ifndef ULMS_CUDNN_ROLE_H
#define ULMS_CUDNN_ROLE_H

enum role {
    ROLE_UNKNOWN, /* an attribute of a newer cuDNN: may be read and written */
    ROLE_NONE,    /* holds no tensor, or one whose memory is not touched */
    ROLE_IN,
    ROLE_OUT,
    ROLE_INOUT,  /* read and written; or an output that some kernels add to */
    ROLE_BLEND,  /* an output, also read where the operation adds to it (ROLE_WEIGHT, ROLE_PLACE) */
    ROLE_STAT,   /* mean or variance: an output in training, an input in inference (ROLE_PHASE) */
    ROLE_WEIGHT, /* the number by which what a ROLE_BLEND tensor held is multiplied */
    ROLE_PLACE,  /* which input is already in the output's memory */
    ROLE_PHASE,  /* inference or training */
};

/* attribute: cudnnBackendAttributeName_t. */
enum role role_of(int attribute);

#endif
