/* The names of errors, and these in words. */
#include "call.h"
#include "emulator_rows.h"

#include <stddef.h>

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(error, text) {error, #error, text},
    EMULATOR_ERRORS(ERROR)};

static CUresult describe(CUresult error, const char **out, bool name) {
    INVALID_IF(!out);
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors && !*out; i++)
        if (errors[i].error == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuGetErrorName, CALL_ANY, CUresult error, const char **name) {
    return describe(error, name, true);
}

CALL(cuGetErrorString, CALL_ANY, CUresult error, const char **text) {
    return describe(error, text, false);
}
