/* The trace: what the program did, in a compact binary file (ULMS_TRACE). docs/trace-format.md describes the file.
 *
 * Each thread fills a ring of its own; one background thread empties the rings into the file. A full ring drops the
 * record and counts the drop: memory is bounded and the program never waits. The file is readable up to its last
 * whole chunk whenever the process dies. No function fails visibly: after an error the trace ends with one WARN line.
 *
 * Every record carries a serial of its own, taken when it is made: sorted by it, the records of all threads are the
 * order in which things happened. Operations take theirs before the call (op.serial). Ask trace_on before calling. The
 * live counters go into the file by themselves, now and then and at the end. */
#ifndef ULMS_TRACE_H
#define ULMS_TRACE_H

#include "launch/op.h"
#include "ledger/ledger.h"
#include "ulms.h"

/* Starts the writer, and tells which file it writes; `header` is one line of JSON that describes machine and program.
 * False: told, nothing traced. */
bool trace_open(const char *path, const char *header);
extern _Atomic bool trace_on; /* read before building anything only a trace needs */

/* Touches of a graph launch are left out: those of trace_graph, under op.object, hold. */
void trace_op(const struct op *op);
/* The operation ran from start_ns for ns nanoseconds of device time (CLOCK_MONOTONIC as near as events tell). */
void trace_retired(uint64_t serial, uint64_t start_ns, uint64_t ns);
void trace_allocation(const struct allocation *a, bool born);
void trace_block(addr_t start, uint64_t bytes, bool born);
/* Names an id the first time it is used. */
void trace_function(uint32_t id, const char *name);
/* Names a value of op.api. */
void trace_api(uint16_t api, const char *symbol);
/* What one launch of the executable graph runs; said again whenever it changes. */
void trace_graph(uint64_t exec, uint32_t kernels, const struct touch *touches, uint32_t count);
void trace_table(addr_t start, uint64_t bytes, const addr_t *pointers, uint32_t count);
/* A move is done or has failed (also: enum move_flag); resident: bytes of the device's pages now. */
void trace_move(int32_t device, const struct ulms_move *m, unsigned also, uint64_t begun_ns, uint64_t resident);
/* The operation was held from begun_ns on, for ns, for pages of so many bytes. */
void trace_hold(int32_t device, uint64_t serial, uint64_t begun_ns, uint64_t ns, uint64_t missing);
/* Empties the rings, ends the file, joins the writer. */
void trace_close(void);
/* In the child of a fork: tracing is off, the file stays the parent's. */
void trace_fork_child(void);

#endif
