/* Handles of loaded images, with a stand-in for the driver: the files under test are taken in whole. */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>

#include "code_cubin.h"

#include "interpose/record/describe.c"
#include "interpose/record/image.c"
#include "interpose/wrappers/module.c"

/* --- the driver: handles are numbers that the test chooses --- */

struct session session;
bool session_on = true;

static int version = 12020; /* names from 12.3, parameters from 12.4 */
static CUresult answer;     /* of every call */
static __thread uintptr_t next_handle;
static const char *driver_name;

static CUresult fake_version(int *out) {
    *out = version;
    return CUDA_SUCCESS;
}

static CUresult fake_name(const char **name, void *handle) {
    (void)handle;
    *name = driver_name;
    return driver_name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* One parameter of 4 bytes. */
static CUresult fake_parameter(void *handle, size_t i, size_t *offset, size_t *size) {
    (void)handle;
    *offset = 0;
    *size = 4;
    return i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_load(void **handle) {
    if (answer == CUDA_SUCCESS)
        *handle = (void *)next_handle;
    return answer;
}

static CUresult fake_unload(void) {
    return answer;
}

static uintptr_t owner; /* of any handle, as the driver tells; 0: it does not */

static CUresult fake_owner(void **out, void *handle) {
    (void)handle;
    *out = (void *)owner;
    return owner ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void *api_real[API_COUNT][2];

void *real_first(enum api api, int variant) {
    (void)variant;
    switch (api) {
    case API_cuDriverGetVersion:
        return (void *)fake_version;
    case API_cuModuleUnload:
    case API_cuLibraryUnload:
        return (void *)fake_unload;
    default: /* all others give a handle through their first argument */
        return (void *)fake_load;
    }
}

void *real_find(enum api api, int variant) {
    (void)variant;
    if (api == API_cuFuncGetModule || api == API_cuKernelGetLibrary)
        return (void *)fake_owner;
    bool asks_name = api == API_cuFuncGetName || api == API_cuKernelGetName;
    return asks_name ? (void *)fake_name : (void *)fake_parameter;
}

void memory_note(addr_t start, uint64_t bytes, enum memory_kind kind, uint64_t owner) {
    (void)start, (void)bytes, (void)kind, (void)owner;
}

void memory_forget(uint64_t owner) {
    (void)owner;
}

/* --- a program that loads --- */

static const uint32_t one[] = {8, 0}, three[] = {8, 4, 24, 0};

static CUmodule load(uintptr_t handle, const void *image) {
    CUmodule module = NULL;
    next_handle = handle;
    CHECK_EQ(custom_cuModuleLoadData(0, &module, image), CUDA_SUCCESS);
    CHECK_EQ(module, handle);
    return module;
}

static uint64_t get_function(uintptr_t handle, CUmodule module, const char *name) {
    CUfunction function = NULL;
    next_handle = handle;
    CHECK_EQ(custom_cuModuleGetFunction(0, &function, module, name), CUDA_SUCCESS);
    return (uintptr_t)function;
}

/* Parameters the handle is known to have; -1: not known. */
static int parameters_of(uint64_t handle, const char *name) {
    static __thread struct layout layout;
    layout.known = false;
    layout.parameters = 0;
    strcpy(layout.name, "?");
    describe(handle, &layout);
    CHECK_STR(layout.name, name);
    return layout.known ? (int)layout.parameters : -1;
}

TEST(a_function_of_a_module) {
    struct bytes cubin = cubin_of("k", three);
    CUmodule module = load(100, cubin.at);
    memset(cubin.at, 0, cubin.count); /* the image is the program's, which may be done with it */
    free(cubin.at);
    uint64_t k = get_function(200, module, "k");
    CHECK_EQ(get_function(200, module, "k"), k);
    CHECK_EQ(parameters_of(k, "k"), 3);
    CHECK_EQ(parameters_of(get_function(201, module, "another"), "another"), -1);
    CHECK_EQ(parameters_of(300, "?"), -1);
}

TEST(every_way_to_load) {
    struct bytes cubin = cubin_of("k", three), fat = fat_begin();
    fat_add(&fat, ENTRY_CUBIN, cubin.at, cubin.count);
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    char file[32];
    int fd = memfd_create("cubin", 0);
    CHECK(fd >= 0 && write(fd, cubin.at, cubin.count) == (ssize_t)cubin.count);
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);

    for (int way = 0; way < 4; way++) {
        next_handle = 100 + (uintptr_t)way;
        CUresult status = way == 0   ? custom_cuModuleLoadDataEx(0, &module, cubin.at, 0, NULL, NULL)
                          : way == 1 ? custom_cuModuleLoadFatBinary(0, &module, fat.at)
                          : way == 2 ? custom_cuModuleLoad(0, &module, file)
                                     : custom_cuModuleLoadData(0, &module, fat.at);
        CHECK_EQ(status, CUDA_SUCCESS);
        CHECK_EQ(parameters_of(get_function(200 + (uintptr_t)way, module, "k"), "k"), 3);
    }
    for (int way = 0; way < 2; way++) {
        next_handle = 300 + (uintptr_t)way;
        CUresult status = way == 0 ? custom_cuLibraryLoadData(0, &library, fat.at, NULL, NULL, 0, NULL, NULL, 0)
                                   : custom_cuLibraryLoadFromFile(0, &library, file, NULL, NULL, 0, NULL, NULL, 0);
        CHECK_EQ(status, CUDA_SUCCESS);
        next_handle = 400 + (uintptr_t)way;
        CHECK_EQ(custom_cuLibraryGetKernel(0, &kernel, library, "k"), CUDA_SUCCESS);
        CHECK_EQ(parameters_of((uintptr_t)kernel, "k"), 3);
    }
    close(fd);
    free(cubin.at);
    free(fat.at);
}

TEST(the_same_kernel_by_other_handles) {
    struct bytes cubin = cubin_of("k", three);
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUmodule module;
    next_handle = 100;
    custom_cuLibraryLoadData(0, &library, cubin.at, NULL, NULL, 0, NULL, NULL, 0);
    next_handle = 101;
    custom_cuLibraryGetKernel(0, &kernel, library, "k");
    next_handle = 102;
    custom_cuKernelGetFunction(0, &function, kernel);
    next_handle = 103;
    custom_cuLibraryGetModule(0, &module, library);
    get_function(104, module, "k");
    for (uint64_t handle = 101; handle <= 104; handle++)
        CHECK_EQ(parameters_of(handle, handle == 103 ? "?" : "k"), handle == 103 ? -1 : 3);
    CHECK_EQ(custom_cuLibraryUnload(0, library), CUDA_SUCCESS);
    for (uint64_t handle = 100; handle <= 104; handle++)
        CHECK_EQ(parameters_of(handle, "?"), -1);
    CHECK_EQ(handles.count, 0);
    free(cubin.at);
}

TEST(an_unload_ends_what_came_from_it) {
    struct bytes small = cubin_of("k", one), large = cubin_of("k", three);
    CUmodule first = load(100, small.at), second = load(101, large.at);
    uint64_t a = get_function(200, first, "k"), b = get_function(201, second, "k");
    answer = CUDA_ERROR_INVALID_HANDLE;
    CHECK_EQ(custom_cuModuleUnload(0, first), CUDA_ERROR_INVALID_HANDLE);
    answer = CUDA_SUCCESS;
    CHECK_EQ(parameters_of(a, "k"), 1);
    CHECK_EQ(parameters_of(get_function(202, first, "k"), "k"), 1);
    CHECK_EQ(custom_cuModuleUnload(0, first), CUDA_SUCCESS);
    CHECK_EQ(parameters_of(a, "?"), -1);
    CHECK_EQ(parameters_of(b, "k"), 3);
    CHECK_EQ(custom_cuModuleUnload(0, first), CUDA_SUCCESS); /* unknown by now */
    CHECK_EQ(custom_cuModuleUnload(0, second), CUDA_SUCCESS);
    CHECK_EQ(handles.count, 0);
    free(small.at);
    free(large.at);
}

/* A context that goes takes its modules with it unseen; the driver then gives their handles again. */
TEST(handles_come_back_without_an_unload) {
    struct bytes small = cubin_of("k", one), large = cubin_of("k", three);
    CUmodule old = load(100, small.at);
    get_function(200, old, "k");
    get_function(201, old, "k");
    CUmodule again = load(100, large.at);
    CHECK_EQ(parameters_of(201, "?"), -1);
    CHECK_EQ(parameters_of(get_function(200, again, "k"), "k"), 3);
    CUmodule other = load(101, small.at);
    CHECK_EQ(parameters_of(get_function(200, other, "k"), "k"), 1);
    custom_cuModuleUnload(0, again); /* no longer the owner of 200 */
    CHECK_EQ(parameters_of(200, "k"), 1);
    custom_cuModuleUnload(0, other);
    CHECK_EQ(handles.count, 0);
    free(small.at);
    free(large.at);
}

TEST(images_that_tell_nothing) {
    CUmodule module = load(100, "//\n.version 8.0\n");
    CHECK_EQ(parameters_of(get_function(200, module, "k"), "k"), -1);
    next_handle = 101;
    CHECK_EQ(custom_cuModuleLoad(0, &module, "/no/such/file"), CUDA_SUCCESS);
    CHECK_EQ(parameters_of(get_function(201, module, "k"), "k"), -1);
}

TEST(a_failed_call_leaves_no_trace) {
    struct bytes cubin = cubin_of("k", three);
    CUmodule module = (CUmodule)7;
    CUfunction function = (CUfunction)8;
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(custom_cuModuleLoadData(0, &module, cubin.at), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(custom_cuModuleLoadData(0, NULL, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(custom_cuModuleGetFunction(0, &function, module, "k"), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(module, 7);
    CHECK_EQ(function, 8);
    CHECK_EQ(handles.count, 0);
    free(cubin.at);
}

TEST(a_driver_that_names_is_asked) {
    struct bytes cubin = cubin_of("k", three);
    version = 12030;
    uint64_t k = get_function(200, load(100, cubin.at), "k");
    CHECK_EQ(parameters_of(k, "k"), 3);
    driver_name = "as the driver has it";
    CHECK_EQ(parameters_of(k, driver_name), 3);
    free(cubin.at);
}

TEST(a_driver_that_tells_all_is_asked) {
    struct bytes cubin = cubin_of("k", three);
    version = 12040;
    driver_name = "as the driver has it";
    CHECK_EQ(parameters_of(get_function(200, load(100, cubin.at), "k"), driver_name), 1);
    CHECK_EQ(handles.count, 0);
    free(cubin.at);
}

TEST(recording_is_off) {
    struct bytes cubin = cubin_of("k", three);
    session_on = false;
    CUmodule module = load(100, cubin.at);
    get_function(200, module, "k");
    custom_cuModuleUnload(0, module);
    CHECK_EQ(handles.count, 0);
    free(cubin.at);
}

/* --- code --- */

static bool has_code(uint64_t handle) {
    static struct layout layout;
    layout.code = NULL;
    describe(handle, &layout);
    return layout.code;
}

static CUlibrary load_library(uintptr_t handle, const void *image, CUjit_option jit, CUlibraryOption option) {
    CUlibrary library = NULL;
    void *value = (void *)1;
    next_handle = handle;
    CHECK_EQ(custom_cuLibraryLoadData(0, &library, image, &jit, &value, 1, &option, &value, 1), CUDA_SUCCESS);
    return library;
}

TEST(the_code_of_handles) {
    enum { NONE = -1, PRESERVED = 1, LOG_BUFFER = 3, GLOBAL_SYMBOLS = 17 };
    struct bytes cubin = code_cubin(KERNELS, "k", "i_gather");
    version = 12040;
    driver_name = "k";
    kernel_code_begin(CODE_SM);
    CUmodule module = load(100, cubin.at);
    uint64_t k = get_function(200, module, "k"), other = get_function(201, module, "other");
    CHECK(has_code(k) && !has_code(other)); /* which has another name by now */
    CHECK(!has_code(202));
    owner = 100; /* the driver gave it otherwise */
    CHECK(has_code(202));
    owner = 0;
    load_library(101, cubin.at, LOG_BUFFER, PRESERVED);
    load_library(102, cubin.at, GLOBAL_SYMBOLS, PRESERVED);
    load_library(103, "//\n.version 8.0\n", LOG_BUFFER, NONE);
    for (owner = 101; owner <= 103; owner++)
        CHECK_EQ(has_code(300), owner == 101);
    owner = 0;
    CHECK_EQ(custom_cuModuleUnload(0, module), CUDA_SUCCESS);
    CHECK(!has_code(k));
    owner = 101;
    loaded_forget();
    CHECK(!has_code(300));
    CHECK_EQ(handles.count, 0);
    free(cubin.at);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 2000 };

static struct bytes shared_cubin;

/* Each has handles of its own, as the driver would give them, and for functions also some that another just gave up. */
static void *load_and_unload(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        CUmodule module = load(1000 * me, shared_cubin.at);
        uint64_t own = get_function(1000 * me + 1, module, "k");
        get_function(10 + (uintptr_t)i % 3, module, "k");
        CHECK_EQ(parameters_of(own, "k"), 3);
        custom_cuModuleUnload(0, module);
        CHECK_EQ(parameters_of(own, "?"), -1);
    }
    return NULL;
}

TEST(threads) {
    pthread_t id[THREADS];
    shared_cubin = cubin_of("k", three);
    for (uintptr_t t = 0; t < THREADS; t++)
        pthread_create(&id[t], NULL, load_and_unload, (void *)(t + 1));
    for (int t = 0; t < THREADS; t++)
        pthread_join(id[t], NULL);
    CHECK_EQ(handles.count, 0);
    free(shared_cubin.at);
}
