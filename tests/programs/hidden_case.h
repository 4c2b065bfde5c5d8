/* What the parts of hidden.c share. */
#ifndef HIDDEN_CASE_H
#define HIDDEN_CASE_H

#include <stdbool.h>

#include "driver.h"

enum { MOST = 64, BLOCKS = 64, THREADS = 256, LARGE = 8192 };

/* Begins, and then acts once a step. */
struct hidden_case {
    const char *name;
    void (*begin)(void); /* may be NULL */
    void (*step)(uint32_t add);
};

extern uint64_t secrets, words; /* words: of a buffer */
extern CUdeviceptr secret[MOST], shown[MOST];
extern CUstream out_stream; /* of the secrets */
extern CUdeviceptr slots;   /* room for LARGE addresses */
extern bool apart;          /* of a case that has begun: no secret is used openly */

void *find(const char *name);
void check(int status, const char *what);
/* The driver's function; ends the program if it fails. */
#define CALL(name, ...) check((int)((pfn_##name)(uintptr_t)find(#name))(__VA_ARGS__), #name)

/* The same of one without a row that says its parameters. */
#define CALL_OLD(name, parameters, ...) check((int)((CUresult(*) parameters)(uintptr_t)find(#name))(__VA_ARGS__), #name)

/* Of hidden.h's kernels. */
CUfunction function(const char *name);

/* A copy, or kernels, bring the secrets' addresses to the slots. */
void table(void);
void stored(void);
void to_device(CUdeviceptr to, const void *from, size_t bytes);
/* A step: the kernel that finds the secrets' addresses at the slots. */
void all_through(uint32_t add);

/* Each to a row without a name. */
extern const struct hidden_case copy_cases[];
extern const struct hidden_case graph_cases[];
extern const struct hidden_case library_cases[]; /* the secrets are numbers to them */

/* hidden_graph.c: the graph that launch_graph launches from now on. */
void instantiate(CUgraph graph);
void launch_graph(void);

#endif
