/* reloads PLUGIN LIBRARY FUNCTION [WORD]: opens a plug-in that is linked with a library, calls its function and closes
 * both; then the same again, with the library somewhere else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void *must(void *found) {
    if (!found) {
        printf("%s\n", dlerror());
        fflush(stdout);
        _exit(1);
    }
    return found;
}

/* Returns where the library lay. */
static void *once(char **words) {
    struct link_map *map = NULL;
    void *plugin = must(dlopen(words[1], RTLD_NOW | RTLD_LOCAL));
    void *library = must(dlopen(words[2], RTLD_NOW | RTLD_NOLOAD));
    ((void (*)(const char *))must(dlsym(plugin, words[3])))(words[4]);
    dlinfo(library, RTLD_DI_LINKMAP, &map);
    void *at = (void *)map->l_addr;
    dlclose(library);
    dlclose(plugin);
    return at;
}

int main(int argc, char **words) {
    enum { PAGE = 4096 };
    if (argc < 5)
        return 2;
    mmap(once(words), PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    once(words);
    return 0;
}
