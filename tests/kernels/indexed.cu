K i_gather(const float *a_r, const int *at_r, float *b_w, int n) {
    if (ME < n) b_w[ME] = a_r[at_r[ME]];
}
K i_gather_long(const double *a_r, const i64 *at_r, double *b_w) {
    b_w[ME] = a_r[at_r[ME]];
}
K i_gather_bytes(const u8 *a_r, const i64 *at_r, u8 *b_w) {
    b_w[ME] = a_r[at_r[ME]];
}
K i_gather_short(const u16 *a_r, const u16 *at_r, u16 *b_w) {
    b_w[ME] = a_r[at_r[ME]];
}
K i_scatter(float *a_w, const u32 *at_r, const float *v_r) {
    a_w[at_r[ME]] = v_r[ME];
}
K i_part(part p, const int *at_r, u8 *b_w) {
    b_w[ME] = p.from_r[p.first + at_r[ME]];
}
K i_scatter_add(float *a_rw, const i64 *at_r, const float *v_r) {
    atomicAdd(a_rw + at_r[ME], v_r[ME]);
}
K i_rows(const float4 *w_r, const i64 *row_r, float4 *b_w, i64 d) {
    for (i64 i = threadIdx.x; i < d; i += blockDim.x) b_w[blockIdx.x * d + i] = w_r[row_r[blockIdx.x] * d + i];
}
K i_sparse_product(const int *row_r, const int *col_r, const float *v_r, const float *x_r, float *y_w, int n) {
    if (ME >= n) return;
    float s = 0;
    for (int j = row_r[ME]; j < row_r[ME + 1]; j++) s += v_r[j] * x_r[col_r[j]];
    y_w[ME] = s;
}
K i_sparse_product_long(const i64 *row_r, const i64 *col_r, const double *v_r, const double *x_r, double *y_w) {
    i64 r = ME;
    double s = 0;
    for (i64 j = row_r[r]; j < row_r[r + 1]; j++) s += v_r[j] * x_r[col_r[j]];
    y_w[r] = s;
}
K i_pages(const float *cache_r, const int *table_r, const float *q_r, float *o_w, int n, int page, int stride) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s += q_r[i & 63] * cache_r[(i64)table_r[blockIdx.x * 64 + i / page] * stride + i % page];
    o_w[ME] = s;
}
K i_histogram(const u8 *a_r, u32 *h_rw, int n) {
    for (int i = ME; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h_rw[a_r[i]], 1);
}
K i_radix(const u32 *k_r, const u32 *start_r, u32 *o_w, int shift) {
    __shared__ u32 c[16];
    if (threadIdx.x < 16) c[threadIdx.x] = start_r[threadIdx.x];
    __syncthreads();
    u32 v = k_r[ME];
    o_w[atomicAdd(&c[v >> shift & 15], 1)] = v;
}
K i_hash_insert(u64 *keys_rw, int *values_w, const u64 *k_r, u32 mask) {
    u64 key = k_r[ME];
    for (u32 h = (u32)(key * 0x9e3779b97f4a7c15ull >> 40);; h++) {
        u64 old = atomicCAS(&keys_rw[h & mask], ~0ull, key);
        if (old == ~0ull || old == key) {
            values_w[h & mask] = (int)key;
            return;
        }
    }
}
K i_chain_of_indices(const int *next_r, const float *v_r, float *o_w, int head) {
    float s = 0;
    for (int i = head; i >= 0; i = next_r[i]) s += v_r[i];
    o_w[ME] = s;
}
struct node { float split; int left, right; };
K i_tree(const node *t_r, const float *x_r, float *o_w) {
    int n = 0;
    for (int i = 0; i < 12; i++) n = t_r[n].split < x_r[ME] ? t_r[n].left : t_r[n].right;
    o_w[ME] = t_r[n].split;
}
K i_blob(const char *blob_r, const i64 *offset_r, float *o_w) {
    const float *p = (const float *)(blob_r + offset_r[blockIdx.x]);
    o_w[ME] = p[threadIdx.x];
}
K i_strides(const float *a_r, float *o_w, const i64 *shape_r, const i64 *stride_r, int dims) {
    i64 rest = ME, at = 0;
    for (int d = dims - 1; d >= 0; d--) {
        at += rest % shape_r[d] * stride_r[d];
        rest /= shape_r[d];
    }
    o_w[ME] = a_r[at];
}
K i_clamped(const float *a_r, const int *at_r, float *o_w, int n) {
    o_w[ME] = a_r[min(max(at_r[ME], 0), n - 1)];
}
K i_negative_index(const float *a_r, const i64 *at_r, float *o_w, i64 n) {
    i64 i = at_r[ME];
    if (i < 0) i += n;
    o_w[ME] = a_r[i];
}
K i_bisect(const float *a_r, const float *x_r, int *o_w, int n) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int m = (lo + hi) / 2;
        if (a_r[m] < x_r[ME]) lo = m + 1;
        else hi = m;
    }
    o_w[ME] = lo;
}
K i_bisect_pointer(const float *a_r, const float *x_r, int *o_w, i64 n) {
    const float *p = a_r;
    while (n > 0) {
        i64 h = n / 2;
        if (p[h] < x_r[ME]) {
            p += h + 1;
            n -= h + 1;
        } else n = h;
    }
    o_w[ME] = (int)(p - a_r);
}
K i_merge(const int *a_r, const int *b_r, int *o_w, int n) {
    int i = 0, j = 0;
    for (int k = 0; k < n; k++) o_w[k] = a_r[i] <= b_r[j] ? a_r[i++] : b_r[j++];
}
K i_merge_pointers(const int *a_r, const int *b_r, int *o_w, int n) {
    for (int k = 0; k < n; k++) *o_w++ = *a_r <= *b_r ? *a_r++ : *b_r++;
}
K i_frontier(const int *row_r, const int *col_r, int *level_rw, const int *from_r, int now) {
    int v = from_r[ME];
    for (int j = row_r[v]; j < row_r[v + 1]; j++) atomicCAS(&level_rw[col_r[j]], -1, now);
}
K i_experts(const float *x_r, const float *w_r, const int *expert_r, float *o_w, int d, i64 size) {
    const float *w = w_r + expert_r[blockIdx.x] * size;
    float s = 0;
    for (int i = 0; i < d; i++) s += x_r[(i64)blockIdx.x * d + i] * w[i * d + threadIdx.x];
    o_w[ME] = s;
}
K i_chosen_by_value(const float *a_r, const float *b_r, const int *which_r, float *o_w) {
    const float *p = which_r[ME] ? a_r : b_r;
    o_w[ME] = p[ME];
}
K i_through_shared(const float *a_r, const int *at_r, float *o_w) {
    __shared__ int s[128];
    s[threadIdx.x] = at_r[ME];
    __syncthreads();
    o_w[ME] = a_r[s[threadIdx.x ^ 9]];
}
K i_through_shuffle(const float *a_r, const i64 *at_r, float *o_w) {
    o_w[ME] = a_r[__shfl_sync(ALL, at_r[ME], 5)];
}
K i_of_variable(float *o_w, const int *at_r) {
    o_w[ME] = variable[at_r[ME] & 511];
}
K i_of_constant(float *o_w, const int *at_r) {
    o_w[ME] = constant[at_r[ME] & 63];
}
K i_local_by_value(const float *a_r, const int *at_r, float *o_w) {
    float t[16];
    for (int i = 0; i < 16; i++) t[i] = a_r[ME + i];
    o_w[ME] = t[at_r[ME] & 15];
}
K i_ranges(const int *begin_r, const float *a_r, float *o_w) {
    float s = 0;
    for (int i = begin_r[blockIdx.x] + threadIdx.x; i < begin_r[blockIdx.x + 1]; i += blockDim.x) s += a_r[i];
    o_w[ME] = s;
}
K i_two_levels(const float *a_r, const int *outer_r, const int *inner_r, float *o_w) {
    o_w[ME] = a_r[inner_r[outer_r[ME]]];
}
K i_scaled_index(const float *a_r, const int *at_r, float *o_w, i64 scale) {
    o_w[ME] = a_r[at_r[ME] * scale + threadIdx.x];
}
K i_async_rows(const float4 *a_r, const int *row_r, float4 *b_w) {
    __shared__ float4 s[128];
    u32 d = (u32)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;" ::"r"(d), "l"(a_r + row_r[ME] * 128));
    __syncthreads();
    b_w[ME] = s[threadIdx.x ^ 3];
}
K i_hinted_gather(const float *a_r, const int *index_r, float *b_w) {
    int k = __float_as_int(hinted((const float *)index_r + ME, evict_first()));
    store_hinted(b_w + ME, hinted(a_r + k, evict_last()), evict_first());
}
