K d_axpy(const float *x_r, float *y_rw, float a, int n) {
    int i = ME;
    if (i < n) y_rw[i] = a * x_r[i] + y_rw[i];
}
K d_fill_long(double *y_w, double v, i64 n) {
    for (i64 i = ME; i < n; i += (i64)gridDim.x * blockDim.x) y_w[i] = v;
}
K d_copy_bytes(const u8 *a_r, u8 *b_w, u64 n) {
    for (u64 i = ME; i < n; i += blockDim.x) b_w[n - 1 - i] = a_r[i];
}
K d_vector_loads(const int4 *a_r, int4 *b_w, int n) {
    int i = ME;
    if (i >= n) return;
    int4 v = a_r[i];
    v.x ^= v.w;
    b_w[i] = v;
}
K d_unrolled(const float *a_r, float *b_w, int n) {
#pragma unroll
    for (int k = 0; k < 6; k++)
        if (ME * 6 + k < n) b_w[ME * 6 + k] = a_r[ME * 6 + k] + 1;
}
K d_walk_to_end(const float *from_r, const float *to_x, float *sum_w) {
    float s = 0;
    for (const float *p = from_r + threadIdx.x; p < to_x; p += blockDim.x) s += *p;
    sum_w[ME] = s;
}
K d_walk_stride(int *a_w, int n, int stride) {
    a_w += blockIdx.x * stride;
    for (int i = 0; i < n; i++, a_w += stride) *a_w = i;
}
K d_block_sum(const float *a_r, float *out_w, int n) {
    __shared__ float s[128];
    float v = 0;
    for (int i = ME; i < n; i += gridDim.x * blockDim.x) v += a_r[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 64; k; k /= 2) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out_w[blockIdx.x] = s[0];
}
K d_warp_sum(const double *a_r, double *out_rw, int n) {
    double v = ME < n ? a_r[ME] : 0;
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(ALL, v, k);
    if ((threadIdx.x & 31) == 0) atomicAdd(out_rw, v);
}
K d_prefix(const int *a_r, int *b_w, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = t < n ? a_r[t] : 0;
    for (int k = 1; k < 128; k *= 2) {
        __syncthreads();
        int v = t >= k ? s[t - k] : 0;
        __syncthreads();
        s[t] += v;
    }
    if (t < n) b_w[t] = s[t];
}
K d_matmul(const float *a_r, const float *b_r, float *c_w, int m, int n, int k) {
    int r = blockIdx.y * blockDim.y + threadIdx.y, q = ME;
    if (r >= m || q >= n) return;
    float s = 0;
    for (int i = 0; i < k; i++) s += a_r[r * k + i] * b_r[i * n + q];
    c_w[r * n + q] = s;
}
K d_matmul_tiled(const float *a_r, const float *b_r, float *c_w, int n) {
    __shared__ float x[8][8], y[8][8];
    int i = threadIdx.x, j = threadIdx.y, q = blockIdx.x * 8 + i, r = blockIdx.y * 8 + j;
    float s = 0;
    for (int t = 0; t < n; t += 8) {
        x[j][i] = a_r[r * n + t + i];
        y[j][i] = b_r[(t + j) * n + q];
        __syncthreads();
        for (int k = 0; k < 8; k++) s += x[j][k] * y[k][i];
        __syncthreads();
    }
    c_w[r * n + q] = s;
}
K d_long_strides(const float *a_r, float *c_rw, i64 lda, i64 ldc, float beta) {
    i64 r = blockIdx.y, q = ME;
    c_rw[r * ldc + q] = beta * c_rw[r * ldc + q] + a_r[r * lda + q];
}
K d_transpose(const u16 *a_r, u16 *b_w, int w, int h) {
    __shared__ u16 t[16][17];
    int x = blockIdx.x * 16, y = blockIdx.y * 16;
    if (x + threadIdx.x < w && y + threadIdx.y < h)
        t[threadIdx.y][threadIdx.x] = a_r[(y + threadIdx.y) * w + x + threadIdx.x];
    __syncthreads();
    if (y + threadIdx.x < h && x + threadIdx.y < w)
        b_w[(x + threadIdx.y) * h + y + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
struct pair { const float *from_r; float *to_w; int n; };
K d_struct_of_pointers(pair p) {
    if (ME < p.n) p.to_w[ME] = p.from_r[ME];
}
struct list { float *at_rw[16]; int n[16]; };
K d_chosen_by_block(list l) {
    float *p = l.at_rw[blockIdx.y];
    for (int i = ME; i < l.n[blockIdx.y]; i += blockDim.x) p[i] *= 3;
}
K d_each_of_a_list(list l, int count) {
    for (int k = 0; k < count; k++) l.at_rw[k][ME] = k + l.at_rw[k][ME];
}
K d_one_of_two(const float *a_r, const float *b_r, float *c_w, int which) {
    const float *p = which > 3 ? a_r : b_r;
    c_w[ME] = p[ME];
}
K d_swapped(float *a_rw, float *b_rw, int n) {
    for (int i = 0; i < n; i++) {
        a_rw[ME] = b_rw[ME + 1];
        float *t = a_rw;
        a_rw = b_rw;
        b_rw = t;
    }
}
K d_part(part p, u8 *b_w) {
    b_w[ME] = p.from_r[p.first + (int)threadIdx.x];
}
K d_maybe_null(const float *a_r, const float *bias_r, float *c_w) {
    float v = a_r[ME];
    if (bias_r) v += bias_r[threadIdx.x];
    c_w[ME] = v;
}
K d_unused_pointer(const float *a_r, float *b_w, float *never_x) {
    b_w[ME] = a_r[ME];
}
K d_elementary(const float *a_r, float *b_w) {
    float v = a_r[ME];
    b_w[ME] = sinf(v) * expf(v) + logf(v) / sqrtf(v) + tanhf(v) + powf(v, 2.3f);
}
K d_elementary_double(const double *a_r, double *b_w) {
    double v = a_r[ME];
    b_w[ME] = exp(v) + sqrt(v) / (v + 3) + log(v) + pow(v, 0.3);
}
K d_trigonometric_double(const double *a_r, double *b_w) {
    b_w[ME] = sin(a_r[ME]) + cos(a_r[ME] * 3);
}
K d_special_double(const double *a_r, double *b_w) {
    b_w[ME] = erf(a_r[ME]) + lgamma(a_r[ME]) + cbrt(a_r[ME]);
}
K d_divide_index(const int *a_r, int *b_w, int n, int d) {
    if (ME < n) b_w[ME / d] = a_r[ME % d];
}
K d_divide_long_index(const float *a_r, float *b_w, i64 d, i64 s) {
    i64 i = ME;
    b_w[i] = a_r[i / d * s + i % d];
}
K d_divide_floats(const float *a_r, const float *b_r, float *c_w) {
    c_w[ME] = a_r[ME] / b_r[ME] + 1 / a_r[ME] + sqrtf(b_r[ME]);
}
K d_local_array(const float *a_r, float *b_w, int n) {
    float t[24];
    for (int i = 0; i < 24; i++) t[i] = a_r[ME + i];
    float s = 0;
    for (int i = 0; i < n; i++) s += t[(i * 5 + n) % 24];
    b_w[ME] = s;
}
K d_spilled(const float *a_r, float *b_w, int n) {
    float t[160];
#pragma unroll
    for (int i = 0; i < 160; i++) t[i] = a_r[ME + i * n];
    __syncthreads();
    float s = 1;
#pragma unroll
    for (int i = 0; i < 160; i++) s = s * t[159 - i] + t[i * 3 % 160];
    b_w[ME] = s;
}
K d_dynamic_shared(const float *a_r, float *b_w) {
    extern __shared__ float s[];
    s[threadIdx.x] = a_r[ME];
    __syncthreads();
    b_w[ME] = s[threadIdx.x ^ 5];
}
K d_shared_or_global(const float *a_r, float *b_w, int n) {
    __shared__ float s[128];
    float *p = n ? s : b_w;
    p[threadIdx.x] = a_r[ME];
    __syncthreads();
    b_w[ME] = s[threadIdx.x ^ 1];
}
K d_normalise(const float *x_r, const float *g_r, float *y_w, int d, float eps) {
    const float *row = x_r + (i64)blockIdx.x * d;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < d; i += 32) {
        s += row[i];
        q += row[i] * row[i];
    }
    for (int k = 16; k; k >>= 1) {
        s += __shfl_xor_sync(ALL, s, k);
        q += __shfl_xor_sync(ALL, q, k);
    }
    float r = rsqrtf(q / d - s * s / d / d + eps);
    for (int i = threadIdx.x; i < d; i += 32) y_w[(i64)blockIdx.x * d + i] = (row[i] - s / d) * r * g_r[i];
}
K d_softmax(const float *x_r, float *y_w, int d) {
    float m = -1e30f, s = 0;
    for (int i = 0; i < d; i++) m = fmaxf(m, x_r[(i64)blockIdx.x * d + i]);
    for (int i = 0; i < d; i++) s += expf(x_r[(i64)blockIdx.x * d + i] - m);
    for (int i = threadIdx.x; i < d; i += 32) y_w[(i64)blockIdx.x * d + i] = expf(x_r[(i64)blockIdx.x * d + i] - m) / s;
}
K d_convolution(const float *x_r, const float *w_r, float *y_w, int width, int c, int r) {
    int oy = ME / width, ox = ME % width;
    float s = 0;
    for (int k = 0; k < c; k++)
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++) s += x_r[(k * width + oy + i) * width + ox + j] * w_r[(k * r + i) * r + j];
    y_w[ME] = s;
}
K d_stencil(const float *a_r, float *b_w, int w, int h) {
    int x = ME, y = blockIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    b_w[y * w + x] = a_r[y * w + x - 1] + a_r[y * w + x + 1] + a_r[(y - 1) * w + x] + a_r[(y + 1) * w + x];
}
K d_clock(i64 *t_w) {
    t_w[ME] = clock64();
}
K d_ballot(const int *a_r, u32 *b_w) {
    u32 m = __ballot_sync(ALL, a_r[ME] > 2);
    b_w[ME] = __popc(m) * 100 + __ffs(m);
}
K d_random(float *y_w, u64 seed) {
    u32 x = ME, k = (u32)seed;
    for (int i = 0; i < 7; i++) {
        x = __umulhi(x, 0xd2511f53) ^ k ^ (u32)(seed >> 32);
        k += 0x9e3779b9;
    }
    y_w[ME] = x * 2.3e-10f;
}
K d_switch(const float *a_r, float *b_w, int op) {
    float v = a_r[ME];
    switch (op) {
    case 0: v = sinf(v); break;
    case 1: v = v * v; break;
    case 2: v = expf(v); break;
    case 3: v = -v; break;
    case 4: v = logf(v); break;
    case 5: v = v + 3; break;
    case 6: v = 1 / v; break;
    }
    b_w[ME] = v;
}
__device__ __noinline__ float dot(const float *a, const float *b, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[n - i];
    return s;
}
K d_called(const float *a_r, const float *b_r, float *c_w) {
    c_w[ME] = dot(a_r, b_r, threadIdx.x) + dot(b_r, a_r, threadIdx.x + 1);
}
__device__ __noinline__ void put(float *to, float v) { to[threadIdx.x] = v; }
K d_called_to_store(const float *a_r, float *b_w) {
    put(b_w + blockIdx.x * 128, a_r[ME]);
}
K d_variable(float *a_w) {
    a_w[ME] = variable[threadIdx.x] + constant[threadIdx.x & 63];
    variable[threadIdx.x] = 1;
}
K d_round_up(const char *a_r, float *b_w) {
    const float *p = (const float *)(((u64)a_r + 255) & ~255ull);
    b_w[ME] = p[ME];
}
K d_peeled(const float *a_r, float *b_w, int n) {
    int head = (int)((u64)a_r & 15) / 4;
    const float4 *p = (const float4 *)(a_r - head);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) b_w[i] = p[i].x + p[i].w;
}
K d_prefetched(const float *a_r, float *b_w) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(a_r + ME + 512));
    b_w[ME] = a_r[ME];
}
K d_waits(volatile int *flag_r, int *b_w) {
    while (*flag_r != 1);
    b_w[ME] = 1;
}
K d_exchanged(u64 *a_rw, const u64 *b_r) {
    atomicExch(a_rw + ME, b_r[ME]);
    atomicMax(a_rw, b_r[ME + 1]);
}
K d_largest(float *m_rw, const float *a_r) {
    int *p = (int *)m_rw, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __float_as_int(fmaxf(a_r[ME], __int_as_float(seen))));
    } while (seen != old);
}
K d_async_copy(const float4 *a_r, float4 *b_w) {
    __shared__ float4 s[128];
    u32 d = (u32)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;" ::"r"(d), "l"(a_r + ME));
    __syncthreads();
    b_w[ME] = s[threadIdx.x ^ 3];
}
K d_tensor_core(const u32 *a_r, const u32 *b_r, float *c_w) {
    __shared__ u32 s[512];
    s[threadIdx.x] = a_r[threadIdx.x];
    s[threadIdx.x + 256] = b_r[threadIdx.x];
    __syncthreads();
    u32 p = (u32)__cvta_generic_to_shared(s + (threadIdx.x & 15) * 8), x, y, z, w, u, v;
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(u), "=r"(v) : "r"(p + 1024));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(x), "r"(y), "r"(z), "r"(w), "r"(u), "r"(v));
    c_w[threadIdx.x * 4] = d0 + d1;
    c_w[threadIdx.x * 4 + 1] = d2 + d3;
}
K d_bitonic(int *a_rw, int j, int k) {
    int i = ME, x = i ^ j;
    if (x <= i) return;
    int u = a_rw[i], v = a_rw[x];
    if ((u > v) == !(i & k)) {
        a_rw[i] = v;
        a_rw[x] = u;
    }
}
K d_byte_mask(const u8 *mask_r, const float *a_r, float *b_w) {
    if (mask_r[ME]) b_w[ME] = a_r[ME];
}
K d_three_dimensions(const float *a_r, float *b_w, int3 size) {
    int x = ME, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < size.x && y < size.y && z < size.z) b_w[(z * size.y + y) * size.x + x] = a_r[(x * size.y + y) * size.z + z];
}
K d_reversed_in_place(float *a_rw, int n) {
    float *p = a_rw + ME, *q = a_rw + n - 1 - ME, t = *p;
    *p = *q;
    *q = t;
}
K d_moments(const float *a_r, double *b_w, int n) {
    double s = 0, q = 0;
    for (int i = ME; i < n; i += gridDim.x * blockDim.x) {
        s += a_r[i];
        q += (double)a_r[i] * a_r[i];
    }
    b_w[2 * ME] = s / n;
    b_w[2 * ME + 1] = q / n - s / n * (s / n);
}
K d_look_back(volatile int *state_rw, volatile int *value_r, int *o_w) {
    int b = blockIdx.x - 1, s = 0;
    while (b >= 0) {
        int f;
        do f = state_rw[b]; while (!f);
        s += value_r[b];
        if (f == 2) break;
        b--;
    }
    o_w[blockIdx.x] = s;
    __threadfence();
    state_rw[blockIdx.x] = 2;
}
K d_any_of_block(const int *a_r, int *b_w) {
    b_w[ME] = __syncthreads_or(a_r[ME]) + __syncthreads_count(a_r[ME + 1]);
}
K d_dot_of_bytes(const int *a_r, const int *b_r, int *c_w) {
    c_w[ME] = __dp4a(a_r[ME], b_r[ME], 7);
}
K d_segmented(const float *a_r, float *b_w, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 33) {
        s += a_r[i];
        if (i % 3) s += __shfl_down_sync(__activemask(), s, 1);
    }
    b_w[ME] = s;
}
K d_asserted(const int *a_r, int *b_w, int n) {
    int v = a_r[ME];
    if (v < 0 || v > n) __assertfail("v", "k.cu", 1, "k", 1);
    b_w[ME] = v;
}
K d_cache_policies(const float *a_r, float *b_w) {
    store_hinted(b_w + ME, hinted(a_r + ME, evict_first()), evict_last());
    b_w[ME + 9000] = 1;
}
K d_policy_of_a_lane(const float *a_r, float *b_w) {
    b_w[ME] = hinted(a_r + ME, threadIdx.x & 1 ? evict_first() : evict_last());
}
K d_policy_on_one_path(const float *a_r, float *b_w, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += i > 3 ? hinted(a_r + i, evict_last()) : a_r[i + 7];
    store_hinted(b_w + ME, s, evict_first());
}
K d_hinted_atomics(float *a_rw) {
    float old;
    asm volatile("atom.global.add.L2::cache_hint.f32 %0, [%1], %2, %3;" : "=f"(old) : "l"(a_rw + ME), "f"(2.f), "l"(evict_last()));
    asm volatile("red.global.add.L2::cache_hint.f32 [%0], %1, %2;" : : "l"(a_rw + ME), "f"(old), "l"(evict_first()));
}
K d_hinted_copy(const float *a_r, float *b_w, int n) {
    __shared__ float4 s[128];
    for (int i = 0; i < n; i++) {
        u32 to = (u32)__cvta_generic_to_shared(s + threadIdx.x);
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" : : "r"(to), "l"(a_r + 4 * ME + i), "l"(evict_first()));
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        b_w[ME + i] = s[threadIdx.x ^ 1].x;
    }
}
