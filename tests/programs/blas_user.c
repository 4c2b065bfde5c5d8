/* Prints what cuBLAS answers: the library it is linked with; that of each plug-in named, and of each library named by a
 * path with ".so.", found by name. As a plug-in it has one function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cublas/abi.h"

typedef cublasStatus_t (*axpy_function)(cublasHandle_t, int, const float *, const float *, int, float *, int);
typedef cublasStatus_t (*copy_function)(cublasHandle_t, int, const float *, int, float *, int);

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx, float *y,
                              int incy);
cublasStatus_t cublasDaxpy_v2(cublasHandle_t handle, int n, const double *alpha, const double *x, int incx, double *y,
                              int incy);
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy);
void answers(const char *who);

void answers(const char *who) {
    printf("%s: %d %d %d\n", who, cublasSaxpy_v2(NULL, 1, NULL, NULL, 1, NULL, 1),
           cublasDaxpy_v2(NULL, 2, NULL, NULL, 1, NULL, 1), cublasScopy_v2(NULL, 3, NULL, 1, NULL, 1));
}

#ifndef PLUGIN
static void found(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    axpy_function axpy = (axpy_function)(library ? dlsym(library, "cublasSaxpy_v2") : NULL);
    copy_function copy = (copy_function)(library ? dlsym(library, "cublasScopy_v2") : NULL);
    void *none = library ? dlsym(library, "cublasSgemm_v2") : NULL;
    if (axpy && copy)
        printf("by name: %d %d %s\n", axpy(NULL, 1, NULL, NULL, 1, NULL, 1), copy(NULL, 3, NULL, 1, NULL, 1),
               none ? "found" : "not found");
}

static void plug_in(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*theirs)(const char *) = (void (*)(const char *))(library ? dlsym(library, "answers") : NULL);
    if (theirs)
        theirs("plug-in");
}

int main(int count, char **words) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned) = (CUresult (*)(unsigned))(driver ? dlsym(driver, "cuInit") : NULL);
    if (init)
        init(0);
    answers("linked");
    for (int i = 1; i < count; i++)
        (strstr(words[i], ".so.") ? found : plug_in)(words[i]);
    printf("default: %s\n", dlsym(RTLD_DEFAULT, "cublasSaxpy_v2") ? "found" : "not found");
    answers("linked");
    return 0;
}
#endif
