/* Runs one kernel over buffers of 2 MiB, twice, and prints their sum. Its image is a cubin whose code does what the
 * kernel here does.
 *
 * read_kernels KERNELS HOW BUFFERS: KERNELS is tests/reference/kernels.txt. HOW:
 *   adds      y += a x                         direct
 *   gathers   b = a[at]                        indexed
 *   numbers   the same code, and a is NULL     (the kernel here copies `at`)
 *   follows   o = t[0]                         follows an address in memory
 *   damaged   adds, with one instruction that does not exist
 *   late      adds, loaded when memory moves already, and waited for at the end alone
 *   library   adds, launched as a kernel of a library whose image stays where it is
 *   reloads   adds, and its module is loaded, unloaded and loaded again all the time; children come and go */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "device.h"
#include "emu.h"
#include "tests/c/code_cubin.h"

enum { BYTES = 2 << 20, COUNT = BYTES / 4, RELOADS = 40 };

USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuModuleUnload)
USE(cuLibraryLoadData)
USE(cuLibraryGetKernel)
USE(cuMemAlloc_v2)
USE(cuMemsetD32_v2)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpyDtoH_v2)
USE(cuCtxSynchronize)
USE(cuLaunchKernel)

static float *use(struct emu_launch *l, uint64_t start, int mode) {
    return emu_use(l, start, BYTES, mode);
}

static void adds(struct emu_launch *l) {
    const float *x = use(l, EMU_ARG(l, uint64_t, 0), EMU_READ);
    float *y = use(l, EMU_ARG(l, uint64_t, 1), EMU_UPDATE);
    for (int i = 0; i < COUNT; i++)
        y[i] += EMU_ARG(l, float, 2) * x[i];
}

static void gather(struct emu_launch *l, uint64_t from, uint64_t at, uint64_t to) {
    const float *a = from ? use(l, from, EMU_READ) : NULL, *index = use(l, at, EMU_READ);
    float *b = use(l, to, EMU_WRITE);
    for (int i = 0; i < COUNT; i++)
        b[i] = a ? a[((const int *)(const void *)index)[i] % COUNT] : index[i];
}

static void gathers(struct emu_launch *l) {
    gather(l, EMU_ARG(l, uint64_t, 0), EMU_ARG(l, uint64_t, 1), EMU_ARG(l, uint64_t, 2));
}

static void follows(struct emu_launch *l) {
    const uint64_t *t = emu_use(l, EMU_ARG(l, uint64_t, 0), sizeof *t, EMU_READ);
    memcpy(use(l, EMU_ARG(l, uint64_t, 1), EMU_WRITE), use(l, *t, EMU_READ), BYTES);
}

static const struct emu_param each[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}};
static const struct emu_param scaled[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};

static const struct program {
    const char *how, *like;
    struct emu_kernel kernel;
} programs[] = {
    {"adds", "d_axpy", {"adds", scaled, 4, adds}},          {"gathers", "i_gather", {"gathers", each, 4, gathers}},
    {"numbers", "i_gather", {"numbers", each, 4, gathers}}, {"follows", "f_table", {"follows", each, 2, follows}},
    {"damaged", "d_axpy", {"damaged", scaled, 4, adds}},    {"reloads", "d_axpy", {"reloads", scaled, 4, adds}},
    {"late", "d_axpy", {"late", scaled, 4, adds}},          {"library", "d_axpy", {"library", scaled, 4, adds}},
};

static struct emu_image image = {EMU_MAGIC, NULL, 1, NULL, 0};
static struct bytes cubin;

static void make_cubin(const char *file, const struct program *p) {
    cubin = code_cubin(file, p->how, p->like);
    image.kernels = &p->kernel;
    ((Elf64_Ehdr *)(void *)cubin.at)->e_entry = (uintptr_t)&image;
    struct code_line l = code_line_of(file, p->like);
    uint8_t *code = memmem(cubin.at, cubin.count, l.text.at, l.text.count);
    if (strcmp(p->how, "damaged") == 0)
        memset(code + 64, 0xff, 16);
    free(l.text.at);
}

static CUfunction load_library(const char *name) {
    CUlibrary library;
    CUkernel kernel;
    CUlibraryOption preserved = 1;
    void *yes = (void *)1;
    MUST(cuLibraryLoadData(&library, cubin.at, NULL, NULL, 0, &preserved, &yes, 1));
    MUST(cuLibraryGetKernel(&kernel, library, name));
    return (CUfunction)kernel;
}

static CUfunction load(CUmodule *module, const char *name) {
    CUfunction f;
    if (strcmp(name, "library") == 0)
        return load_library(name);
    uint8_t *passing = memcpy(malloc(cubin.count), cubin.at, cubin.count);
    MUST(cuModuleLoadData(module, passing));
    memset(passing, 0, cubin.count);
    free(passing);
    MUST(cuModuleGetFunction(&f, *module, name));
    return f;
}

/* The thread that reads kernels sleeps; true where there is none. */
static int reader_sleeps(void) {
    DIR *tasks = opendir("/proc/self/task");
    int sleeps = 1;
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], name[64] = "", state = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        FILE *stat = fopen(path, "r");
        if (stat && fscanf(stat, "%*d (%63[^)]) %c", name, &state) == 2 && strcmp(name, "ulms-code") == 0)
            sleeps = state == 'S';
        if (stat)
            fclose(stat);
    }
    closedir(tasks);
    return sleeps;
}

static void wait_until_read(void) {
    for (int quiet = 0; quiet < 20; quiet = reader_sleeps() ? quiet + 1 : 0)
        usleep(1000);
}

static CUdeviceptr first, second, table;

static void launch(const char *how, CUfunction f, CUdeviceptr buffer) {
    float a = 2;
    int n = COUNT;
    CUdeviceptr none = 0;
    void *adding[] = {&first, &buffer, &a, &n}, *gathering[] = {&first, &second, &buffer, &n},
         *numbers[] = {&none, &second, &buffer, &n}, *following[] = {&table, &buffer};
    void **arguments = strcmp(how, "gathers") == 0   ? gathering
                       : strcmp(how, "numbers") == 0 ? numbers
                       : strcmp(how, "follows") == 0 ? following
                                                     : adding;
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

static void reload(const char *how, CUdeviceptr buffer) {
    CUmodule module;
    for (int i = 0; i < RELOADS; i++) {
        launch(how, load(&module, how), buffer);
        pid_t child = i % 8 ? 0 : fork();
        if (i % 8 == 0 && child == 0)
            _exit(0);
        if (child && waitpid(child, NULL, 0) != child)
            abort();
        MUST(cuModuleUnload(module));
    }
}

int main(int argc, char **argv) {
    const struct program *p = programs;
    while (argc == 4 && strcmp(p->how, argv[2]) != 0)
        p++;
    int buffers = atoi(argv[3]);
    CUdeviceptr *buffer = malloc((size_t)buffers * sizeof *buffer);
    CUmodule module;
    use_device();
    make_cubin(argv[1], p);
    CUfunction f = strcmp(p->how, "late") == 0 ? NULL : load(&module, p->how);
    MUST(cuMemAlloc_v2(&first, BYTES));
    MUST(cuMemAlloc_v2(&second, BYTES));
    MUST(cuMemAlloc_v2(&table, 4096));
    MUST(cuMemsetD32_v2(first, 0x40000000, COUNT));
    MUST(cuMemsetD32_v2(second, 77, COUNT));
    MUST(cuMemcpyHtoD_v2(table, &first, sizeof first));
    for (int i = 0; i < buffers; i++) {
        MUST(cuMemAlloc_v2(&buffer[i], BYTES));
        MUST(cuMemsetD32_v2(buffer[i], 0x3f800000, COUNT));
        if (i == 0 && strcmp(p->how, "reloads") == 0)
            reload(p->how, buffer[0]);
        if (i == 0 && f) {
            launch(p->how, f, buffer[0]);
            wait_until_read();
        }
    }
    f = f ? f : load(&module, p->how);
    for (int i = 0; i < 2 * buffers; i++) {
        if (i == 2 * buffers - 1)
            wait_until_read();
        launch(p->how, f, buffer[i % buffers]);
    }
    double sum = 0;
    float *content = malloc(BYTES);
    for (int i = 0; i < buffers; i++) {
        MUST(cuMemcpyDtoH_v2(content, buffer[i], BYTES));
        sum += content[0] + content[COUNT - 1];
    }
    MUST(cuCtxSynchronize());
    printf("%g\n", sum);
    free(content);
    free(buffer);
    free(cubin.at);
}
