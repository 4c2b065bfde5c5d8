// A program with a statically linked runtime: hidden pointers through a module variable and through cuBLAS pointer arrays.
#include <cublas_v2.h>

#include <cstdio>
#include <vector>

__device__ float *hidden;

__global__ void fill_hidden(int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        hidden[i] = (float)(i % 97) * 0.01f;
}

__global__ void fill(float *to, int n, float start)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = start + (float)(i % 13);
}

#define CHECK(call)                                                    \
    do {                                                               \
        int status_ = (int)(call);                                     \
        if (status_) {                                                 \
            std::printf("%s line %d: %d\n", #call, __LINE__, status_); \
            return 1;                                                  \
        }                                                              \
    } while (0)

int main()
{
    const int n = 1 << 18, batch = 4, side = 256;
    float *behind;
    CHECK(cudaMalloc(&behind, n * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(hidden, &behind, sizeof behind));
    fill_hidden<<<n / 256, 256>>>(n);

    std::vector<float *> matrices(3 * batch);
    for (size_t i = 0; i < matrices.size(); i++) {
        CHECK(cudaMalloc(&matrices[i], side * side * sizeof(float)));
        fill<<<side * side / 256, 256>>>(matrices[i], side * side, (float)i);
    }
    float **table;
    CHECK(cudaMalloc(&table, matrices.size() * sizeof(float *)));
    CHECK(cudaMemcpy(table, matrices.data(), matrices.size() * sizeof(float *), cudaMemcpyHostToDevice));
    cublasHandle_t handle;
    CHECK(cublasCreate(&handle));
    float one = 1, zero = 0;
    for (int i = 0; i < 10; i++)
        CHECK(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, (const float **)table, side,
                                 (const float **)(table + batch), side, &zero, table + 2 * batch, side, batch));
    CHECK(cudaDeviceSynchronize());
    std::vector<float> back(side * side), first(n);
    CHECK(cudaMemcpy(back.data(), matrices[2 * batch], back.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(first.data(), behind, first.size() * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float v : back)
        sum += v;
    for (float v : first)
        sum += v;
    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    std::printf("REPORT {\"numbers\": [\"%a\"], \"step_ms\": [], \"memory_total\": %zu}\n", sum, total_bytes);
    return 0;
}
