#include "test.h"

#include "code/decode.h"
#include "code/verdict.h"

enum { INSTRUCTIONS = 48 };

static uint64_t state = 11;

static uint64_t random_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t high = state >> 32;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return high << 32 | state >> 32;
}

/* Instructions of sm_90 as compilers write them, to begin with. */
static const uint64_t real[][2] = {
    {0x00000a00ff017b82, 0x000fe20000000800}, /* LDC R1, c[0x0][0x28] */
    {0x00008600ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x218] */
    {0x0000820000047ab9, 0x000fe20000000a00}, /* ULDC.64 UR4, c[0x0][0x208] */
    {0x0000840000067ab9, 0x000fcc0000000a00}, /* ULDC.64 UR6, c[0x0][0x210] */
    {0x0000000000007919, 0x000e220000002100}, /* S2R R0, SR_TID.X */
    {0x0000000809027825, 0x001fcc00078e0202}, /* IMAD.WIDE R2, R9, 0x8, R2 */
    {0x0000000402027981, 0x000ea4000c1e1b00}, /* LDG.E.64 R2, desc[UR4][R2.64] */
    {0x0000000602067c11, 0x004fc8000f8010ff}, /* LEA R6, P0, R2, UR6, 0x2 */
    {0x0000000702077c11, 0x000fcc00080f1403}, /* LEA.HI.X R7, R2, UR7, R3, 0x2, P0 */
    {0x0000000406077981, 0x000ea2000c1e1900}, /* LDG.E R7, desc[UR4][R6.64] */
    {0x0000000704007986, 0x004fe2000c101904}, /* STG.E desc[UR4][R4.64], R7 */
    {0x0000000609007c0c, 0x000fda000bf06270}, /* ISETP.GE.AND P0, PT, R9, UR6, PT */
    {0x0000006000000947, 0x000fea0003800000}, /* @P0 BRA */
    {0xfffffffc00fc7947, 0x000fc0000383ffff}, /* BRA */
    {0x0000000000207944, 0x000fea0003c00000}, /* CALL.REL.NOINC */
    {0xfffffffc14ac7950, 0x000fec0003c3ffff}, /* RET.REL.NODEC R20 */
    {0x00000e4000007945, 0x000fe20003800000}, /* BSSY B0 */
    {0x0000000000007941, 0x000fea0003800000}, /* BSYNC B0 */
    {0x0000000b0a007387, 0x000fe20000100a00}, /* STL.64 [R10], R11 */
    {0x0000100001027983, 0x000ea20000100a00}, /* LDL.64 R2, [R1+0x10] */
    {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
};

/* A kernel of random instructions, most of them near to real ones. */
static struct kernel random_kernel(uint64_t text[INSTRUCTIONS][2]) {
    struct kernel k = {.name = "k", .architecture = 90, .parameters = 0x210, .parameter_bytes = 64, .functions = 2};
    k.text = (struct view){(const uint8_t *)text, sizeof(uint64_t[INSTRUCTIONS][2])};
    k.pointer.bit[0] = 0x7f;
    k.function[1] = 16 * (random_bits() % INSTRUCTIONS);
    for (int i = 0; i < INSTRUCTIONS; i++) {
        memcpy(text[i], real[random_bits() % (sizeof real / sizeof real[0])], sizeof text[i]);
        for (uint64_t n = random_bits() % 4; n > 0; n--)
            text[i][random_bits() % 2] ^= UINT64_C(1) << random_bits() % 64;
        if (random_bits() % 8 == 0)
            text[i][0] = (text[i][0] & ~UINT64_C(0xffffffff0000)) | (random_bits() % 64) << 34;
    }
    return k;
}

TEST(random_kernels_end_with_a_verdict) {
    static uint64_t text[INSTRUCTIONS][2];
    static struct kernel_verdict v;
    int counts[4] = {0};
    for (int round = 0; round < 600; round++) {
        struct kernel k = random_kernel(text);
        verdict_of(&k, &v);
        counts[v.verdict]++;
        CHECK(v.rules <= VERDICT_RULES);
        CHECK((v.reason != NULL) == (v.verdict == VERDICT_UNKNOWN || v.verdict == VERDICT_FOLLOWS));
    }
    CHECK(counts[VERDICT_UNKNOWN] > 200);
    CHECK(counts[VERDICT_DIRECT] > 4);
}

TEST(kernels_that_begin_with_an_unknown_instruction_are_unknown) {
    static uint64_t text[INSTRUCTIONS][2];
    static struct kernel_verdict v;
    for (int round = 0; round < 300; round++) {
        struct kernel k = random_kernel(text);
        struct instruction i;
        text[0][0] = random_bits() | 0x7000;
        text[0][1] = random_bits();
        decode((const uint8_t *)text[0], 90, &i);
        if (i.operation != OP_UNKNOWN)
            continue;
        verdict_of(&k, &v);
        CHECK_EQ(v.verdict, VERDICT_UNKNOWN);
    }
}

TEST(code_that_is_too_large_is_unknown) {
    static struct kernel_verdict v;
    enum { LARGE = 70000 };
    uint64_t (*text)[2] = calloc(LARGE, sizeof *text);
    for (int i = 0; i < LARGE; i++)
        memcpy(text[i], real[20], sizeof text[i]);
    struct kernel k = {.name = "k", .architecture = 90, .text = {(const uint8_t *)text, LARGE * sizeof *text}};
    verdict_of(&k, &v);
    CHECK_EQ(v.verdict, VERDICT_UNKNOWN);
    k.text.bytes = 16;
    verdict_of(&k, &v);
    CHECK_EQ(v.verdict, VERDICT_DIRECT);
    free(text);
}

/* A carry of an address is left in P1, which is then written under P0 and read under it. */
static const uint64_t chooses[][2] = {
    {0x00000a00ff017b82, 0x000fe20000000800}, /* LDC R1, c[0x0][0x28] */
    {0x0000820000047ab9, 0x000fe20000000a00}, /* ULDC.64 UR4, c[0x0][0x208] */
    {0x00008600ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x218] */
    {0x0000840000067ab9, 0x000fcc0000000a00}, /* ULDC.64 UR6, c[0x0][0x210] */
    {0x0000000000007919, 0x000e220000002100}, /* S2R R0, SR_TID.X */
    {0x0000000600067c11, 0x004fc8000f8210ff}, /* LEA R6, P1, R0, UR6, 0x2 */
    {0x0000000402077981, 0x000ea2000c1e1900}, /* LDG.E R7, desc[UR4][R2.64] */
    {0x000000ff000a7202, 0x000fe40000000f00}, /* MOV R10, RZ */
    {0x000000ff0700720c, 0x000fda0003f05270}, /* ISETP.NE.AND P0, PT, R7, RZ, PT */
    {0x000000070700820c, 0x000fda0003f26270}, /* @!P0 ISETP.GE.AND P1, PT, R7, R7, PT */
    {0x000000ff0000720c, 0x000fda0003fe5270}, /* ISETP.NE.AND PT, PT, R0, RZ, PT; in a mutant to P0 */
    {0x00000001ff0a8807, 0x000fe20000800000}, /* @!P0 SEL R10, RZ, 0x1, P1 */
    {0x000000060a067c11, 0x004fc8000f8010ff}, /* LEA R6, P0, R10, UR6, 0x2 */
    {0x000000070a077c11, 0x004fc800080f14ff}, /* LEA.HI.X R7, R10, UR7, RZ, 0x2, P0 */
    {0x0000000406087981, 0x000ea2000c1e1900}, /* LDG.E R8, desc[UR4][R6.64] */
    {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
};

TEST(a_predicate_is_known_under_that_under_which_it_was_written) {
    static uint64_t text[sizeof chooses / sizeof chooses[0]][2];
    static struct kernel_verdict v;
    struct kernel k = {.name = "k", .architecture = 90, .parameters = 0x210, .parameter_bytes = 16, .functions = 1};
    k.text = (struct view){(const uint8_t *)text, sizeof text};
    k.pointer.bit[0] = 3;
    memcpy(text, chooses, sizeof text);
    verdict_of(&k, &v);
    CHECK_EQ(v.verdict, VERDICT_INDEXED);
    CHECK(v.rules == 1 && words_have(&v.rule[0].one, 0) && words_count(&v.rule[0].none) == 0);
    text[10][1] = chooses[8][1]; /* P0 is another by then */
    verdict_of(&k, &v);
    CHECK_EQ(v.verdict, VERDICT_UNKNOWN);
    memcpy(text, chooses, sizeof text);
    text[9][0] ^= 0x1000; /* under P1, which it writes itself */
    verdict_of(&k, &v);
    CHECK_EQ(v.verdict, VERDICT_UNKNOWN);
}
