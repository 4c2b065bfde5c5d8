// What the kernels of this folder share. A kernel's name begins with what it may be decided as: d_ direct, i_ indexed,
// f_ neither, as some address comes from memory. A pointer's name ends with what the kernel does there: _r it reads, _w it
// writes, _rw both, _x nothing.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define K extern "C" __global__ void
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
#define ALL 0xffffffffu
struct part { const u8 *from_r; int first; };
template <class T> __device__ T opaque(T v) { asm volatile("" : "+l"(v)); return v; }
__device__ float variable[512];
__constant__ float constant[64];
__constant__ u32 numbers[256];
#define POLICY(kind, part) \
    __device__ u64 kind() { u64 p; asm("createpolicy.fractional.L2::" #kind ".b64 %0, " part ";" : "=l"(p)); return p; }
POLICY(evict_first, "1.0")
POLICY(evict_last, "0.5")
__device__ float hinted(const float *a, u64 policy) {
    float v;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(a), "l"(policy));
    return v;
}
__device__ void store_hinted(float *a, float v, u64 policy) {
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" : : "l"(a), "f"(v), "l"(policy) : "memory");
}
