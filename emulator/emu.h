/* The emulated device as a test sees it: kernels of one's own, counters, residency, the log of touches, failures.
 *
 * Needs no CUDA header. All functions are exported by the emulator's libcuda.so.1 and may be called from any thread,
 * except those that take a launch: only the kernel that was given it may call them. Sizes are bytes, times nanoseconds.
 */
#ifndef EMU_H
#define EMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- kernels --- */

struct emu_launch; /* one operation while it runs */

typedef void (*emu_function)(struct emu_launch *);

struct emu_param {
    uint32_t offset, size;
};

struct emu_kernel {
    const char *name;
    const struct emu_param *params;
    uint64_t param_count;
    emu_function run;
};

struct emu_variable {
    const char *name;
    uint64_t bytes;
    const void *initial; /* NULL: zeros */
};

/* What cuModuleLoadData and cuLibraryLoadData accept. It must outlive the module. The text "emu:builtin" is accepted
 * too: the kernels of builtin.c; and a cubin whose entry point is the address of one. */
struct emu_image {
    char magic[8]; /* EMU_MAGIC without its final zero */
    const struct emu_kernel *kernels;
    uint64_t kernel_count;
    const struct emu_variable *variables;
    uint64_t variable_count;
};

#define EMU_MAGIC   "EMUIMAGE"
#define EMU_BUILTIN "emu:builtin"

enum emu_mode { EMU_READ = 1, EMU_WRITE = 2, EMU_UPDATE = 3 };

/* Where the kernel may read or write `bytes` at a device address: the range is checked, brought in when managed, and
 * logged. An address the device may not use so ends the kernel here, by longjmp, and poisons the context.
 * NULL, and nothing else happens, for 0 bytes. */
void *emu_use(struct emu_launch *launch, uint64_t address, uint64_t bytes, int mode);
/* The launch's copy of its argument number i. */
const void *emu_arg(const struct emu_launch *launch, size_t i);
#define EMU_ARG(launch, type, i) (*(const type *)emu_arg((launch), (i)))
/* Grid (i = 0..2), block (3..5) and dynamic shared memory (6). */
uint32_t emu_shape(const struct emu_launch *launch, int i);
/* Device address of a variable of the kernel's own module; 0: it has none of that name. */
uint64_t emu_variable(const struct emu_launch *launch, const char *name);
/* Device address of the memory that a texture object (a kernel's argument) reads. */
uint64_t emu_texture(uint64_t object);
/* Declares that the kernel computes for so long on the modelled device. */
void emu_spend(struct emu_launch *launch, uint64_t ns);

/* --- calls --- */

/* Calls made so far to the functions of this name: an exported symbol, or a name without its _v2, _ptsz, _ptds. */
uint64_t emu_calls(const char *name);
/* Those of them that emu_spare spared. */
uint64_t emu_calls_spared(const char *name);
/* Adds failures: "cuMemCreate:after=2:error=2,cuMemPrefetchAsync:sticky". `after` calls succeed first (0), the next
 * fails with `error` (999), and with `sticky` all that follow; with `delay` (ms) it begins so much later instead.
 * Names as above. NULL removes all failures.
 * Returns 0, or -1 and adds nothing when the text makes no sense. EMU_FAIL is read the same way at the first call. */
int emu_fail(const char *failures);
/* Until it names another, this thread's calls by the name never fail on demand and are not counted by `after`: a
 * program names each of its calls, and failures hit only those that a library makes by itself. The text must stay. */
void emu_spare(const char *name);
/* Calls that failed on demand so far. */
uint64_t emu_failed(void);
/* Operations entered into streams so far (one for each node of a launched graph and one for the graph itself). */
uint64_t emu_operations(void);

/* --- memory --- */

struct emu_traffic {
    uint64_t faults;       /* pages brought to a device because a kernel or a copy touched them */
    uint64_t fault_bytes;  /* bytes moved for them */
    uint64_t prefetch_in;  /* bytes moved to a device by prefetches */
    uint64_t prefetch_out; /* bytes moved to the host by prefetches and host touches */
    uint64_t evicted;      /* bytes moved to the host because a device was full */
    uint64_t dropped;      /* bytes that left a device without being moved: copies, discarded pages */
    uint64_t in_place;     /* bytes used over the link where they lay */
    uint64_t copied_in;    /* bytes copied from host to device, by copies */
    uint64_t copied_out;   /* from device to host */
};

void emu_traffic(struct emu_traffic *now);
/* Physical bytes of the device: in use, and in all. 0, or -1 when there is no such device. */
int emu_device_memory(int device, uint64_t *used, uint64_t *total);
/* The most that was ever in use; with EMU_SHARED, by all processes together. */
uint64_t emu_device_peak(int device);
/* The most of these that were in pages of managed memory whose content was not discarded, but for pages that came to a
 * kernel which none of its arguments led to them. */
uint64_t emu_pages_peak(int device);
/* The most bytes, in whole pages of managed memory, that one operation of this process touched there, but for those of
 * such a kernel. */
uint64_t emu_touched_peak(int device);
/* Bytes of the host's memory that handles (cuMemCreate) hold now, and the most they ever held. */
void emu_host_memory(uint64_t *used, uint64_t *most);

enum { EMU_NOWHERE = -3, EMU_HOST = -1, EMU_UNKNOWN = -2 };

/* Where the 2 MiB page of managed memory at this address lies: a device's number, EMU_HOST, EMU_NOWHERE when nothing
 * was ever stored in it, EMU_UNKNOWN when it is not managed memory. */
int emu_page(uint64_t address);
/* Where the driver was advised to keep that page: a device's number, EMU_HOST, EMU_UNKNOWN: it was not. */
int emu_preferred(uint64_t address);
/* Whether the address is mapped (cuMemMap). */
int emu_mapped(uint64_t address);
/* The program touches managed memory from the CPU. Of its loads and stores only the first store to a page is seen: the
 * others a test has to tell. */
void emu_touch_from_host(uint64_t address, uint64_t bytes);

/* --- the log of touches: what operations truly touched --- */

struct emu_touch {
    uint64_t operation; /* number of the operation, as counted by emu_operations, from 1 */
    uint64_t address, bytes;
    uint32_t mode;  /* enum emu_mode */
    int32_t device; /* that did it */
    char name[48];  /* the kernel's, or "copy", "memset", "memop", "prefetch" */
};

/* Forgets the log and starts (1) or stops (0) logging. */
void emu_log(int on);
/* Copies at most n touches from number `from` on. Returns how many there are in all. */
size_t emu_log_read(size_t from, struct emu_touch *out, size_t n);

#ifdef __cplusplus
}
#endif

#endif
