#include "launch/reads.h"

#include <string.h>

/* PyTorch's, which write to the first parameter and gather rows of the second: of a table of embeddings, above all,
 * which would otherwise be written to the host whenever it leaves. */
static const char *const gathering[] = {
    "21indexSelectSmallIndexI", "21indexSelectLargeIndexI", /* ATen/native/cuda/Indexing.cu */
    "24vectorized_gather_kernelI",                          /* ATen/native/cuda/IndexKernelUtils.cu */
};

uint16_t kernel_reads_from(const char *name) {
    if (strncmp(name, "_ZN2at6native", strlen("_ZN2at6native")) != 0)
        return 0;
    for (size_t i = 0; i < sizeof gathering / sizeof *gathering; i++)
        if (strstr(name, gathering[i]))
            return 1;
    return 0;
}
