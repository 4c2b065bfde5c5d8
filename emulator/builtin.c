/* The kernels of "emu:builtin". Counts are 64-bit numbers of elements, elements are float unless said. */
#include "emu.h"
#include "module.h"

#include <math.h>

typedef uint64_t address;

static const float *in(struct emu_launch *l, address a, uint64_t n) {
    return emu_use(l, a, n * sizeof(float), EMU_READ);
}

static float *out(struct emu_launch *l, address a, uint64_t n) {
    return emu_use(l, a, n * sizeof(float), EMU_WRITE);
}

static float *update(struct emu_launch *l, address a, uint64_t n) {
    return emu_use(l, a, n * sizeof(float), EMU_UPDATE);
}

/* nop() */
static void nop(struct emu_launch *l) {
}

/* spin(ns): computes for so long on the modelled device. */
static void spin(struct emu_launch *l) {
    emu_spend(l, EMU_ARG(l, uint64_t, 0));
}

/* fill(y, value, n) */
static void fill(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    float *y = out(l, EMU_ARG(l, address, 0), n), value = EMU_ARG(l, float, 1);
    for (uint64_t i = 0; i < n; i++)
        y[i] = value;
}

/* copy(y, x, n) */
static void copy(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const float *x = in(l, EMU_ARG(l, address, 1), n);
    float *y = out(l, EMU_ARG(l, address, 0), n);
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i];
}

/* scale(y, factor, n): y *= factor */
static void scale(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    float *y = update(l, EMU_ARG(l, address, 0), n), factor = EMU_ARG(l, float, 1);
    for (uint64_t i = 0; i < n; i++)
        y[i] *= factor;
}

/* axpy(a, x, y, n): y += a x */
static void axpy(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 3);
    float a = EMU_ARG(l, float, 0);
    const float *x = in(l, EMU_ARG(l, address, 1), n);
    float *y = update(l, EMU_ARG(l, address, 2), n);
    for (uint64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* add(y, a, b, n): y = a + b */
static void add(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 3);
    const float *a = in(l, EMU_ARG(l, address, 1), n), *b = in(l, EMU_ARG(l, address, 2), n);
    float *y = out(l, EMU_ARG(l, address, 0), n);
    for (uint64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

/* relu(y, x, n) */
static void relu(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const float *x = in(l, EMU_ARG(l, address, 1), n);
    float *y = out(l, EMU_ARG(l, address, 0), n);
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

/* relu_backward(dx, dy, x, n) */
static void relu_backward(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 3);
    const float *dy = in(l, EMU_ARG(l, address, 1), n), *x = in(l, EMU_ARG(l, address, 2), n);
    float *dx = out(l, EMU_ARG(l, address, 0), n);
    for (uint64_t i = 0; i < n; i++)
        dx[i] = x[i] > 0 ? dy[i] : 0;
}

/* reduce_sum(sum, x, n): sum is one float */
static void reduce_sum(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const float *x = in(l, EMU_ARG(l, address, 1), n);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i];
    *out(l, EMU_ARG(l, address, 0), 1) = (float)sum;
}

/* gemm(c, a, b, m, n, k, alpha, beta, transposed): c[m][n] = alpha a[m][k] b[k][n] + beta c, rows contiguous.
 * transposed: bit 0: a is stored as [k][m]; bit 1: b is stored as [n][k]. With beta 0, c is not read. */
static void gemm(struct emu_launch *l) {
    uint64_t m = EMU_ARG(l, uint32_t, 3), n = EMU_ARG(l, uint32_t, 4), k = EMU_ARG(l, uint32_t, 5);
    float alpha = EMU_ARG(l, float, 6), beta = EMU_ARG(l, float, 7);
    uint32_t transposed = EMU_ARG(l, uint32_t, 8);
    const float *a = in(l, EMU_ARG(l, address, 1), m * k), *b = in(l, EMU_ARG(l, address, 2), k * n);
    float *c = emu_use(l, EMU_ARG(l, address, 0), m * n * sizeof(float), beta != 0 ? EMU_UPDATE : EMU_WRITE);
    uint64_t a_row = transposed & 1 ? 1 : k, a_column = transposed & 1 ? m : 1;
    uint64_t b_row = transposed & 2 ? 1 : n, b_column = transposed & 2 ? k : 1;
    for (uint64_t i = 0; i < m; i++) {
        for (uint64_t j = 0; j < n; j++) {
            float sum = 0;
            for (uint64_t p = 0; p < k; p++)
                sum += a[i * a_row + p * a_column] * b[p * b_row + j * b_column];
            c[i * n + j] = alpha * sum + (beta != 0 ? beta * c[i * n + j] : 0);
        }
    }
}

/* embedding(y, table, indices, n, width): row i of y is row indices[i] (int32) of the table. Touches only those rows.
 */
static void embedding(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint32_t, 3), width = EMU_ARG(l, uint32_t, 4);
    const int32_t *indices = emu_use(l, EMU_ARG(l, address, 2), n * sizeof *indices, EMU_READ);
    float *y = out(l, EMU_ARG(l, address, 0), n * width);
    for (uint64_t i = 0; i < n; i++) {
        const float *row = in(l, EMU_ARG(l, address, 1) + (uint64_t)(int64_t)indices[i] * width * sizeof *row, width);
        for (uint64_t j = 0; j < width; j++)
            y[i * width + j] = row[j];
    }
}

/* gather(y, pointers, n, width): row i of y is the `width` floats at pointers[i]: hidden pointers. */
static void gather(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint32_t, 2), width = EMU_ARG(l, uint32_t, 3);
    const address *pointers = emu_use(l, EMU_ARG(l, address, 1), n * sizeof *pointers, EMU_READ);
    float *y = out(l, EMU_ARG(l, address, 0), n * width);
    for (uint64_t i = 0; i < n; i++) {
        const float *row = in(l, pointers[i], width);
        for (uint64_t j = 0; j < width; j++)
            y[i * width + j] = row[j];
    }
}

/* write_hidden(value, n): fills the n floats at the address in the module's variable `hidden`. */
static void write_hidden(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 1);
    const address *hidden = emu_use(l, emu_variable(l, "hidden"), sizeof *hidden, EMU_READ);
    float *y = out(l, *hidden, n), value = EMU_ARG(l, float, 0);
    for (uint64_t i = 0; i < n; i++)
        y[i] = value;
}

/* adam(tensors, rate, step): a multi-tensor optimizer; the addresses stand inside one structure passed by value. */
enum { ADAM_TENSORS = 8 };

struct adam_tensors {
    uint32_t count, reserved;
    address weight[ADAM_TENSORS], gradient[ADAM_TENSORS], mean[ADAM_TENSORS], square[ADAM_TENSORS];
    uint64_t elements[ADAM_TENSORS];
};

static void adam(struct emu_launch *l) {
    struct adam_tensors t = EMU_ARG(l, struct adam_tensors, 0);
    float rate = EMU_ARG(l, float, 1);
    uint32_t step = EMU_ARG(l, uint32_t, 2);
    float mean_left = 1, square_left = 1;
    for (uint32_t i = 0; i < step; i++) {
        mean_left *= 0.9f;
        square_left *= 0.999f;
    }
    for (uint32_t k = 0; k < t.count && k < ADAM_TENSORS; k++) {
        float *w = update(l, t.weight[k], t.elements[k]);
        const float *g = in(l, t.gradient[k], t.elements[k]);
        float *m = update(l, t.mean[k], t.elements[k]), *s = update(l, t.square[k], t.elements[k]);
        for (uint64_t i = 0; i < t.elements[k]; i++) {
            m[i] = 0.9f * m[i] + 0.1f * g[i];
            s[i] = 0.999f * s[i] + 0.001f * g[i] * g[i];
            w[i] -= rate * (m[i] / (1 - mean_left)) / (__builtin_sqrtf(s[i] / (1 - square_left)) + 1e-8f);
        }
    }
}

#define PARAMS(...)                                                                                                    \
    (const struct emu_param[]){__VA_ARGS__}, sizeof((struct emu_param[]){__VA_ARGS__}) / sizeof(struct emu_param)
#define P(offset, size) {offset, size}

static const struct emu_kernel kernels[] = {
    {"nop", NULL, 0, nop},
    {"spin", PARAMS(P(0, 8)), spin},
    {"fill", PARAMS(P(0, 8), P(8, 4), P(16, 8)), fill},
    {"copy", PARAMS(P(0, 8), P(8, 8), P(16, 8)), copy},
    {"scale", PARAMS(P(0, 8), P(8, 4), P(16, 8)), scale},
    {"axpy", PARAMS(P(0, 4), P(8, 8), P(16, 8), P(24, 8)), axpy},
    {"add", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 8)), add},
    {"relu", PARAMS(P(0, 8), P(8, 8), P(16, 8)), relu},
    {"relu_backward", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 8)), relu_backward},
    {"reduce_sum", PARAMS(P(0, 8), P(8, 8), P(16, 8)), reduce_sum},
    {"gemm", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 4), P(28, 4), P(32, 4), P(36, 4), P(40, 4), P(44, 4)), gemm},
    {"embedding", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 4), P(28, 4)), embedding},
    {"gather", PARAMS(P(0, 8), P(8, 8), P(16, 4), P(20, 4)), gather},
    {"write_hidden", PARAMS(P(0, 4), P(8, 8)), write_hidden},
    {"adam",
     PARAMS(P(0, sizeof(struct adam_tensors)), P(sizeof(struct adam_tensors), 4),
            P(sizeof(struct adam_tensors) + 4, 4)),
     adam},
};

static const struct emu_variable variables[] = {
    {"hidden", sizeof(address), NULL},
};

const struct emu_image builtin_image = {
    .magic = {'E', 'M', 'U', 'I', 'M', 'A', 'G', 'E'},
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .variables = variables,
    .variable_count = sizeof variables / sizeof *variables,
};
