struct link { link *next; float v; };
K f_list(const link *n, float *o) {
    float s = 0;
    for (; n; n = n->next) s += n->v;
    o[ME] = s;
}
K f_table(float *const *t, float *o) {
    o[ME] = t[blockIdx.x][threadIdx.x];
}
K f_table_written(float **t, float v) {
    t[blockIdx.x][threadIdx.x] = v;
}
K f_table_atomic(int **t) {
    atomicAdd(t[blockIdx.x] + threadIdx.x, 1);
}
K f_two_deep(float ***t, float *o) {
    o[ME] = t[blockIdx.y][blockIdx.x][threadIdx.x];
}
K f_shared(float **t, float *o) {
    __shared__ float *p;
    if (threadIdx.x == 0) p = t[blockIdx.x];
    __syncthreads();
    o[ME] = p[threadIdx.x];
}
K f_local(float **t, const int *w, float *o) {
    float *p[8];
    for (int i = 0; i < 8; i++) p[i] = t[i];
    o[ME] = p[w[ME] & 7][threadIdx.x];
}
K f_shuffled(float **t, float *o) {
    o[ME] = ((float *)__shfl_sync(ALL, (u64)t[threadIdx.x], 7))[threadIdx.x];
}
K f_hidden(const u64 *t, float *o, u64 key) {
    o[ME] = ((float *)(t[blockIdx.x] ^ key))[threadIdx.x];
}
K f_hidden_by_address(const u64 *t, float *o) {
    o[ME] = ((float *)(t[blockIdx.x] ^ (u64)t))[threadIdx.x];
}
K f_tagged(const u64 *t, float *o) {
    o[ME] = ((float *)(t[blockIdx.x] & ~15ull))[threadIdx.x];
}
K f_halves(const u32 *low, const u32 *high, float *o) {
    o[ME] = *(float *)((u64)high[ME] << 32 | low[ME]);
}
K f_number(const i64 *base, float *o, i64 step) {
    o[ME] = *(float *)(base[0] + step * blockIdx.x);
}
K f_number_plus_parameter(const i64 *base, float *o, i64 plus) {
    o[ME] = *(float *)(base[ME] + plus);
}
K f_scaled(const i64 *t, float *o, i64 zero) {
    o[ME] = ((float *)zero)[t[ME]];
}
K f_product(const i64 *t, float *o, i64 by) {
    o[ME] = *(float *)(t[ME] * by);
}
K f_either(float *a, float **t, float *o, int w) {
    float *p = w ? a : t[blockIdx.x];
    o[ME] = p[threadIdx.x];
}
K f_later(float *a, float *o, int n) {
    for (int i = 0; i < n; i++) {
        o[ME + i] = a[threadIdx.x];
        if (i == 9) a = *(float **)a;
    }
}
K f_next_of_loop(float *a, float **t, float *o, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) {
        s += a[threadIdx.x];
        a = t[i];
    }
    o[ME] = s;
}
K f_exchanged(u64 *t, float *o) {
    o[ME] = ((float *)atomicExch(t + ME, 0ull))[0];
}
K f_stack_of_free(u64 *head) {
    u64 old = *head, seen;
    do {
        seen = old;
        old = atomicCAS(head, seen, *(u64 *)seen);
    } while (old != seen);
}
__device__ float *pointer_variable;
__constant__ float *pointer_constant[4];
K f_variable(float *o) {
    o[ME] = pointer_variable[threadIdx.x];
}
K f_constant(float *o) {
    o[ME] = pointer_constant[blockIdx.x & 3][threadIdx.x];
}
__device__ __noinline__ float *fetch(float **t, int i) { return t[i]; }
K f_returned(float **t, float *o) {
    o[ME] = fetch(t, blockIdx.x)[threadIdx.x];
}
__device__ __noinline__ float read_at(const float *p, int i) { return p[i] + p[i + 1]; }
K f_one_call_of_two(const float *a, float **t, float *o) {
    o[ME] = read_at(a, threadIdx.x) + read_at(t[blockIdx.x], threadIdx.x);
}
__device__ __noinline__ void fetch_to(float **t, float **out, int i) { out[i & 3] = t[i]; }
K f_filled_by_call(float **t, float *a, float *o) {
    float *p[4] = {a, a, a, a};
    fetch_to(t, p, blockIdx.x);
    o[ME] = p[1][threadIdx.x];
}
K f_bytes(const u8 *b, float *o) {
    u64 p = 0;
    for (int i = 0; i < 8; i++) p |= (u64)b[ME * 8 + i] << 8 * i;
    o[ME] = *(float *)p;
}
K f_permuted(const u32 *b, float *o) {
    u64 low = __byte_perm(b[0], b[1], 0x5410), high = __byte_perm(b[2], b[3], 0x7632);
    o[ME] = *(float *)(high << 32 | low);
}
K f_from_double(const double *b, float *o) {
    o[ME] = *(float *)(u64)(b[ME] * 16);
}
K f_bits_of_double(const double *b, float *o) {
    o[ME] = *(float *)__double_as_longlong(b[ME]);
}
K f_upper_half_kept(const char *a, const u32 *low, float *o) {
    o[ME] = *(float *)((u64)a >> 32 << 32 | low[ME]);
}
K f_lower_half_kept(const char *a, const u32 *high, float *o) {
    o[ME] = *(float *)((u64)(u32)(u64)a | (u64)high[ME] << 32);
}
K f_difference(float *a, float **t) {
    a[opaque((i64)(t[ME] - a))] = 1;
}
K f_difference_in_bytes(char *a, char **t) {
    a[opaque((i64)t[ME] - (i64)a)] = 1;
}
K f_difference_shared(float *a, float **t) {
    __shared__ i64 d;
    if (threadIdx.x == 0) d = t[blockIdx.x] - a;
    __syncthreads();
    a[d + threadIdx.x] = 1;
}
K f_difference_stored(float *a, float **t, volatile i64 *d) {
    d[ME] = t[blockIdx.x] - a;
    __threadfence();
    a[d[ME ^ 1] + threadIdx.x] = 1;
}
K f_difference_shuffled(float *a, float **t) {
    a[__shfl_sync(ALL, (i64)(t[threadIdx.x] - a), 3) + threadIdx.x] = 1;
}
K f_difference_local(float *a, float **t, const int *w) {
    i64 d[8];
    for (int i = 0; i < 8; i++) d[i] = t[i] - a;
    a[d[w[ME] & 7] + threadIdx.x] = 1;
}
K f_difference_negated(const char *a, const u64 *t, float *o) {
    o[ME] = a[opaque(t[ME] + opaque(~(u64)a) + 1)];
}
K f_difference_by_product(const char *a, const u64 *t, float *o, i64 m) {
    o[ME] = a[t[ME] + (u64)a * m];
}
K f_difference_masked(const char *a, const u64 *t, float *o) {
    u64 base = (u64)a & ~0xffffull;
    o[ME] = *(float *)(base + opaque(t[ME] - base));
}
K f_difference_of_floats(const char *a, const float *t, float *o) {
    float d = t[ME] + __uint_as_float((u32)(u64)a);
    o[ME] = a[(i64)(int)__float_as_uint(d)];
}
K f_difference_by_ballot(const char *a, const u32 *t, float *o) {
    u32 d = __ballot_sync(ALL, (t[ME] - (u32)(u64)a) >> (threadIdx.x & 31) & 1);
    o[ME] = a[d];
}
K f_difference_by_barrier(const char *a, const u32 *t, float *o) {
    u32 d = 0;
    for (int i = 0; i < 32; i++) d |= (u32)(__syncthreads_or((t[0] - (u32)(u64)a) >> i & 1) != 0) << i;
    o[ME] = a[d];
}
K f_difference_by_barrier_count(const char *a, const u32 *t, float *o) {
    o[ME] = a[__syncthreads_count((t[0] - (u32)(u64)a) >> (threadIdx.x & 31) & 1)];
}
K f_shuffled_apart(float **t, float *o, int n) {
    u64 p = (u64)t[threadIdx.x];
    for (int i = threadIdx.x; i < n; i += 7) p = __shfl_xor_sync(__activemask(), p, i & 3);
    o[ME] = *(float *)p;
}
K f_loaded_by_pieces(const u16 *b, float *o) {
    o[ME] = *(float *)((u64)b[3] << 48 | (u64)b[2] << 32 | (u64)b[1] << 16 | b[0]);
}
K f_difference_of_other(float *a, float *b, float **t, float *o) {
    i64 d = opaque((i64)(t[ME] - b));
    o[ME] = b[d] + a[threadIdx.x];
}
K f_cancelled(const char *a, const i64 *t, float *o, i64 n) {
    const char *p = a + n;
    o[ME] = *(const float *)(p + (t[ME] - (i64)a));
}
K f_async(const char *const *t, float4 *o) {
    __shared__ float4 s[128];
    u32 d = (u32)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;" ::"r"(d), "l"(t[blockIdx.x] + threadIdx.x * 16));
    __syncthreads();
    o[ME] = s[threadIdx.x ^ 1];
}
K f_alias_in_local(float **t, float *a, float *o, int k) {
    float *p[2] = {a, a}, **q = p;
    q[k] = t[0];
    o[ME] = p[1][threadIdx.x];
}
K f_generic_table(float **t, float *o, int w) {
    __shared__ float *s[4];
    float **p = w ? s : t;
    s[threadIdx.x & 3] = t[threadIdx.x];
    __syncthreads();
    o[ME] = *p[2];
}
K f_texture(float *o, u64 texture) {
    float r;
    asm volatile("{.reg .f32 a,b,c; tex.1d.v4.f32.s32 {%0,a,b,c}, [%1, {%2}];}" : "=f"(r) : "l"(texture), "r"(threadIdx.x));
    o[ME] = r;
}
K f_difference_bit_by_bit(const char *a, const u32 *t, const u32 *bit, float *o) {
    u32 d = t[0] - (u32)(u64)a, sum = 0;
#pragma unroll
    for (int i = 0; i < 32; i++) sum += d >> i & 1 ? bit[i] : 0;
    o[ME] = a[sum];
}
K f_difference_predicated(const char *a, const u32 *t, float *o) {
    u32 sum = 0;
    for (int i = 0; i < 32; i++)
        asm volatile("{.reg .pred p; .reg .b32 x; sub.u32 x, %1, %2; shr.b32 x, x, %3; and.b32 x, x, 1; setp.ne.b32 p, x, 0;\n"
                     "@p add.u32 %0, %0, %4;}" : "+r"(sum) : "r"(t[0]), "r"((u32)(u64)a), "r"(i), "r"(1 << i));
    o[ME] = a[sum];
}
K f_policy_in_memory(const float *a, const u64 *t, float *o) {
    o[ME] = hinted(a + ME, t[0]);
}
K f_policy_of_an_address(const float *a, const float *b, float *o) {
    o[ME] = hinted(a + ME, (u64)b);
}
K f_hinted_table(float **t, float *o) {
    o[ME] = hinted(t[ME], evict_first());
}
K f_policy_of_nothing(const float *a, float *o) {
    o[ME] = hinted(a + ME, 0);
}
K f_byte_by_table(const u8 *a, const u64 *t, u8 *o) {
    __shared__ u32 table[256];
    for (u32 j = threadIdx.x; j < 256; j += blockDim.x) table[j] = j;
    __syncthreads();
    u64 copy = 0;
#pragma unroll
    for (int k = 0; k < 64; k += 8) copy |= (u64)table[(u64)a >> k & 255] << k;
    o[ME] = a[t[ME] - copy];
}
K f_byte_by_place(const u8 *a, const u64 *t, u8 *o) {
    __shared__ u32 mark[2048];
    for (u32 j = threadIdx.x; j < 2048; j += blockDim.x) mark[j] = 0;
    __syncthreads();
    if (threadIdx.x < 8) mark[threadIdx.x * 256 + ((u64)a >> 8 * threadIdx.x & 255)] = 1;
    __syncthreads();
    u64 copy = 0;
#pragma unroll 1
    for (u32 j = 0; j < 2048; j++) copy += (u64)(mark[j] * (j & 255)) << 8 * (j >> 8);
    o[ME] = a[t[ME] - copy];
}
K f_bits_by_lane(const u8 *a, const u64 *t, u8 *o) {
    u64 copy = 0;
#pragma unroll
    for (int k = 0; k < 65; k += 5)
        copy |= (u64)__shfl_sync(ALL, threadIdx.x & 31, (u32)((u64)a >> k & 31)) << k;
    o[ME] = a[t[ME] - copy];
}
K f_byte_by_constant(const u8 *a, const u64 *t, u8 *o) {
    u64 copy = 0;
#pragma unroll
    for (int k = 0; k < 64; k += 8) copy |= (u64)numbers[(u64)a >> k & 255] << k;
    o[ME] = a[t[ME] - copy];
}
K f_byte_by_argument(const u8 *a, const u64 *t, const u32 *table, u8 *o) {
    u64 copy = 0;
#pragma unroll
    for (int k = 0; k < 64; k += 8) copy |= (u64)table[(u64)a >> k & 255] << k;
    o[ME] = a[t[ME] - copy];
}
