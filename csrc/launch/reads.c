#include "launch/reads.h"

#include "launch/named.h"

/* PyTorch's, which write to the first parameter and gather rows of the second: of a table of embeddings, above all,
 * which would otherwise be written to the host whenever it leaves. */
static const struct name_rule gathering[] = {
    /* ATen/native/cuda/Indexing.cu */
    {"_ZN2at6native", {"21indexSelectSmallIndexI"}},
    {"_ZN2at6native", {"21indexSelectLargeIndexI"}},
    /* ATen/native/cuda/IndexKernelUtils.cu */
    {"_ZN2at6native", {"24vectorized_gather_kernelI"}},
};

uint16_t kernel_reads_from(const char *name) {
    return is_named(gathering, sizeof gathering / sizeof *gathering, name);
}
