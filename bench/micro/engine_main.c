/* A program around loop_engine, to count instructions of: engine_main POLICY PAGES FRAMES TIMES. Operations are those
 * of test_engine_bench.py: two pages read, one read, one updated; all together touch every page once a period. */
#include <stdlib.h>

#include "ulms.h"

enum { PAGE = 2 << 20, MIB = 1 << 20, EACH = 4, TOUCHES = 3, WINDOW = 256 };

uint64_t loop_engine(struct ulms_engine *e, const struct ulms_engine_touch *touches, uint64_t each, uint64_t n,
                     uint64_t times, uint64_t window);

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    uint64_t pages = strtoull(argv[2], NULL, 10), frames = strtoull(argv[3], NULL, 10), n = pages / EACH;
    uint64_t times = strtoull(argv[4], NULL, 10);
    struct ulms_engine_settings settings = {.policy = argv[1],
                                            .page_bytes = PAGE,
                                            .budget = frames * PAGE,
                                            .run_bytes = 32 * MIB,
                                            .ahead_bytes = 64 * MIB,
                                            .keeps = 1,
                                            .faults = 1};
    struct ulms_engine *e = ulms_engine_new(&settings);
    struct ulms_engine_touch *touches = calloc(n * TOUCHES, sizeof *touches);
    if (!e || !touches || !ulms_engine_allocated(e, 0, pages * PAGE))
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = i * EACH * PAGE;
        touches[TOUCHES * i] = (struct ulms_engine_touch){first, 2 * PAGE, ULMS_TOUCH_READ};
        touches[TOUCHES * i + 1] = (struct ulms_engine_touch){first + 2 * PAGE, PAGE, ULMS_TOUCH_READ};
        touches[TOUCHES * i + 2] = (struct ulms_engine_touch){first + 3 * PAGE, PAGE, ULMS_TOUCH_UPDATE};
    }
    return loop_engine(e, touches, TOUCHES, n, times, WINDOW) != times;
}
