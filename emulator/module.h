/* Images loaded: modules of a context, libraries of all contexts, and the functions in them. */
#ifndef EMU_MODULE_H
#define EMU_MODULE_H

#include "context.h"
#include "emu.h"

/* Launches take either, so both begin with which they are. */
enum entry_kind { ENTRY_FUNCTION = 0x46554e43, ENTRY_KERNEL = 0x4b45524e };

enum { FUNCTION_SET_BYTES = 256 };

struct CUfunc_st {
    enum entry_kind kind;
    CUmodule module;
    const struct emu_kernel *kernel;
    /* Of launches of CUDA 3: block, and arguments that were set one by one. */
    uint32_t block[3];
    uint32_t set_bytes;
    unsigned char set[FUNCTION_SET_BYTES];
};

struct CUmod_st {
    CUcontext context;
    CUlibrary library; /* NULL: loaded as a module */
    const struct emu_image *image;
    CUmodule next;
    uint64_t *variables;          /* addresses, as in the image */
    struct CUfunc_st functions[]; /* as in the image */
};

struct CUkern_st {
    enum entry_kind kind;
    CUlibrary library;
    const struct emu_kernel *kernel;
};

struct CUlib_st {
    const struct emu_image *image;
    struct CUkern_st kernels[]; /* as in the image */
};

void modules_free_of(CUcontext c);
/* What a launch was given, a CUfunction or a CUkernel, as a function of the context. */
CUresult function_of(CUcontext c, CUfunction handle, CUfunction *out);
/* Address of a variable; 0: none of that name. */
uint64_t module_variable(CUmodule m, const char *name, uint64_t *bytes);
/* Offset behind the last parameter. */
size_t kernel_argument_bytes(const struct emu_kernel *k);

extern const struct emu_image builtin_image;

#endif
