/* Asks for the driver in the ways of programs that work without one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *self = dlopen(NULL, RTLD_NOW);
    printf("library %d default %d next %d self %d unknown %d\n", library != NULL, dlsym(RTLD_DEFAULT, "cuInit") != NULL,
           dlsym(RTLD_NEXT, "cuInit") != NULL, dlsym(self, "cuMemAlloc_v2") != NULL,
           dlsym(RTLD_DEFAULT, "cuNoSuchFunction") != NULL);
    const char *error = dlerror();
    printf("error %d\n", error != NULL);
    printf("version %d %d\n", dlvsym(RTLD_DEFAULT, "cuInit", "NONE") != NULL,
           dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5") != NULL);
    return 0;
}
