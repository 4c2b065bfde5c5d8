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
