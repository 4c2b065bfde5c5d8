/* A library with cuBLAS's names, for tests of who calls whom. ANSWER is what its functions answer with; with PART, the
 * path of another such library, cublasScopy_v2 is found there under the same name, as cuDNN's parts are. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "cublas/abi.h"

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx, float *y,
                              int incy);
cublasStatus_t cublasDaxpy_v2(cublasHandle_t handle, int n, const double *alpha, const double *x, int incx, double *y,
                              int incy);
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy);

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx, float *y,
                              int incy) {
    (void)handle, (void)alpha, (void)x, (void)incx, (void)y, (void)incy;
    return (cublasStatus_t)(ANSWER + n);
}

/* Calls the other by its exported name, which another library may take over. */
cublasStatus_t cublasDaxpy_v2(cublasHandle_t handle, int n, const double *alpha, const double *x, int incx, double *y,
                              int incy) {
    (void)alpha, (void)x, (void)y;
    return (cublasStatus_t)(1000 + cublasSaxpy_v2(handle, n, NULL, NULL, incx, NULL, incy));
}

cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy) {
#ifdef PART
    void *part = dlopen(PART, RTLD_NOW | RTLD_LOCAL);
    cublasStatus_t (*same)(cublasHandle_t, int, const float *, int, float *, int) =
        (__typeof__(same))(part ? dlsym(part, "cublasScopy_v2") : NULL);
    return same ? same(handle, n, x, incx, y, incy) : (cublasStatus_t)-1;
#else
    (void)handle, (void)x, (void)incx, (void)y, (void)incy;
    return (cublasStatus_t)(ANSWER + 500 + n);
#endif
}
