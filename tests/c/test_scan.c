/* What a launch touches, by the addresses among its arguments. */
#include "launch/scan.h"

#include "launch/reads.h"
#include "test.h"

static struct ledger *l;
static struct touch touches[TOUCH_MAX];
static struct op op;

static uint32_t scan(addr_t a, addr_t b) {
    addr_t words[] = {a, b};
    void *parameters[] = {words};
    static struct function f = {.known = true, .parameters = 1, .read_run = 1, .runs = 1, .run = {{.words = 2}}};
    op = (struct op){.touches = touches};
    scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters);
    return op.count;
}

/* A gathering kernel of PyTorch's with a number before the table. */
static void describe(uint64_t handle, struct layout *out) {
    static const uint16_t size[] = {8, 4, 8};
    (void)handle;
    out->known = true;
    out->parameters = 3;
    for (uint16_t i = 0; i < 3; i++) {
        out->offset[i] = 8 * i;
        out->size[i] = size[i];
    }
    strcpy(out->name, "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb");
}

static void begin(void) {
    struct allocation a = {.start = 0x100000, .bytes = 0x10000};
    l = ledger_new();
    CHECK(ledger_add(l, &a));
}

TEST(an_address_is_a_touch_and_a_number_is_none) {
    begin();
    CHECK_EQ(scan(0x100000, 42), 1);
    CHECK_EQ(op.touches[0].start, 0x100000);
    CHECK_EQ(op.touches[0].bytes, 0x10000);
    CHECK_EQ(scan(1, 42), 0);
    CHECK(op.flags & OP_UNMATCHED);
}

/* Arrays in arguments are often longer than what is used of them: the rest is what the stack held before. */
TEST(what_the_framework_took_back_is_not_touched) {
    begin();
    ledger_block_add(l, 0x101000, 0x1000);
    ledger_block_add(l, 0x102000, 0x1000);
    CHECK_EQ(scan(0x101000, 0x102000), 2);
    CHECK(ledger_block_remove(l, 0x102000));
    CHECK_EQ(scan(0x101000, 0x102000), 1);
    CHECK_EQ(op.touches[0].start, 0x101000);
    CHECK_EQ(scan(0x103000, 0x102100), 0);
    ledger_block_add(l, 0x102000, 0x800);
    CHECK_EQ(scan(0x101000, 0x102100), 2);
}

TEST(what_is_known_to_be_only_read_is) {
    addr_t words[] = {0x101000, 0x102000, 0x101800};
    void *parameters[] = {&words[0], &words[1], &words[2]};
    static const struct function f = {.known = true,
                                      .parameters = 3,
                                      .read_run = 1,
                                      .runs = 3,
                                      .run = {{.parameter = 0, .words = 1, .offset = 0},
                                              {.parameter = 1, .words = 1, .offset = 8},
                                              {.parameter = 2, .words = 1, .offset = 16}}};
    begin();
    ledger_block_add(l, 0x101000, 0x1000);
    ledger_block_add(l, 0x102000, 0x1000);
    for (int in_buffer = 0; in_buffer < 2; in_buffer++) {
        op = (struct op){.touches = touches};
        if (in_buffer)
            scan_buffer(&op, l, &f, (struct grid){1, 1}, words, sizeof words);
        else
            scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters);
        CHECK_EQ(op.count, 2); /* the third lies where the first does, which is written */
        CHECK(op.touches[0].start == 0x101000 && op.touches[0].mode == TOUCH_UPDATE);
        CHECK(op.touches[1].start == 0x102000 && op.touches[1].mode == TOUCH_READ);
    }
    CHECK(!op.touches[1].sparse); /* as much is written */
    function_describe = describe;
    const struct function *gathers = function_of(1);
    CHECK(gathers->runs == 2 && gathers->read_run == 1 && gathers->sparse);
    CHECK_EQ(kernel_reads_from("_ZN2at6native44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb21indexSelectSmallIndexIN3c"
                               "108BFloat16EljLi2ELi2ELin2EEEvNS_4cuda6detail10TensorInfoIT_T1_EENS7_IKS8_S9_EE"),
             1);
    CHECK_EQ(kernel_reads_from("_ZN4mine24vectorized_gather_kernelILi16ElEEv"), 0);
    CHECK_EQ(kernel_reads_from("_ZN2at6native18elementwise_kernelILi128ELi4E"), 0);
}

TEST(a_few_rows_of_a_table_are_sparse) {
    addr_t words[] = {0x101000, 0x102000};
    void *parameters[] = {&words[0], &words[1]};
    static const struct function f = {.known = true,
                                      .parameters = 2,
                                      .read_run = 1,
                                      .sparse = true,
                                      .runs = 2,
                                      .run = {{.parameter = 0, .words = 1}, {.parameter = 1, .words = 1, .offset = 8}}};
    begin();
    ledger_block_add(l, 0x101000, 0x200);
    for (uint64_t bytes = 0x200; bytes <= 0x2000; bytes *= 2) {
        ledger_block_add(l, 0x102000, bytes);
        op = (struct op){.touches = touches};
        scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters);
        CHECK(op.count == 2 && !op.touches[0].sparse);
        CHECK_EQ(op.touches[1].sparse, bytes >= SPARSE_PART * 0x200);
    }
    scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters); /* as a graph's nodes are gathered */
    CHECK(op.count == 2 && !op.touches[1].sparse);
    ledger_block_remove(l, 0x101000); /* nobody knows what is written */
    op = (struct op){.touches = touches};
    scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters);
    CHECK(op.count == 1 && !op.touches[0].sparse);
}

TEST(what_was_read_and_is_changed_counts_as_changed) {
    addr_t word = 0x100000;
    void *parameters[] = {&word};
    static const struct function reads = {
        .known = true, .parameters = 2, .read_run = 0, .runs = 1, .run = {{.parameter = 1, .words = 1}}};
    static const struct function changes = {
        .known = true, .parameters = 1, .read_run = 1, .runs = 1, .run = {{.words = 1}}};
    void *second[] = {NULL, &word};
    begin();
    op = (struct op){.touches = touches}; /* as a graph's nodes are gathered */
    scan_parameters(&op, l, &reads, (struct grid){1, 1}, second);
    CHECK(op.count == 1 && touches[0].mode == TOUCH_READ);
    scan_parameters(&op, l, &changes, (struct grid){1, 1}, parameters);
    CHECK(op.count == 1 && touches[0].mode == TOUCH_UPDATE);
    scan_parameters(&op, l, &reads, (struct grid){1, 1}, second);
    CHECK(op.count == 1 && touches[0].mode == TOUCH_UPDATE);
}
