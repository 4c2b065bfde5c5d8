#include "driver/real.h"
#include "library.h"

#include "base/hot.h"

HOT_CALL bool cublas_on_device(int variant, cublasHandle_t handle) {
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_DEVICE;
    return REAL(cublasGetPointerMode_v2, variant)(handle, &mode) != CUBLAS_STATUS_SUCCESS ||
           mode != CUBLAS_POINTER_MODE_HOST;
}
